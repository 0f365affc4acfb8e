"""The connections that a rule of this host's kernel is for."""

import msgspec

from howdah import _native

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
