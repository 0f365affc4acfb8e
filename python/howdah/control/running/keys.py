"""Where on the bus what lies, and how it is read.

An agent watches what is said to it alone, so that fifty of them do not each read what is said to all.
"""

import msgspec

from howdah import HowdahError
from howdah.control.messages import Call, Grant, M, Places, Report, decode
from howdah.control.orders import PREFIX as ORDERS

REPORTS = "report."
AGENTS = "agent."
LEADING = "leading."
LEADER = f"{LEADING}controller"
TOLD = ("grant", "call", "places")
ASKED = f"{ORDERS}asked/"


class Leading(msgspec.Struct, frozen=True):
    """Who leads, for people; it decides nothing."""

    controller: str
    epoch: int


Message = Report | Grant | Call | Places


def key_of(message: Message) -> str:
    """Where it is put."""
    if isinstance(message, Report):
        return f"{REPORTS}{message.agent}"
    return f"{told(message.agent)}{type(message).__name__.lower()}"


def told(agent: str) -> str:
    """What begins the keys of all that is said to an agent."""
    return f"{AGENTS}{agent}."


def read(where: str, value: bytes, kind: type[M]) -> M:
    """The message under the key ``where``.

    Raises HowdahError for one that is none, of another version, or under the key of another agent.
    """
    message = decode(value, kind, where)
    if key_of(message) != where:
        raise HowdahError(f"{where} on the bus is about {message.agent}; give each host a name of its own")
    return message


def asked(name: str, who: str) -> str:
    """The order of ``who`` that asks for a class."""
    return f"{ASKED}{name}/{who}"


def changed(name: str) -> str:
    """The order that gives a class other terms."""
    return f"{ORDERS}changed/{name}"


def drained(host: str) -> str:
    """The order that drains a host."""
    return f"{ORDERS}drained/{host}"
