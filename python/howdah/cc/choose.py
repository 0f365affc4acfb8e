"""Which congestion control a name means on a host: the kernel's own where it has it, else howdah's."""

from collections.abc import Collection
from typing import Literal, NamedTuple

from howdah._native import CC_PROGRAMS

_PREFIX = "hd_"


class Choice(NamedTuple):
    """What a name means."""

    control: str
    """As a socket chooses it."""
    source: Literal["kernel", "howdah", "missing"]
    """Missing: howdah's program would serve, but is not loaded; or nobody has such a control."""

    @property
    def program(self) -> str | None:
        """The program to load; null when howdah brings none of that name."""
        bare = self.control.removeprefix(_PREFIX)
        return bare if self.control.startswith(_PREFIX) and bare in CC_PROGRAMS else None


def choose(name: str, available: Collection[str]) -> Choice:
    """What ``name`` means to a kernel that has the controls ``available``."""
    bare = name.removeprefix(_PREFIX)
    ours = _PREFIX + bare
    if name in available:
        return Choice(name, "howdah" if name == ours and bare in CC_PROGRAMS else "kernel")
    if bare in CC_PROGRAMS:
        return Choice(ours, "howdah" if ours in available else "missing")
    return Choice(name, "missing")
