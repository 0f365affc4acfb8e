"""Deciding: what is known of a path goes in, a Plan with its Why comes out.

Each kind of path has its own decider; they are siblings behind ``decide`` and know nothing of each
other. Only what decides is loaded: a copy on a shared path must not wait for numerical libraries.
"""

from howdah.decide import shared
from howdah.values.path import Path, Share
from howdah.values.plan import Plan

__all__ = ["Path", "Share", "decide"]


def _dedicated(path: Path) -> Plan:
    from howdah.decide.dedicated import decide  # noqa: PLC0415

    return decide(path)


def _guaranteed(path: Path) -> Plan:
    from howdah.decide.guaranteed import decide  # noqa: PLC0415

    return decide(path)


_DECIDERS = {"shared": shared.decide, "dedicated": _dedicated, "guaranteed": _guaranteed}


def decide(path: Path) -> Plan:
    """The plan for this path. Raises HowdahError for one that cannot be decided."""
    return _DECIDERS[path.kind](path)
