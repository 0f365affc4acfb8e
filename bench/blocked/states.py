"""What is between the two hosts, nothing, firewalls or a jump host, and the way that the data takes then."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from howdah import lab
from howdah.lab import Lab, Topology
from howdah.values.outcome import Outcome

STRAIGHT, BY_FAR_END, THROUGH_SSH = "straight", "the far end connected", "through ssh"
"""The ways that data takes."""
NEAR, FAR, JUMP = "near", "far", "jump"
HOSTS: Topology = lab.dumbbell([NEAR], [FAR, JUMP])
INSIDE = "inside"
"""The far host as ssh of the near one calls it to reach it through the jump host."""

_WALL = """\
table inet wall {{
    chain input {{
        type filter hook input priority filter;
        iif lo accept
        {open}
        tcp flags & (syn | ack) == syn drop
    }}
}}
"""
_SSH = "tcp dport 22 accept"
_SSH_FROM_JUMP = "ip saddr {jump} tcp dport 22 accept"
_CONFIG = "/etc/ssh/ssh_config"


class State(NamedTuple):
    """A state of the path, in which every copy takes one way."""

    name: str
    to: str
    """The far host, as the command names it."""
    open: Mapping[str, str]
    """What is let in, of the hosts behind a firewall; all else is dropped."""
    way: str


OPEN = State("open", FAR, {}, STRAIGHT)
FAR_CLOSED = State("incoming closed at the far end", FAR, {FAR: _SSH}, BY_FAR_END)
NEAR_CLOSED = State("incoming closed at the near end", FAR, {NEAR: _SSH}, STRAIGHT)
BOTH_CLOSED = State("incoming closed at both ends", FAR, {FAR: _SSH, NEAR: _SSH}, THROUGH_SSH)
ONLY_JUMP = State(
    "only port 22, through a jump host",
    INSIDE,
    {FAR: _SSH_FROM_JUMP, JUMP: _SSH, NEAR: _SSH},
    THROUGH_SSH,
)
STATES = (OPEN, FAR_CLOSED, NEAR_CLOSED, BOTH_CLOSED, ONLY_JUMP)


def name_inside(wan: Lab) -> None:
    """Gives ssh of this lab the name INSIDE for the far host, with the jump host before it.

    It names the far host by its address: by the same name as a straight login, ssh before 9.6 would take a
    straight login that is kept for the one through the jump host.
    """
    given = wan.run(NEAR, ["cat", _CONFIG], capture_output=True, text=True, check=True).stdout
    inside = f"Host {INSIDE}\n    HostName {wan.addresses[FAR]}\n    ProxyJump {JUMP}\n"
    text = inside + given.replace("Host ", f"Host {INSIDE} ", 1)
    wan.run(NEAR, ["sh", "-c", f"cat > {_CONFIG}"], input=text, text=True, check=True)


@contextlib.contextmanager
def behind(wan: Lab, state: State) -> Iterator[None]:
    """Has the firewalls of ``state`` up while the block lasts."""
    try:
        for host, let_in in state.open.items():
            rules = _WALL.format(open=let_in.format(jump=wan.addresses[JUMP]))
            wan.run(host, ["nft", "-f", "-"], input=rules, text=True, check=True)
        yield
    finally:
        for host in state.open:
            wan.run(host, ["nft", "flush", "ruleset"], check=True)


def way_of(outcome: Outcome) -> str:
    """The way that the data of a copy took."""
    if outcome.through_ssh is not None:
        return THROUGH_SSH
    return STRAIGHT if outcome.by_far_end is None else BY_FAR_END
