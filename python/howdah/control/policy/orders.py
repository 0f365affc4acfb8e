"""Orders: what people and programs want of a controller, beyond its policy file.

They are values on the bus, so that a controller that takes over finds them there:

- ``order.asked/CLASS/WHO``: somebody wants the class to have its share, for all its hosts or for one.
  With a time to live that WHO renews, it ends with who asked. A class is asked for as long as anybody asks.
- ``order.changed/CLASS``: other terms for a class than in the policy file, as a JSON object of its keys.
- ``order.drained/AGENT``: the host is left with its minimums.
"""

from collections.abc import Mapping

import msgspec

from howdah import HowdahError

PREFIX = "order."
REQUESTED = f"{PREFIX}asked/"

TermsTable = dict[str, str | int]
"""Terms of a class by the keys of the policy file, written as there."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)


class ClassRequest(msgspec.Struct, frozen=True):
    """The value of an order that asks for a class."""

    until_unix_s: float | None = None
    """For people: the time to live of the order ends it."""
    host: str | None = None
    """The host that the share is for; null: every host of the class."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """All orders that stand at one revision of the bus."""

    revision: int = 0
    requested: frozenset[str] = frozenset()
    """Classes that somebody asks for."""
    hosts: dict[str, frozenset[str]] = {}
    """The hosts of each class that is asked for on behalf of single hosts only."""
    changed: dict[str, TermsTable] = {}
    """The ordered terms by class."""
    drained: frozenset[str] = frozenset()
    """Agents."""


class OrderBook:
    """Gathers single values, as a watch of the bus tells them."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._revision = 0

    def note(self, key: str, value: bytes | None, revision: int) -> None:
        """Takes in the new value of a key; null: it is gone. Raises HowdahError for what is no order."""
        self._revision = max(self._revision, revision)
        self._values.pop(key, None)
        if value is not None:
            _check(key, value)
            self._values[key] = value

    def value(self, key: str) -> bytes | None:
        """The value of a key; null: it has none."""
        return self._values.get(key)

    @property
    def requests(self) -> dict[tuple[str, str], ClassRequest]:
        """The requests for classes, by class and who asks."""
        found = {}
        for key, value in sorted(self._values.items()):
            if key.startswith(REQUESTED):
                name, _, who = key.removeprefix(REQUESTED).partition("/")
                found[name, who] = read_request(value)
        return found

    def orders(self) -> Orders:
        """All orders that stand now."""
        return gathered(self._values, self._revision)


def request_key(name: str, who: str) -> str:
    """The key of the order by which ``who`` asks for a class."""
    return f"{REQUESTED}{name}/{who}"


def changed_key(name: str) -> str:
    """The key of the order that gives a class other terms."""
    return f"{PREFIX}changed/{name}"


def drained_key(host: str) -> str:
    """The key of the order that drains a host."""
    return f"{PREFIX}drained/{host}"


def gathered(values: Mapping[str, bytes], revision: int) -> Orders:
    """The orders that these keys are. Raises HowdahError for one that is none."""
    requested: dict[str, set[str | None]] = {}
    drained, changed = set(), {}
    for key, value in values.items():
        kind, name = _check(key, value)
        if kind == "changed":
            changed[name] = msgspec.json.decode(value, type=TermsTable)
        elif kind == "asked":
            requested.setdefault(name, set()).add(read_request(value).host)
        else:
            drained.add(name)
    return Orders(
        revision=revision,
        requested=frozenset(requested),
        hosts={
            name: frozenset(host for host in hosts if host is not None)
            for name, hosts in requested.items()
            if None not in hosts
        },
        changed=changed,
        drained=frozenset(drained),
    )


def read_request(value: bytes) -> ClassRequest:
    """The request for a class. A value that cannot be read asks for all of it, until it is released."""
    try:
        return msgspec.json.decode(value, type=ClassRequest)
    except _UNREADABLE:
        return ClassRequest()


def _check(key: str, value: bytes) -> tuple[str, str]:
    """The kind of order, and the name of its class or host."""
    match key.removeprefix(PREFIX).split("/"):
        case ["asked", name, _]:
            return "asked", name
        case ["drained", name]:
            return "drained", name
        case ["changed", name]:
            try:
                msgspec.json.decode(value, type=TermsTable)
            except _UNREADABLE as error:
                raise HowdahError(f"{key} on the bus is no order ({error}); delete it") from None
            return "changed", name
    raise HowdahError(f"{key} on the bus is no order; delete it")
