"""Deciders. Each takes what is known of a path and returns a Plan with its Why.

Each kind of path has its own decider; they are siblings behind ``decide`` and import nothing of each other.
Only the one that decides is loaded: a copy on a shared path must not wait for numerical libraries.
"""

from collections.abc import Callable
from importlib import import_module

from howdah.decide.memory import remembering
from howdah.values.path import Path, Share
from howdah.values.plan import Plan

__all__ = ["Path", "Share", "decide"]


def decide(path: Path) -> Plan:
    """The plan for this path, by the decider of its kind. Raises HowdahError where there can be none."""
    decider: Callable[[Path], Plan] = import_module(f"howdah.decide.{path.kind}").decide
    return remembering(decider(path), path)
