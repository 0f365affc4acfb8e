"""Statements about where profiles turn from concave to convex, and what widens the concave region."""

import itertools
from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from howdah.archive.runs import Configuration
from howdah.profiles.profile import INTERVAL, Shape
from howdah.profiles.transition import Transition
from howdah.report.cells import Cell, in_ms, is_rtt, milliseconds, name
from howdah.report.material import RTTS_MIN, Material
from howdah.report.statements.statement import (
    HPDC,
    NOTE,
    Finding,
    Rule,
    Statement,
    decided,
    missing,
    statement,
)
from howdah.text import count

_DEFAULT = {streams: (0.0004 if streams <= 3 else 0.0118) for streams in range(1, 11)}
_NORMAL = {streams: (0.0916 if streams == 10 else 0.0456) for streams in range(1, 11) if streams != 2}
_LARGE = {streams: (0.0916 if streams <= 6 else 0.183) for streams in range(1, 11) if streams != 2}
PAPER_S = {"default": _DEFAULT, "normal": _NORMAL, "large": _LARGE}
"""Transition RTT of CUBIC over 10GigE by buffer and streams, HPDC 2017 §2.3 and Fig. 10; two streams are
exceptions whose value the text does not give."""

_MOST_AGAINST = 0.1
ENOUGH = f"at {RTTS_MIN} RTTs or more, repeated"
"""The measurements that a profile needs before its transition is looked for."""


class TransitionRtt(NamedTuple):
    """A transition RTT, one of those measured, and its bootstrap interval."""

    rtt_s: float
    low_s: float
    high_s: float

    @property
    def words(self) -> str:
        """The transition RTT in words, as ``45.6 ms [22.6, 91.6]``."""
        return f"{milliseconds(self.rtt_s)} [{in_ms(self.low_s)}, {in_ms(self.high_s)}]"


def by_sigmoids(material: Material, configuration: Configuration) -> TransitionRtt | None:
    """The transition RTT as the paper finds it; None where too little was measured."""
    fit = material.sigmoids(configuration)
    if fit is None:
        return None
    rtts = list(material.cells.rates[configuration])
    reached = np.cumsum(fit.shares)
    low, high = (int(np.searchsorted(reached, share)) for share in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2))
    return TransitionRtt(fit.transition_s, rtts[low], rtts[high])


def in_words(transition: Transition) -> str:
    """The shape and its transition RTT, as ``concave-convex, transition RTT 45.6 ms [22.6, 91.6]``."""
    found = TransitionRtt(transition.rtt_s, *transition.interval_s)
    return f"{transition.shape}, transition RTT {found.words}"


def paper_transition(buffer: str) -> Statement:
    """CUBIC's transition RTTs with one of the paper's buffers."""

    def judge(material: Material) -> Finding:
        parts, against = [], []
        for each in material.cells.where(controls=["cubic"], paper_buffer=buffer):
            paper_s = PAPER_S[buffer].get(each.streams)
            found = by_sigmoids(material, each)
            if paper_s is None or found is None:
                continue
            if not found.low_s <= paper_s * 1.05 or not paper_s <= found.high_s * 1.05:
                against.append(Cell(each, found.rtt_s))
            streams = count(each.streams, "stream")
            parts.append(f"{found.words} with {streams} (paper: {milliseconds(paper_s)})")
        if not parts:
            return missing(f"CUBIC with the {buffer} buffer {ENOUGH}")
        return decided(not against, "; ".join(parts), against)

    rtts = sorted(set(PAPER_S[buffer].values()))
    return Statement(
        f"transition-{buffer}",
        f"CUBIC with the {buffer} buffer turns convex at {' or '.join(map(milliseconds, rtts))}, by streams.",
        f"{HPDC} §2.3, Fig. 10",
        "by sigmoids as in the paper, the bootstrap interval holds the paper's for every number of streams",
        judge,
    )


transition_default, transition_normal, transition_large = map(paper_transition, PAPER_S)


@statement(
    "ten-streams",
    "CUBIC with 10 streams: convex with the default buffer, concave up to 91.6 ms with the normal one, "
    "beyond 183 ms with the large one.",
    f"{HPDC} §2.3, Fig. 8",
    "all three shapes are as in the paper",
)
def _ten_streams(material: Material) -> Finding:
    expected: dict[str, tuple[str, Callable[[Transition], bool]]] = {
        "default": ("all convex", lambda t: t.shape == Shape.CONVEX),
        "normal": ("concave up to 91.6 ms", lambda t: t.shape == Shape.BOTH and is_rtt(t.rtt_s, 0.0916)),
        "large": ("concave beyond 183 ms", lambda t: t.rtt_s >= 0.183 * 0.95),
    }
    parts, against = [], []
    for buffer, (paper, holds) in expected.items():
        of_one = list(material.cells.where(controls=["cubic"], streams=10, paper_buffer=buffer))
        found = material.transition(of_one[0]) if of_one else None
        if found is None:
            return missing(f"CUBIC, 10 streams, the {buffer} buffer {ENOUGH}")
        if not holds(found):
            against.append(Cell(of_one[0], found.rtt_s))
        parts.append(f"{buffer} {in_words(found)} (paper: {paper})")
    return decided(not against, "; ".join(parts), against)


def _shape(controls: Collection[str], buffer: str, shape: Shape) -> Rule:
    """Agrees when one stream of every control has this shape."""

    def judge(material: Material) -> Finding:
        expected = material.cells.where(controls=controls, streams=1, paper_buffer=buffer)
        found = {each: transition for each in expected if (transition := material.transition(each))}
        lacking = set(controls) - {each.congestion_control for each in found}
        if lacking:
            names = ", ".join(name(each) for each in sorted(lacking))
            return missing(f"one stream of {names} with the {buffer} buffer {ENOUGH}")
        against = [Cell(each, one.rtt_s) for each, one in found.items() if one.shape != shape]
        numbers = "; ".join(f"{name(each.congestion_control)} {in_words(one)}" for each, one in found.items())
        return decided(not against, numbers, against)

    return judge


default_is_convex = Statement(
    "default-convex",
    "One CUBIC stream with the default buffer is convex everywhere.",
    f"{HPDC} §2.3, Fig. 9",
    "the profile is recognised as wholly convex",
    _shape(("cubic",), "default", Shape.CONVEX),
)
three_are_dual = Statement(
    "dual",
    "CUBIC, Scalable and H-TCP are concave, then convex.",
    f"{NOTE} §II, Figs. 1, 2; {HPDC} Fig. 1",
    "one stream of each with large buffers has both regions",
    _shape(("cubic", "scalable", "htcp"), "large", Shape.BOTH),
)
two_are_convex = Statement(
    "reno-highspeed-convex",
    "Reno and HighSpeed are convex everywhere.",
    f"{NOTE} §II, Fig. 2",
    "one stream of each with large buffers is recognised as wholly convex",
    _shape(("reno", "highspeed"), "large", Shape.CONVEX),
)


def _widening(axis: str) -> Rule:
    """Agrees when transition RTTs of neighbours on ``axis`` (``streams`` or ``buffer_bytes``) mostly grow."""

    def judge(material: Material) -> Finding:
        found = {each: one for each in material.cells.rates if (one := material.transition(each))}
        groups: dict[Configuration, list[Configuration]] = {}
        for each in found:
            if getattr(each, axis) is not None:
                rest = each._replace(streams=0) if axis == "streams" else each._replace(buffer_bytes=0.0)
                groups.setdefault(rest, []).append(each)
        seen: Counter[str] = Counter()
        against = []
        for group in groups.values():
            for low, high in itertools.pairwise(sorted(group, key=lambda each: float(getattr(each, axis)))):
                before, after = found[low], found[high]
                seen["pairs"] += 1
                seen["wider"] += after.rtt_s > before.rtt_s
                seen["narrower"] += after.rtt_s < before.rtt_s
                # Clearly: the intervals do not meet.
                if after.interval_s[1] < before.interval_s[0]:
                    against.append(Cell(high, after.rtt_s))
        if not seen["wider"] and not seen["narrower"]:
            return missing(
                "configurations that differ in nothing else and turn at different RTTs; "
                f"{count(seen['pairs'], 'pair')} compared"
            )
        numbers = (
            f"of {seen['pairs']} pairs of neighbours the concave region widens in {seen['wider']}, "
            f"narrows in {seen['narrower']}, clearly in {len(against)}"
        )
        agrees = seen["wider"] > seen["narrower"] and len(against) <= _MOST_AGAINST * seen["pairs"]
        return decided(agrees, numbers, against)

    return judge


widened_by_streams = Statement(
    "streams-widen",
    "More streams widen the concave region.",
    f"{HPDC} §2.3, Figs. 7, 10",
    "with more streams more transition RTTs grow than shrink, at most 10 % clearly shrink",
    _widening("streams"),
)
widened_by_buffers = Statement(
    "buffers-widen",
    "Larger buffers widen the concave region.",
    f"{HPDC} §2.3, Figs. 8–10",
    "with larger buffers more transition RTTs grow than shrink, at most 10 % clearly shrink",
    _widening("buffer_bytes"),
)
