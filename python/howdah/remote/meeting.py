"""The far ends of a copy between two other hosts: which connects, and where to; when payload began to move.

Each tries the data port of the other, both at once, while no job has been given. The one that sends connects
if it can, else the one that receives (after RFC 8305). What a far end says of its own address counts only as
far as ssh bears it out: ssh has connected from here to an address, and a far end that lies could name any
other.
"""

import ipaddress
import socket
import time
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from howdah import HowdahError, decoding, interrupt
from howdah.remote.far import TICK_S, ConnectionLost
from howdah.remote.messages import Between, FarHello, PortTried
from howdah.remote.standby import FarSession
from howdah.values.outcome import Outcome

_ALONE_S = 1.5
"""The time that the sending end has to itself; a firewall that drops keeps it waiting for some seconds."""
ADDRESSES_MAX = 8
"""The most addresses of one host that are tried (crates/wire/src/limits.rs)."""

Connects = Literal["sender", "receiver"]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Apart(HowdahError):
    """Two far ends that cannot reach one another."""


class FarEnd(NamedTuple):
    """A far end that has said hello."""

    session: FarSession
    hello: FarHello

    @property
    def name(self) -> str:
        """The host as its user calls it."""
        return self.session.far.login.host.rpartition("@")[2]

    @property
    def addresses(self) -> list[str]:
        """The addresses by which another host may reach it."""
        found = addresses(self.session.far.login.data_address, self.hello.addresses)
        return [str(each) for each in found]


_Way = tuple[FarEnd, FarEnd, Connects]
_UNKNOWN = "0.0.0.0"  # noqa: S104, no address to listen at
"""The address of a far end that connects, where it is not known."""


def meet(sender: FarEnd, receiver: FarEnd) -> tuple[Between, float]:
    """Which of the two connects to the other, and the round trip between them in seconds.

    Raises Apart with both reasons where neither can, and HowdahError where a far end fails.
    """
    ways: tuple[_Way, _Way] = ((sender, receiver, "sender"), (receiver, sender, "receiver"))
    for one, other, _ in ways:
        if other.addresses:
            one.session.session.try_port(other.addresses, other.hello.port)
    tried: dict[Connects, PortTried] = {}
    began_s = time.monotonic()
    while (chosen := choose(tried, time.monotonic() - began_s)) is None:
        if len(tried) == len(ways):
            whys = (f"{one.name} to {other.name}: {tried[way].why_not}" for one, other, way in ways)
            both = f"{sender.name} and {receiver.name}"
            raise Apart(f"{both} cannot reach each other's data port ({'; '.join(whys)})")
        for one, other, way in ways:
            if way not in tried and (answer := _tried(one, other)) is not None:
                tried[way] = answer
    way, rtt_s = chosen
    to, by = (receiver, sender) if way == "sender" else (sender, receiver)
    between = Between(
        sender=sender.name,
        receiver=receiver.name,
        connects=way,
        to=to.addresses,
        from_=next(iter(by.addresses), _UNKNOWN),
    )
    return between, rtt_s


def choose(tried: Mapping[Connects, PortTried], after_s: float) -> tuple[Connects, float] | None:
    """Which end connects, and the round trip, by what is known ``after_s``; None: neither, or not yet."""
    sender, receiver = tried.get("sender"), tried.get("receiver")
    if sender is not None and sender.rtt_s is not None:
        return "sender", sender.rtt_s
    if receiver is not None and receiver.rtt_s is not None and (sender is not None or after_s > _ALONE_S):
        return "receiver", receiver.rtt_s
    return None


def addresses(connected_to: str | None, told: list[str]) -> list[Address]:
    """The addresses by which another host may reach a far end, best first.

    ``connected_to`` is the name or address that ssh connects to, None where it goes through another host, and
    ``told`` what the far end says. Of a name all addresses count that it has here, and the one that ssh took
    is the first; what is only told counts where there is no other.
    """
    own = usable(told)
    named = usable(resolved(connected_to)) if connected_to is not None else []
    found = [each for each in own if each in named] + [each for each in named if each not in own]
    return (found or own)[:ADDRESSES_MAX]


def usable(texts: list[str]) -> list[Address]:
    """Those that mean the same on another host."""
    found: list[Address] = []
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        here = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
        if not (here or address in found):
            found.append(address)
    return found


def resolved(name: str) -> list[str]:
    """The addresses of a name; none where this host does not know it."""
    try:
        return [str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        # ssh may have a name of its own for it.
        return []


def _tried(one: FarEnd, other: FarEnd) -> PortTried | None:
    """What came of the port of ``other``; None: nothing yet."""
    if not other.addresses:
        return PortTried(why_not="it has only a loopback address")
    session, far = one.session.session, one.session.far
    interrupt.check()
    far.drain()
    try:
        answer = session.port_tried(TICK_S / 10)
    except HowdahError as error:
        raise HowdahError(f"{one.name}: {error}") from None
    if answer is None and far.exit_status(0.0) is not None:
        raise ConnectionLost(f"{one.name} ended before it had tried the data port")
    return None if answer is None else decoding.from_json(answer, PortTried)


def with_its_begin(outcome: Outcome) -> Outcome:
    """The outcome with the time at which payload began to move; without, where no thread has booked it.

    This host sees the begin late, by the first report of what has arrived. A report comes each tenth of a
    second, and takes half a round trip; a small copy has moved all of its bytes by then. But each receiving
    thread books its time from its first piece on, and the receiver how long it flushed and named then.
    """
    if outcome.setup_s is None or outcome.moving_s is None:
        return outcome
    worked_s = max(
        (each.receiver.worked_s for each in outcome.streams if each.receiver is not None), default=0.0
    )
    if not worked_s:
        return msgspec.structs.replace(outcome, setup_s=None, moving_s=None)
    ended_s = outcome.setup_s + outcome.moving_s
    moving_s = min(max(outcome.moving_s, worked_s + outcome.finishing_s), ended_s)
    if moving_s == outcome.moving_s:
        return outcome
    return msgspec.structs.replace(outcome, setup_s=ended_s - moving_s, moving_s=moving_s)
