"""The rows of the bench, from the runs alone."""

import statistics
from collections.abc import Iterator, Sequence

from bench.ops import changing, tables
from bench.ops.cells import LAST_S, Cell, cells
from bench.ops.plan import ADAPTIVE, CHANGING, FIXED, PARTS, PHASES, Case, Run
from bench.ops.tools import words
from bench.report import Row, Target

JAIN = 0.95
"""Of ``howdah cp`` beside one CUBIC stream, in Tables 2 and 3."""
JAIN_ADAPTIVE = {"cubic": 0.99, "bbr": 0.97}
TIMES_WRONG, OF_RIGHT = 4.0, 95.0
OF_ORACLE, JAIN_CHANGING = 90.0, 0.95
BACKGROUNDS = {"cubic": "iperf", "bbr": "iperf-bbr"}


def rows(runs: Sequence[Run]) -> list[Row]:
    found: list[Row] = []
    for part in PARTS:
        own = [run for run in runs if run["part"] == part]
        if part in tables.NUMBERS:
            found += _table(part, own)
        elif part == CHANGING:
            found += _changing(own)
        else:
            found += [row for cell in cells(own).values() for row in _rates(cell)]
        if part == "figure29":
            found += _adaptive(own)
    return found


def _table(part: str, runs: Sequence[Run]) -> Iterator[Row]:
    rates, shared = tables.ours(part, runs)
    title = f"Table {tables.NUMBERS[part]}"
    alone = rates.get(tables.Key("dedicated", "foreground", None))
    for case, cell in cells(runs).items():
        if case.foreground is None:
            what = f"{title}: {words(case.background)} alone"
            yield Row(what, _mbps(cell.background_bps), "Mb/s", None, cell.note)
    for background, cell in shared.items():
        what = f"{title}: one CUBIC stream beside {words(background)}"
        yield Row(f"{what}: it has", _mbps(cell.foreground_bps), "Mb/s", None, cell.note)
        yield Row(f"{what}: the other has", _mbps(cell.background_bps), "Mb/s")
        target = Target.at_least(JAIN) if background == ADAPTIVE else None
        yield Row(f"{what}: Jain's index", cell.jain, "", target, cell.note if target else "")
        yield Row(f"{what}: the same, last {LAST_S} s", cell.jain_last, "", target)
        yield Row(f"{what}: harm to it", cell.harm(alone and 1e6 * alone), "")
        yield Row(f"{what}: RTT, median", cell.rtt_s and 1e3 * cell.rtt_s, "ms")


def _rates(cell: Cell) -> Iterator[Row]:
    """Throughput of both sides of a figure's cell."""
    case = cell.case
    title = f"Figure {case.part.removeprefix('figure')}: {words(case.foreground)}"
    what = f"{title} beside {words(case.background)}"
    yield Row(what, _mbps(cell.foreground_bps), "Mb/s", None, cell.note)
    if case.background is not None:
        yield Row(f"{what}: the other has", _mbps(cell.background_bps), "Mb/s")


def _adaptive(runs: Sequence[Run]) -> Iterator[Row]:
    """Figure 29: its own choice beside the right and the wrong fixed one."""
    found = cells(runs)
    for control, background in BACKGROUNDS.items():
        adaptive = found.get(Case("figure29", 1, ADAPTIVE, background))
        if adaptive is None:
            continue
        what = f"Figure 29: howdah cp beside {words(background)}"
        yield Row(
            f"{what}: Jain's index", adaptive.jain, "", Target.at_least(JAIN_ADAPTIVE[control]), adaptive.note
        )
        other = "bbr" if control == "cubic" else "cubic"
        for streams, fixed in FIXED.items():
            right, wrong = (
                found.get(Case("figure29", 1, fixed[each], background)) for each in (control, other)
            )
            if right is not None and wrong is not None:
                yield from _beside_fixed(what, control, adaptive, right, wrong, streams=streams)


def _beside_fixed(
    what: str, control: str, adaptive: Cell, right: Cell, wrong: Cell, *, streams: str
) -> Iterator[Row]:
    # BBR takes from CUBIC: the wrong choice costs the background there, and here the foreground.
    mine, others = (
        (adaptive.background_bps, wrong.background_bps)
        if control == "cubic"
        else (adaptive.foreground_bps, wrong.foreground_bps)
    )
    whose = "the background's" if control == "cubic" else "its"
    yield Row(
        f"{what}: {whose} rate, of that with the wrong choice, with {streams}",
        _over(mine, others),
        "×",
        Target.at_least(TIMES_WRONG),
    )
    share = _over(adaptive.foreground_bps, right.foreground_bps)
    yield Row(
        f"{what}: its rate, of that with the right choice, with {streams}",
        share and 100 * share,
        "%",
        Target.at_least(OF_RIGHT),
    )


def _changing(runs: Sequence[Run]) -> Iterator[Row]:
    for case, cell in cells(runs).items():
        what = f"{words(case.foreground)} beside {words(case.background)}"
        found = [list(changing.phases(run)) for run in cell.runs]
        shares = [100 * changing.of_oracle(each, case.overlay) for each in found]
        indices = [index for each in found if (index := changing.fairness(each)) is not None]
        share, index = (statistics.median(each) if each else None for each in (shares, indices))
        yield Row(f"{what}: its rate, of an oracle's", share, "%", Target.at_least(OF_ORACLE), cell.note)
        yield Row(f"{what}: Jain's index beside others", index, "", Target.at_least(JAIN_CHANGING))
        for background in PHASES:
            own = [phase for each in found for phase in each if phase.background == background]
            rates = [phase.foreground_bps for phase in own]
            yield Row(f"{what}: with {background}", _mbps(statistics.mean(rates) if rates else None), "Mb/s")


def _over(mine: float | None, other: float | None) -> float | None:
    return mine / other if mine is not None and other else None


def _mbps(bps: float | None) -> float | None:
    return None if bps is None else bps / 1e6
