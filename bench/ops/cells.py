"""The runs of a record by who sent beside whom: medians of those that count."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bench.ops.fairness import harm, jain
from bench.ops.plan import Case, Run, case_of, counts

LAST_S = 20
"""A run may end while one side still takes from the other: its mean is then fairer than what it comes to."""
BUSY = 2.0
"""Programs that want a processor, for each there is, over the minute before a run: more than a run before it
leaves. The emulator goes before all others, but a tool that paces itself, as UDT, then gets less of it."""


class Cell(NamedTuple):
    """What the runs of a case came to; null where it has none of it."""

    case: Case
    runs: Sequence[Run]
    """That count; if none does, those that the machine spoilt, but none that failed."""
    note: str

    @property
    def foreground_bps(self) -> float | None:
        return self._median(lambda run: run.get("foreground_bps"))

    @property
    def background_bps(self) -> float | None:
        return self._median(lambda run: run.get("background_bps"))

    @property
    def jain(self) -> float | None:
        """The median of each run's own."""
        return self._median(_jain)

    @property
    def jain_last(self) -> float | None:
        """The same of the last ``LAST_S``; of tables alone."""
        return self._median(_jain_last)

    @property
    def rtt_s(self) -> float | None:
        return self._median(lambda run: run["rtt"] and run["rtt"]["median_s"])

    def harm(self, alone_bps: float | None) -> float | None:
        """To the foreground, of what it has alone."""
        if alone_bps is None or self.foreground_bps is None:
            return None
        return harm(alone_bps, self.foreground_bps)

    def _median(self, value: Callable[[Run], float | None]) -> float | None:
        known = [each for each in map(value, self.runs) if each is not None]
        return statistics.median(known) if known else None


def _jain(run: Run) -> float | None:
    if "foreground_bps" not in run or "background_bps" not in run:
        return None
    return jain([run["foreground_bps"], run["background_bps"]])


def _jain_last(run: Run) -> float | None:
    sides = [run.get("samples", {}).get(f"{side}_kbps") for side in ("foreground", "background")]
    return jain([sum(side[-LAST_S:]) for side in sides]) if all(sides) else None


def cells(runs: Iterable[Run]) -> dict[Case, Cell]:
    """In the order in which they were first made."""
    by_case: dict[Case, list[Run]] = {}
    for run in runs:
        by_case.setdefault(case_of(run), []).append(run)
    return {case: cell(case, own) for case, own in by_case.items()}


def cell(case: Case, runs: Sequence[Run]) -> Cell:
    good = [run for run in runs if counts(run)]
    ended = [run for run in runs if run["error"] is None]
    if good:
        spoilt = len(ended) - len(good)
        load = max(run.get("load_before", 0.0) for run in good)
        note = [
            f"{len(good)} runs" if len(good) > 1 else "once",
            good[-1]["commit"],
            f"{spoilt} spoilt left out" if spoilt else "",
            f"machine busy with other things: {load:.0f} programs a processor" if load > BUSY else "",
        ]
        return Cell(case, good, ", ".join(filter(None, note)))
    if ended:
        last = ended[-1]
        return Cell(case, ended, f"{last['commit']}, SPOILT: {last['stats']['lateness']['why']}")
    return Cell(case, (), f"failed: {runs[-1]['error'].splitlines()[-1][-80:]}" if runs else "not run")
