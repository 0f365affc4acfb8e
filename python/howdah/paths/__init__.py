"""Deciding: what is known of a path goes in, a Plan with its Why comes out.

Each kind of path has its own decider; they are siblings behind ``decide`` and know nothing of each
other. Only ``shared`` is there so far.
"""

from howdah import HowdahError
from howdah.paths import limits
from howdah.paths.path import Path
from howdah.plan import Plan

__all__ = ["Path", "decide"]

_DECIDERS = {"shared": limits.decide}


def decide(path: Path) -> Plan:
    """The plan for this path. Raises HowdahError for a kind that cannot be decided."""
    decider = _DECIDERS.get(path.kind)
    if decider is None:
        raise HowdahError(
            f"no way to decide a {path.kind} path is known to this version; "
            f"use --path {' or '.join(_DECIDERS)}, or give the whole plan with --plan FILE"
        )
    return decider(path)
