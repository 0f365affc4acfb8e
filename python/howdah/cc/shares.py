"""Shares in this host's kernel: rates that connections hold together under hold, for the time of a lease.

A place says which connections a rule is for. Rates are bits per second on the wire. Instants are nanoseconds
of ``CLOCK_BOOTTIME``, the clock that goes on while a host sleeps, so that a lease runs out there too. Needs
root.
"""

import time
from collections.abc import Sequence

import msgspec

from howdah import _native, decoding

ALL_PORTS = "1-65535"


class Place(msgspec.Struct, frozen=True):
    """The connections of a rule as a person writes them: by a prefix, a cgroup, or both."""

    to: str | None
    """The prefix that they go to, as 10.9.0.0/16; null: anywhere."""
    ports: str = ALL_PORTS
    """The ports of either end, as 5000-5100."""
    namespace: int | None = None
    """The inode of the only network namespace it is for; null: all."""
    cgroup: str | None = None
    """The path of the only cgroup it is for, with those below it, as /system.slice/postgresql.service."""

    def check(self) -> None:
        """Raises HowdahError when it cannot be a place on any host."""
        _native.cc_check_place(msgspec.json.encode(self))


def cgroup_id(path: str) -> int | None:
    """The kernel's number of the cgroup of this path; one made anew has another. Null: there is none.

    Raises HowdahError where ``path`` is none, or the unified hierarchy is not mounted.
    """
    return _native.cc_cgroup(path)


class Share(msgspec.Struct, frozen=True):
    """The rate that connections may send at together, and what they do."""

    number: int
    """The number by which targets name it, from 1."""
    owner: str
    name: str
    rate_bps: int
    """The rate until ``until_ns``."""
    minimum_bps: int
    """The rate from then on; 0: each connection is ordinary."""
    until_ns: int
    left_s: float
    """Seconds of the lease left when this was read; 0: it has run out."""
    connections: int
    """Connections under hold now."""
    active: int
    """Connections that divide it: they have data that waits for nothing but its turn."""
    sent_bytes: int
    """Bytes on the wire, by all of its connections since it was defined."""
    acked_bytes: int
    """Bytes of payload acknowledged since then. As TCP counts it, the end of a connection is one byte."""

    @property
    def in_force_bps(self) -> int:
        """The rate in force when this was read; 0: each connection is ordinary."""
        return self.rate_bps if self.left_s > 0 else self.minimum_bps


class Placed(msgspec.Struct, frozen=True):
    """Connections, and the share they get."""

    place: Place
    share: str
    """The name of the share."""


class Placing(msgspec.Struct, frozen=True):
    """The result of placing."""

    begun: int
    """Rules that are new."""
    ended: int
    """Rules that are no more."""
    moved: int
    """Live connections that were given a share, or what they had before one."""
    missing: list[str]
    """Cgroups that are not there. A rule for one that was stays until there is another of its path."""


class Shares:
    """The shares of one owner, such as an agent. They, and the rules that give them, stay when this goes.

    An owner is one process at a time; two that set the same share each write over the other.
    """

    def __init__(self, owner: str) -> None:
        """Finds the shares that there are. Raises HowdahError where hold is not loaded, or not by this
        howdah."""
        self._kernel = _native.CcShares(owner)

    def define(self, name: str, minimum_bps: int) -> Share:
        """The share of that name with the rate and lease it has, or a new one with its minimum in force.

        Raises HowdahError when there are too many, or the minimum cannot be held.
        """
        return decoding.from_json(self._kernel.define(name, minimum_bps), Share)

    def set(self, name: str, rate_bps: int, minimum_bps: int, until_ns: int) -> None:
        """Puts ``rate_bps`` in force until ``until_ns``, then ``minimum_bps``, whichever processes live then.

        All three are given each time, and an instant rather than a span, so that nothing is raised or
        prolonged by accident: not by what was there, nor by a process that was stopped half-way. It takes
        microseconds.

        Raises HowdahError when a rate cannot be held or is below the minimum, or the share is not defined.
        """
        self._kernel.set(name, rate_bps, minimum_bps, until_ns)

    def all(self) -> list[Share]:
        """All shares of the owner, by name."""
        return decoding.from_json(self._kernel.all(), list[Share])

    def remove(self, name: str) -> None:
        """Ends a share. Raises HowdahError while a rule gives it."""
        self._kernel.remove(name)

    def place(self, wanted: Sequence[Placed]) -> Placing:
        """Makes ``wanted`` the only rules that give shares of this owner; none: connections get back theirs.

        Rules that are there already are left as they are, with their connections. New ones come all or none.

        Raises HowdahError when they overlap, each other or another's, or there are too many.
        """
        return decoding.from_json(self._kernel.place(msgspec.json.encode(wanted)), Placing)


def everyones() -> list[Share]:
    """The shares of every owner; none where hold is not loaded."""
    return decoding.from_json(_native.cc_shares(), list[Share])


def now_ns() -> int:
    """The clock of leases."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
