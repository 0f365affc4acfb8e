"""What the archive remembers of a path, among the reasons of a plan.

A plan is not changed by it: streams and buffers are made for any rate. What is sent at once because of it
depends on what the sender's kernel can do, so that is chosen where the plan is carried out.
"""

import msgspec

from howdah._native import format_rate
from howdah.values.memory import PathMemory, ago
from howdah.values.path import Path
from howdah.values.plan import Evidence, Plan


def remembering(plan: Plan, path: Path) -> Plan:
    """The plan with what is remembered of the path among its reasons."""
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
