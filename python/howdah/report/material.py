"""The material of statements and figures: a path's cells, what was fitted to them, and their traces."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.archive.runs import Configuration, Runs, Trace
from howdah.profiles.dynamics import poincare
from howdah.profiles.dynamics.lyapunov import Exponents, Relation, exponents, relation
from howdah.profiles.dynamics.poincare import sustained
from howdah.profiles.dynamics.traces import Traces, Undetermined, from_samples
from howdah.profiles.profile import DRAWS, Profile
from howdah.profiles.transition import Transition, transition
from howdah.profiles.transition.sigmoids import Sigmoids, sigmoids
from howdah.report.cells import Cell, Floats, PathCells

T = TypeVar("T")

RTTS_MIN = 5
"""A profile of fewer RTTs has no room for two regions and the turn between them."""

_AS_LONG = 0.8
"""The least share of the longest run of a cell: what a run takes beside its time differs by some round
trips."""

_SIZE_STEP_BYTES = 10**8
"""Transfers limited by size are of whole multiples of 100 MB; one limited by time ends there once in 10⁸."""


class LateRuns(NamedTuple):
    """The number of late runs among those at one RTT."""

    late: int
    runs: int


class Material:
    """The runs that count on a path, and beside it the cells of other paths.

    Memory to memory, not late, and in each cell of one length: a mean over more time has less of the ramp-up.
    Where a cell was measured by time and by size, its rates are those by time; by several times or sizes,
    those of the longest or largest.
    """

    def __init__(self, runs: Runs) -> None:
        """Takes the path with most runs. Raises HowdahError when nothing counts."""
        memory = runs.where(memory=True)
        counted = memory.where(late=False)
        counted = counted[np.isfinite(counted.rtt_s) & (counted.rtt_s > 0) & (counted.rate_bps > 0)]
        if not len(counted):
            raise HowdahError(
                f"of {len(runs)} runs none was memory to memory, undisturbed and over a known round trip; "
                "measure some with: howdah sweep HOST"
            )
        names, sizes = np.unique(counted.path, return_counts=True)
        by_size = [str(name) for name in names[np.argsort(-sizes, kind="stable")]]
        self.path = by_size[0]
        self.all = counted.where(path=self.path)
        here = memory.where(path=self.path)
        self.late = {
            rtt_s: LateRuns(int(np.sum(of_one.late)), len(of_one))
            for rtt_s in np.unique(here.rtt_s[np.isfinite(here.rtt_s)]).tolist()
            for of_one in [here.where(rtt_s=rtt_s)]
        }
        """Runs that were spoilt by the machine, by RTT; they do not count."""
        self.not_memory = len(runs) - len(memory)
        """Runs of files, which a disk may have limited; they do not count."""
        others = [
            PathCells(name, _of_one_length(counted.where(path=name))) for name in by_size if name != self.path
        ]
        self.cells = PathCells(self.path, _of_one_length(self.all))
        self.paths: Sequence[PathCells] = [self.cells, *others]
        self._found: dict[tuple[str, object], Any] = {}

    def sigmoids(self, configuration: Configuration) -> Sigmoids | None:
        """The paper's fit to the profile of a configuration; None where ``transition`` is."""
        fit = partial(sigmoids, capacity_bps=self.cells.capacity_bps, draws=DRAWS)
        return self._once("sigmoids", configuration, lambda: self._of_profile(configuration, fit))

    def transition(self, configuration: Configuration) -> Transition | None:
        """The transition of a configuration's profile; None where too few RTTs or repeats were measured."""
        return self._once("transition", configuration, lambda: self._of_profile(configuration, transition))

    def _of_profile(self, configuration: Configuration, find: Callable[[Profile], T]) -> T | None:
        rates = self.cells.rates[configuration]
        if len(rates) < RTTS_MIN or all(of_one.size == 1 for of_one in rates.values()):
            return None
        return find(self.cells.profile(configuration))

    def _once(self, what: str, of: object, find: Callable[[], T]) -> T:
        """The result of ``find``, which takes long, found once for each ``of``."""
        if (what, of) not in self._found:
            self._found[what, of] = find()
        found: T = self._found[what, of]
        return found

    def bin_s(self, rtt_s: float) -> float:
        """The bins of every trace at an RTT, so that they can be compared: by the median length of all
        runs."""
        return bin_s(float(np.median(self.all.elapsed_s)), rtt_s)

    def traces(self, cell: Cell) -> Sequence[Traces]:
        """The traces of a cell's runs, the oldest first; a run without samples is not in it."""

        def find() -> Sequence[Traces]:
            ids = self.cells.ids(cell)
            sampled = self.cells.runs.traces(ids)
            return binned((sampled[each] for each in ids if each in sampled), self.bin_s(cell.rtt_s))

        return self._once("traces", cell, find)

    def exponents(self, cell: Cell) -> Sequence[Exponents | Undetermined]:
        """The exponents of the aggregate of each of a cell's traces, without its ramp-up."""
        aggregates = (sustained(each.aggregate_bps) for each in self.traces(cell))
        return self._once("exponents", cell, lambda: [exponents(each) for each in aggregates])

    def exponents_and_rates(self, cell: Cell) -> tuple[list[float], list[float]]:
        """The local exponent of each trace that has one, and the trace's mean rate in b/s."""
        both = [
            (found.local, float(np.mean(trace.aggregate_bps)))
            for found, trace in zip(self.exponents(cell), self.traces(cell), strict=True)
            if isinstance(found, Exponents)
        ]
        return [exponent for exponent, _ in both], [rate_bps for _, rate_bps in both]

    def relation(self, cell: Cell) -> Relation | Undetermined:
        """The rank correlation of throughput with the exponent over the runs of a cell."""
        return relation(*self.exponents_and_rates(cell))

    @cached_property
    def sizes(self) -> Mapping[Cell, Mapping[int, Floats]]:
        """The goodputs by cell and transfer size, of runs that were limited by size."""
        sized = self.all[_sized(self.all)]
        found: dict[Cell, dict[int, Floats]] = {}
        for size in np.unique(sized.bytes).tolist():
            for configuration, rates in PathCells(self.path, sized.where(bytes=size)).rates.items():
                for rtt_s, rates_bps in rates.items():
                    found.setdefault(Cell(configuration, rtt_s), {})[size] = rates_bps
        return found


def _sized(runs: Runs) -> NDArray[np.bool_]:
    return np.asarray((runs.bytes > 0) & (runs.bytes % _SIZE_STEP_BYTES == 0))


def _of_one_length(runs: Runs) -> Runs:
    sized = _sized(runs)
    chosen = np.zeros(len(runs), np.bool_)
    cells = PathCells("", runs)
    for configuration, rates in cells.rates.items():
        for rtt_s in rates:
            places = np.array(cells.places(Cell(configuration, rtt_s)))
            timed = places[~sized[places]]
            if timed.size:
                elapsed_s = runs.elapsed_s[timed]
                chosen[timed] = elapsed_s >= _AS_LONG * elapsed_s.max()
            else:
                chosen[places] = runs.bytes[places] == runs.bytes[places].max()
    return runs[chosen]


_BINS = 60
"""The bins of a whole run: what is left after the ramp-up has to be 30 at least for exponents."""
_BIN_LEAST_S = 0.1
_BIN_MOST_S = 1.0


def bin_s(elapsed_s: float, rtt_s: float) -> float:
    """A sixtieth of a run in whole tenths of a second, from 0.1 s to the papers' 1 s, and at least the RTT.

    In less than a round trip a rate shows how a window is spread over it, not how it grows.
    """
    of_run = min(max(round(elapsed_s / _BINS, 1), _BIN_LEAST_S), _BIN_MOST_S)
    return max(of_run, math.ceil(10 * rtt_s - 1e-9) / 10)


def binned(traces: Iterable[Trace], width_s: float) -> list[Traces]:
    """The traces that fill a bin at least; what is shorter or broken is not in it."""
    found = []
    for each in traces:
        try:
            found.append(from_samples(each.t_s, each.stream, each.bytes_acked, width_s))
        except HowdahError:
            continue
    return found


def ramp_s(traces: Traces) -> float:
    """The time until the aggregate reaches 90 % of what it then sustains (``poincare.sustained``)."""
    whole = traces.aggregate_bps
    return traces.bin_s * (whole.size - poincare.sustained(whole).size)


def sustained_bps(traces: Traces) -> float:
    """The mean of the aggregate after its ramp-up."""
    return float(np.mean(poincare.sustained(traces.aggregate_bps)))
