"""Congestion controls: models of them, and programs in the kernel.

A name stands for the kernel's own control where the host has it, else for howdah's (``choose``).
"""

from collections.abc import Collection
from typing import Literal, NamedTuple

from howdah._native import CC_PROGRAMS

_PREFIX = "hd_"


class ResolvedControl(NamedTuple):
    """The congestion control that a name stands for."""

    control: str
    """The name by which a socket chooses it."""
    source: Literal["kernel", "howdah", "missing"]
    """The place it comes from; missing: howdah's program is not loaded, or there is no such control."""

    @property
    def program(self) -> str | None:
        """The program to load; null when howdah brings none of that name."""
        bare = self.control.removeprefix(_PREFIX)
        return bare if self.control.startswith(_PREFIX) and bare in CC_PROGRAMS else None


def choose(name: str, available: Collection[str]) -> ResolvedControl:
    """The control that ``name`` stands for on a kernel that has the controls ``available``."""
    bare = name.removeprefix(_PREFIX)
    ours = _PREFIX + bare
    if name in available:
        return ResolvedControl(name, "howdah" if name == ours and bare in CC_PROGRAMS else "kernel")
    if bare in CC_PROGRAMS:
        return ResolvedControl(ours, "howdah" if ours in available else "missing")
    return ResolvedControl(name, "missing")
