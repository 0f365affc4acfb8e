"""Which runs the bench makes: the OPS paper's figures and tables, as who sends beside whom, and how long.

A run is one fresh lab in which a foreground and a background send between host pairs of their own. The paper
gives a transfer of 14 GB or 300 s; here each run is a span of time, because a transfer of a tenth of the
path's rate would last three quarters of an hour. Figures 20 and 21 are drawn from the runs of the tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

Length = Literal["short", "whole"]
Run = dict[str, Any]

LATER_S = 10.0
"""In tables the background begins so long after the foreground, as in Section 6.5; elsewhere the foreground
so long after the background, but no more than it takes to be there."""
BESIDE_S = 3.0
AROUND_S = 9.0
"""What a run takes beside its span: a lab, servers, logins, the end."""
TRIES = 2
"""A run that the machine spoilt is made again, so often in all."""

FOREGROUNDS = ("iperf", "gridftp-8", "gridftp-16", "udt", "cp")
TABLE_BACKGROUNDS = ("iperf", "gridftp-16", "udt", "cp")
PATTERNS = ("square-udp", "square-rbudp", "square-tcp", "bursty-udp-1-2", "bursty-udp-1-5", "bursty-udp-1-10")
MIXES = {"cubic": ("iperf", "square-tcp"), "bbr": ("iperf-bbr", "square-bbr")}
"""Backgrounds of Figures 17 and 18 by congestion control: all the time, and as a square wave."""
CHANGING, PHASE_S, PHASES = "changing", 60.0, ("cubic", "bbr", "nobody")
"""Of no figure: a background whose class changes every minute (scenarios/traffic-changing.toml), for ten."""
ADAPTIVE = "cp"
FIXED = {
    "the plan's streams": {"cubic": "cp-cubic", "bbr": "cp-bbr"},
    "one stream": {"cubic": "cp-1-cubic", "bbr": "cp-1-bbr"},
}
"""What a congestion control given beforehand comes to in Figure 29: as ``howdah cp --cc`` sends, and by one
stream, as the paper's transfers do."""


class Case(NamedTuple):
    """Who sends beside whom."""

    part: str
    overlay: int
    foreground: str | None
    """Names of tools (``bench.ops.tools``); null: the other side is alone."""
    background: str | None

    @property
    def title(self) -> str:
        sides = [each for each in (self.foreground, self.background) if each]
        return f"{self.part}: {' beside '.join(sides)}"


class Span(NamedTuple):
    """How long a run is looked at, in seconds."""

    total_s: float
    """From when both send."""
    settle_s: float
    """What does not count of it, at its beginning."""


class Scale(NamedTuple):
    """A length of the bench."""

    tables: Span
    alone: Span
    figures: Span
    adaptive: Span
    """Of Figure 29."""
    repeats: Mapping[str, int]
    """By part, of those that differ from run to run (``_differs``); else one."""
    clients: Sequence[int]
    """Of NFS in Figure 15."""
    patterns: Sequence[str]
    """Of Figures 13 and 14."""
    streams: Sequence[int]
    """Of iperf3 in Figures 17 and 18."""


SCALES: dict[Length, Scale] = {
    "short": Scale(
        tables=Span(90, 30),
        alone=Span(20, 10),
        figures=Span(20, 0),
        adaptive=Span(60, 20),
        repeats={"table3": 3, "figure29": 3},
        clients=(1, 16),
        patterns=[name for name in PATTERNS if name != "bursty-udp-1-5"],
        streams=(1, 16),
    ),
    "whole": Scale(
        tables=Span(290, 0),
        alone=Span(300, 0),
        figures=Span(300, 0),
        adaptive=Span(1800, 0),
        repeats={},
        clients=(1, 2, 4, 8, 16),
        patterns=PATTERNS,
        streams=(1, 8, 16),
    ),
}
"""Spans of figures are whole periods of the patterns. In the short tables the first third does not count, in
which who comes 10 s later only begins to get a share. They end before shares are what they come to, so the
index of the last seconds stands beside that of all. Of a whole run nothing is left out, as in the paper."""
WHOLE_REPEATS = 3


def cases(part: str, length: Length) -> list[Case]:
    """Those of a part of the bench, in order."""
    overlay = PARTS[part]
    return [Case(part, overlay, *sides) for sides in _sides(part, SCALES[length])]


PARTS: dict[str, int] = {
    "table2": 1,
    "table3": 2,
    "figure13": 1,
    "figure14": 2,
    "figure15": 1,
    "figure17": 1,
    "figure18": 2,
    "figure19": 1,
    "figure29": 1,
    CHANGING: 1,
}
"""Each part's overlay."""


def _sides(part: str, scale: Scale) -> Iterator[tuple[str | None, str | None]]:
    """Foregrounds and backgrounds."""
    if part in ("table2", "table3"):
        yield from ((None, each) for each in TABLE_BACKGROUNDS)
        yield from (("iperf", each) for each in TABLE_BACKGROUNDS)
    elif part in ("figure13", "figure14"):
        for background in (None, "iperf", *scale.patterns):
            yield from ((each, background) for each in FOREGROUNDS)
    elif part == "figure15":
        for clients in scale.clients:
            yield from ((each, f"nfs-{clients}") for each in FOREGROUNDS)
    elif part in ("figure17", "figure18"):
        for backgrounds in MIXES.values():
            for background in backgrounds:
                yield from ((each, background) for each in _tcp(scale.streams))
                yield "udt", background
    elif part == "figure19":
        yield from (("nfs-16", each) for each in (None, "iperf", "gridftp-8", "gridftp-16", "udt", "cp"))
    elif part == CHANGING:
        yield ADAPTIVE, CHANGING
    else:
        for background in ("iperf", "iperf-bbr"):
            fixed = [each for by_control in FIXED.values() for each in by_control.values()]
            yield from ((each, background) for each in (*fixed, ADAPTIVE))


def _tcp(streams: Iterable[int]) -> Iterator[str]:
    for count in streams:
        many = "" if count == 1 else f"-{count}"
        yield from (f"iperf{many}", f"iperf{many}-bbr")


def span(case: Case, length: Length) -> Span:
    """How long a run of it is looked at."""
    scale = SCALES[length]
    if case.part == CHANGING:
        return Span(10 * PHASE_S, 0)
    if case.part == "figure29":
        return scale.adaptive
    if not case.part.startswith("table"):
        return scale.figures
    return scale.tables if case.foreground else scale.alone


def has_course(case: Case) -> bool:
    """Whether its record keeps a sample a second."""
    return case.part.startswith("table") or case.part == CHANGING


def repeats(case: Case, length: Length) -> int:
    if length == "whole":
        return WHOLE_REPEATS
    return SCALES[length].repeats.get(case.part, 1) if _differs(case) else 1


def _differs(case: Case) -> bool:
    """From run to run: the copy beside a queue that is often empty, and streams of BBR beside each other."""
    if case.part == "figure29":
        return case.background == "iperf-bbr" and case.foreground in {ADAPTIVE, *FIXED["one stream"].values()}
    return case.foreground is not None and case.background == ADAPTIVE


def takes_s(case: Case, length: Length) -> float:
    """What one run takes, about."""
    return span(case, length).total_s + (LATER_S if case.part.startswith("table") else BESIDE_S) + AROUND_S


def case_of(run: Run) -> Case:
    return Case(run["part"], run["overlay"], run["foreground"], run["background"])


def counts(run: Run) -> bool:
    """Whether its figures are the path's and the tools', not this machine's or a failure's."""
    return run["error"] is None and not run["stats"]["lateness"]["spoilt"]


def left(runs: Iterable[Run], parts: Iterable[str], length: Length) -> list[Case]:
    """What is still to be made, in turns: each case once before any a second time.

    A case is done when it has its repeats, or as many tries at each as ``TRIES``.
    """
    made: dict[Case, list[Run]] = {}
    for run in runs:
        if run["length"] == length:
            made.setdefault(case_of(run), []).append(run)
    turns: list[tuple[int, Case]] = []
    for part in parts:
        for case in cases(part, length):
            own, wanted = made.get(case, []), repeats(case, length)
            good = sum(map(counts, own))
            most = min(wanted - good, TRIES * wanted - len(own))
            turns += [(good + turn, case) for turn in range(most)]
    return [case for _, case in sorted(turns, key=lambda each: each[0])]
