"""The addresses by which two far hosts may reach one another."""

import msgspec
import pytest

from howdah import decoding
from howdah.remote.meeting import ADDRESSES_MAX, Connects, addresses, choose
from howdah.remote.messages import FarHello, PortTried
from howdah.values.record import HostLimits


@pytest.mark.parametrize(
    ("connected_to", "told", "found"),
    [
        # What ssh has connected to bears it out.
        ("192.0.2.7", ["192.0.2.7"], ["192.0.2.7"]),
        ("2001:db8::7", ["2001:db8::7"], ["2001:db8::7"]),
        ("192.0.2.7", ["::ffff:192.0.2.7"], ["192.0.2.7"]),
        # Behind a translator of addresses, or by one that lies.
        ("203.0.113.9", ["10.0.0.5"], ["203.0.113.9"]),
        # Through a jump host there is nothing else.
        (None, ["10.0.0.5"], ["10.0.0.5"]),
        (None, ["10.0.0.5", "10.0.0.5", "nonsense"], ["10.0.0.5"]),
        # Through a port of this host's own loopback.
        ("localhost", ["10.0.0.5"], ["10.0.0.5"]),
        ("no-such-name.invalid", ["10.0.0.5"], ["10.0.0.5"]),
        # These mean something else on another host.
        ("127.0.0.1", ["127.0.0.1"], []),
        ("localhost", ["::1"], []),
        (None, ["fe80::1%eth0"], []),
        (None, ["169.254.1.1", "::"], []),
        (None, [], []),
    ],
)
def test_addresses_are_those_that_ssh_bears_out(
    connected_to: str | None, told: list[str], found: list[str]
) -> None:
    assert [str(each) for each in addresses(connected_to, told)] == found


def test_they_have_a_bound() -> None:
    assert len(addresses(None, [f"10.0.0.{last}" for last in range(1, 100)])) == ADDRESSES_MAX


NO = PortTried(why_not="no answer")
YES = PortTried(rtt_s=0.1)


@pytest.mark.parametrize(
    ("sender", "receiver", "after_s", "connects"),
    [
        (YES, None, 0.1, "sender"),
        (YES, YES, 9.0, "sender"),
        (None, YES, 0.1, None),
        (None, YES, 2.0, "receiver"),
        (NO, YES, 0.1, "receiver"),
        (NO, None, 9.0, None),
        (NO, NO, 9.0, None),
        (None, None, 9.0, None),
    ],
)
def test_the_end_that_sends_connects_unless_it_cannot_or_is_slow(
    sender: PortTried | None, receiver: PortTried | None, after_s: float, connects: str | None
) -> None:
    known: dict[Connects, PortTried | None] = {"sender": sender, "receiver": receiver}
    tried = {way: what for way, what in known.items() if what is not None}
    assert choose(tried, after_s) == (None if connects is None else (connects, 0.1))


def test_a_far_end_that_tells_no_address_is_refused_when_it_says_hello() -> None:
    told = msgspec.json.encode(FarHello(version="1", limits=HostLimits.here(), addresses=[], port=9))
    with pytest.raises(msgspec.ValidationError, match="addresses"):
        decoding.from_json(told, FarHello)
