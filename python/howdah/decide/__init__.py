"""Deciders. Each takes what is known of a path and returns a Plan with its Why.

Each kind of path has its own decider; they are siblings behind ``decide`` and import nothing of each other.
Only the one that decides is loaded: a copy on a shared path must not wait for numerical libraries.
"""

from collections.abc import Callable
from importlib import import_module

import msgspec

from howdah._native import format_rate
from howdah.values.memory import PathMemory, ago
from howdah.values.path import Path, Share
from howdah.values.plan import Evidence, Plan

__all__ = ["Path", "Share", "decide"]


def decide(path: Path) -> Plan:
    """The plan for this path, by the decider of its kind. Raises HowdahError where there can be none."""
    decider: Callable[[Path], Plan] = import_module(f"howdah.decide.{path.kind}").decide
    return remembering(decider(path), path)


def remembering(plan: Plan, path: Path) -> Plan:
    """The plan with what the archive remembers of the path among its reasons.

    Streams and buffers stay: they are made for any rate. What is sent at once because of it depends on what
    the sender's kernel can do, so that is chosen where the plan is carried out.
    """
    memory = path.memory
    if memory is None:
        return plan
    evidence = Evidence(
        name="remembered of this path" if memory.same_route else "remembered of another route",
        value=memory.rate_mid_bps,
        unit="b/s",
        source=f"howdah archive paths: {memory.copies_in_words}, the newest {ago(memory.age_s)}",
    )
    why = msgspec.structs.replace(
        plan.why,
        summary=[*plan.why.summary, in_words(memory, path.rtt_s)],
        evidence=[*plan.why.evidence, evidence],
        memory=memory,
    )
    return msgspec.structs.replace(plan, why=why)


def in_words(memory: PathMemory, rtt_s: float | None) -> str:
    """``The archive remembers 9.2 Gb/s here, 3 h ago, 41 copies (8.8 Gb/s to 9.4 Gb/s).``"""
    rate = f"{'at least ' if memory.at_least else ''}{format_rate(memory.rate_mid_bps)}"
    where = "here" if memory.same_route else f"at {_ms(memory.rtt_s)}"
    words = f"The archive remembers {rate} {where}, {ago(memory.age_s)}, {memory.copies_in_words}"
    if memory.copies > 1:
        words += f" ({format_rate(memory.rate_low_bps)} to {format_rate(memory.rate_high_bps)})"
    if memory.same_route:
        return f"{words}."
    other = "the round trip is not known now" if rtt_s is None else f"{_ms(rtt_s)} is another route"
    return f"{words}; {other}."


def _ms(rtt_s: float) -> str:
    return f"{rtt_s * 1e3:.3g} ms"
