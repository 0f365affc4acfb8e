"""What statements and figures are made from: a path's cells, what was fitted to them, and their traces."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.archive.runs import Configuration, Runs
from howdah.profiles.dynamics.lyapunov import Exponents, exponents
from howdah.profiles.dynamics.poincare import sustained
from howdah.profiles.dynamics.relation import Relation, relation
from howdah.profiles.dynamics.traces import Traces
from howdah.profiles.dynamics.usable import Unknown
from howdah.profiles.sigmoids import Sigmoids, sigmoids
from howdah.profiles.spread import DRAWS
from howdah.profiles.transition import Transition, transition
from howdah.report import traces
from howdah.report.cells import Cell, Cells, Floats

RTTS_MIN = 5
"""Fewer leave no room for two regions and where one becomes the other."""

_AS_LONG = 0.8
"""Of the longest run of a cell: what a run takes beside its time differs by some round trips."""

_SIZE_STEP_BYTES = 10**8
"""Transfers limited by size are of whole multiples of 100 MB; one limited by time ends there once in 10⁸."""


class Late(NamedTuple):
    """Of the runs at one RTT."""

    late: int
    runs: int


class Material:
    """The runs that count on a path, and beside it the cells of other paths.

    Memory to memory, not late, and in each cell of one length: a mean over more time has less of the ramp-up.
    Where a cell was measured by time and by size, its rates are those by time; by several times or sizes,
    those of the longest or largest.
    """

    def __init__(self, runs: Runs) -> None:
        """Of the path with most runs. Raises HowdahError when nothing counts."""
        memory = runs.where(memory=True)
        counted = memory.where(late=False)
        counted = counted[np.isfinite(counted.rtt_s) & (counted.rtt_s > 0) & (counted.rate_bps > 0)]
        if not len(counted):
            raise HowdahError(
                f"of {len(runs)} runs none was memory to memory, in time and over a known round trip; "
                "measure some with: howdah sweep HOST"
            )
        names, sizes = np.unique(counted.path, return_counts=True)
        by_size = [str(name) for name in names[np.argsort(-sizes, kind="stable")]]
        self.path = by_size[0]
        self.all = counted.where(path=self.path)
        here = memory.where(path=self.path)
        self.late = {
            rtt_s: Late(int(np.sum(of_one.late)), len(of_one))
            for rtt_s in np.unique(here.rtt_s[np.isfinite(here.rtt_s)]).tolist()
            for of_one in [here.where(rtt_s=rtt_s)]
        }
        """Runs that were spoilt by the machine, by RTT; they do not count."""
        self.not_memory = len(runs) - len(memory)
        """Runs of files, which a disk may have held; they do not count."""
        others = [
            Cells(name, _of_one_length(counted.where(path=name))) for name in by_size if name != self.path
        ]
        self.cells = Cells(self.path, _of_one_length(self.all))
        self.paths: Sequence[Cells] = [self.cells, *others]
        self._traces: dict[Cell, Sequence[Traces]] = {}
        self._exponents: dict[Cell, Sequence[Exponents | Unknown]] = {}
        self._sigmoids: dict[Configuration, Sigmoids | None] = {}
        self._transitions: dict[Configuration, Transition | None] = {}

    def sigmoids(self, configuration: Configuration) -> Sigmoids | None:
        """The paper's fit to the profile of a configuration; None likewise."""
        if configuration not in self._sigmoids:
            self._sigmoids[configuration] = self._fit(configuration)
        return self._sigmoids[configuration]

    def transition(self, configuration: Configuration) -> Transition | None:
        """Where the profile of a configuration turns; None where too few RTTs or repeats were measured."""
        if configuration not in self._transitions:
            self._transitions[configuration] = self._turn(configuration)
        return self._transitions[configuration]

    def _turn(self, configuration: Configuration) -> Transition | None:
        return transition(self.cells.profile(configuration)) if self._has_shape(configuration) else None

    def _fit(self, configuration: Configuration) -> Sigmoids | None:
        if not self._has_shape(configuration):
            return None
        profile = self.cells.profile(configuration)
        return sigmoids(profile, capacity_bps=self.cells.capacity_bps, draws=DRAWS)

    def _has_shape(self, configuration: Configuration) -> bool:
        rates = self.cells.rates[configuration]
        return len(rates) >= RTTS_MIN and any(of_one.size > 1 for of_one in rates.values())

    def bin_s(self, rtt_s: float) -> float:
        """Of every trace at an RTT, so that they can be compared: by the median length of all runs."""
        return traces.bin_s(float(np.median(self.all.elapsed_s)), rtt_s)

    def traces(self, cell: Cell) -> Sequence[Traces]:
        """Those of a cell's runs, the oldest first; a run without samples is not in it."""
        if cell not in self._traces:
            ids = self.cells.ids(cell)
            kept = self.cells.runs.traces(ids)
            self._traces[cell] = traces.binned(
                (kept[each] for each in ids if each in kept), self.bin_s(cell.rtt_s)
            )
        return self._traces[cell]

    def exponents(self, cell: Cell) -> Sequence[Exponents | Unknown]:
        """Of the aggregate of each of a cell's traces, without its ramp-up."""
        if cell not in self._exponents:
            self._exponents[cell] = [exponents(sustained(each.aggregate_bps)) for each in self.traces(cell)]
        return self._exponents[cell]

    def exponents_and_rates(self, cell: Cell) -> tuple[list[float], list[float]]:
        """The local exponent of each trace that has one, and the trace's mean rate in b/s."""
        both = [
            (found.local, float(np.mean(trace.aggregate_bps)))
            for found, trace in zip(self.exponents(cell), self.traces(cell), strict=True)
            if isinstance(found, Exponents)
        ]
        return [exponent for exponent, _ in both], [rate_bps for _, rate_bps in both]

    def relation(self, cell: Cell) -> Relation | Unknown:
        """How throughput goes with the exponent over the runs of a cell."""
        return relation(*self.exponents_and_rates(cell))

    @cached_property
    def sizes(self) -> Mapping[Cell, Mapping[int, Floats]]:
        """Goodputs by cell and transfer size, of runs that were limited by size."""
        sized = self.all[_sized(self.all)]
        found: dict[Cell, dict[int, Floats]] = {}
        for size in np.unique(sized.bytes).tolist():
            for configuration, rates in Cells(self.path, sized.where(bytes=size)).rates.items():
                for rtt_s, rates_bps in rates.items():
                    found.setdefault(Cell(configuration, rtt_s), {})[size] = rates_bps
        return found


def _sized(runs: Runs) -> NDArray[np.bool_]:
    return np.asarray((runs.bytes > 0) & (runs.bytes % _SIZE_STEP_BYTES == 0))


def _of_one_length(runs: Runs) -> Runs:
    sized = _sized(runs)
    kept = np.zeros(len(runs), np.bool_)
    cells = Cells("", runs)
    for configuration, rates in cells.rates.items():
        for rtt_s in rates:
            places = np.array(cells.places(Cell(configuration, rtt_s)))
            timed = places[~sized[places]]
            if timed.size:
                elapsed_s = runs.elapsed_s[timed]
                kept[timed] = elapsed_s >= _AS_LONG * elapsed_s.max()
            else:
                kept[places] = runs.bytes[places] == runs.bytes[places].max()
    return runs[kept]
