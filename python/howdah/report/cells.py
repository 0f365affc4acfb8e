"""The cells that the papers' figures are made of: one configuration at one RTT, with its repeats.

What limits a cell is found by rules, never by hand: the link, its buffers, losses, or growing windows.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.archive.runs import Configuration, Runs
from howdah.profiles.profile import Profile, profile, standard_errors
from howdah.text import count
from howdah.values.sizes import window_rate_bps

Floats = NDArray[np.float64]

_UNITS = {"GB": 1e9, "MB": 1e6, "KB": 1e3}

NAMES = {
    "cubic": "CUBIC",
    "htcp": "H-TCP",
    "scalable": "Scalable",
    "reno": "Reno",
    "highspeed": "HighSpeed",
    "bbr": "BBR",
}
"""Congestion controls as the papers write them."""

PAPER_BUFFERS = {"default": 244e3, "normal": 256e6, "large": 1e9}
"""The paper's buffers of a stream in bytes, HPDC 2017 Table 1."""
_BUFFER_TOLERANCE = 1.25
"""244 KB is 244 or 250 thousand bytes, or 244 KiB, in the papers' own words."""

_RTT_TOLERANCE = 0.05
"""11.6 ms in one place of the papers is 11.8 ms in another, 91.6 ms is 93.6 ms."""

_TYPICAL_SPREAD = 0.04
"""The relative spread of the repeats of a cell where no cell has two, as the synthetic profiles assume."""


class Cell(NamedTuple):
    """One configuration at one RTT."""

    configuration: Configuration
    rtt_s: float

    @property
    def words(self) -> str:
        """The cell in words, as ``CUBIC, 4 streams, 1 GB at 45.6 ms``."""
        return f"{in_words(self.configuration)} at {milliseconds(self.rtt_s)}"


def in_words(configuration: Configuration) -> str:
    """A configuration in words, as ``CUBIC, 4 streams, 1 GB``."""
    control, streams, buffer_bytes = configuration
    return f"{name(control)}, {count(streams, 'stream')}, {buffer_words(buffer_bytes)}"


def name(control: str) -> str:
    """A congestion control as the papers write it."""
    return NAMES.get(control, control)


def milliseconds(rtt_s: float) -> str:
    """An RTT as ``45.6 ms``."""
    return f"{in_ms(rtt_s)} ms"


def in_ms(rtt_s: float) -> str:
    """An RTT as ``45.6``, where the unit stands elsewhere."""
    return f"{rtt_s * 1e3:.4g}"


def gigabits(rate_bps: float) -> str:
    """A rate as ``8.12 Gb/s``, or ``53 Mb/s`` below 0.1 Gb/s."""
    return f"{rate_bps / 1e9:.3g} Gb/s" if rate_bps >= 1e8 else f"{rate_bps / 1e6:.3g} Mb/s"


def buffer_words(buffer_bytes: float | None) -> str:
    """A buffer as ``256 MB``; ``autotuned`` where the kernel chooses."""
    return "autotuned" if buffer_bytes is None else size_words(buffer_bytes)


def size_words(size_bytes: float) -> str:
    """A size as ``256 MB``, the way the papers write it."""
    unit, size = next(((unit, size) for unit, size in _UNITS.items() if size_bytes >= size), ("B", 1.0))
    return f"{size_bytes / size:.4g} {unit}"


def is_buffer(buffer_bytes: float | None, paper: str) -> bool:
    """True where a buffer is the paper's ``default``, ``normal`` or ``large`` one."""
    if buffer_bytes is None:
        return False
    return abs(math.log(buffer_bytes / PAPER_BUFFERS[paper])) <= math.log(_BUFFER_TOLERANCE)


def is_rtt(rtt_s: float, paper_s: float) -> bool:
    """True where an RTT is the one that the papers mean."""
    return abs(rtt_s - paper_s) <= _RTT_TOLERANCE * paper_s


@dataclasses.dataclass(frozen=True)
class PathCells:
    """The cells of one path: ``rates[configuration][rtt_s]`` are the goodputs in b/s, a value a run.

    Iterating gives each configuration with its RTTs in order.
    """

    path: str
    runs: Runs
    """The runs of that path that count."""

    _errors: dict[Configuration, Floats] = dataclasses.field(default_factory=dict, init=False, repr=False)

    @cached_property
    def rates(self) -> Mapping[Configuration, Mapping[float, Floats]]:
        """The goodputs by configuration and RTT, both in order."""
        places = self._places
        return {
            configuration: {rtt_s: self.runs.rate_bps[places[configuration][rtt_s]] for rtt_s in rtts}
            for configuration, rtts in ((each, sorted(places[each])) for each in sorted(places, key=_order))
        }

    def places(self, cell: Cell) -> list[int]:
        """The places of a cell's runs in ``runs``, oldest first."""
        return self._places[cell.configuration][cell.rtt_s]

    def ids(self, cell: Cell) -> list[str]:
        """The ids of the runs in a cell, oldest first."""
        return [str(self.runs.id[place]) for place in self.places(cell)]

    def where(
        self,
        *,
        controls: Iterable[str] | None = None,
        streams: int | None = None,
        paper_buffer: str | None = None,
    ) -> Iterator[Configuration]:
        """The configurations that fit; ``paper_buffer`` is ``default``, ``normal`` or ``large``."""
        names = None if controls is None else set(controls)
        for each in self.rates:
            if (
                (names is None or each.congestion_control in names)
                and (streams is None or each.streams == streams)
                and (paper_buffer is None or is_buffer(each.buffer_bytes, paper_buffer))
            ):
                yield each

    def at(self, configuration: Configuration, paper_s: float) -> Cell | None:
        """The cell at the RTT that the papers mean by ``paper_s``; None where nothing was measured."""
        for rtt_s in self.rates.get(configuration, {}):
            if is_rtt(rtt_s, paper_s):
                return Cell(configuration, rtt_s)
        return None

    def repeats(self, cell: Cell) -> int:
        """The number of a cell's runs."""
        return len(self.places(cell))

    def spread_of(self, cell: Cell) -> float:
        """The relative standard deviation of the runs of a cell that has at least two."""
        rates = self.rates[cell.configuration][cell.rtt_s]
        return float(np.std(rates, ddof=1) / np.mean(rates))

    def mean_bps(self, cell: Cell) -> float:
        """The mean goodput of a cell."""
        return float(np.mean(self.rates[cell.configuration][cell.rtt_s]))

    def profile(self, configuration: Configuration) -> Profile:
        """The profile of a configuration."""
        rates = self.rates[configuration]
        rtts = np.repeat(list(rates), [of_one.size for of_one in rates.values()])
        return profile(rtts, np.concatenate(list(rates.values())))

    def error_bps(self, cell: Cell) -> float:
        """The standard error of a cell's mean, from its configuration's repeats, else from those of all."""
        if cell.configuration not in self._errors:
            found = self.profile(cell.configuration)
            self._errors[cell.configuration] = (
                standard_errors(found) if np.any(found.runs > 1) else self.spread * found.mean_bps
            )
        place = list(self.rates[cell.configuration]).index(cell.rtt_s)
        return float(self._errors[cell.configuration][place])

    def clearly_more(self, high: Cell, low: Cell) -> bool:
        """True where the mean of ``high`` is above that of ``low`` by two standard errors and by 2 %."""
        high_bps, low_bps = self.mean_bps(high), self.mean_bps(low)
        noise_bps = 2 * math.hypot(self.error_bps(high), self.error_bps(low))
        return high_bps - low_bps > max(noise_bps, 0.02 * low_bps)

    @cached_property
    def spread(self) -> float:
        """The relative spread of repeats, the median over cells that have at least two."""
        cells = (Cell(each, rtt_s) for each, rates in self.rates.items() for rtt_s in rates)
        several = [self.spread_of(cell) for cell in cells if self.repeats(cell) >= 2]
        return float(np.median(several)) if several else _TYPICAL_SPREAD

    @property
    def capacity_bps(self) -> float | None:
        """The capacity of a lab's link; None where it is not known."""
        capacity_bps = float(self.runs.capacity_bps[0])
        return None if math.isnan(capacity_bps) else capacity_bps

    @cached_property
    def most_bps(self) -> float:
        """The best mean of any cell: what this path and these hosts carry."""
        return max(float(np.mean(rates)) for of_one in self.rates.values() for rates in of_one.values())

    @cached_property
    def _places(self) -> dict[Configuration, dict[float, list[int]]]:
        configurations, own = self.runs.by_configuration()
        found: dict[Configuration, dict[float, list[int]]] = {each: {} for each in configurations}
        for place, (index, rtt_s) in enumerate(zip(own.tolist(), self.runs.rtt_s.tolist(), strict=True)):
            found[configurations[index]].setdefault(rtt_s, []).append(place)
        return found


def _order(configuration: Configuration) -> tuple[str, float, int]:
    buffer_bytes = configuration.buffer_bytes
    return (
        configuration.congestion_control,
        math.inf if buffer_bytes is None else buffer_bytes,
        configuration.streams,
    )


LimitingFactor = Literal["link", "buffers", "losses", "growth"]

_AT_THE_LINK = 0.95
"""The share of the best cell of the path that counts as the link's."""
_AT_THE_BUFFERS = 0.7
"""The share of streams × buffer / RTT that counts as the buffers': a buffer also holds headers, and slow
start comes before it is full."""


def limiting_factor(cells: PathCells, cell: Cell) -> LimitingFactor:
    """The limit that the mean throughput of a cell is nearest to.

    ``link``: within 5 % of the best cell of the path. ``buffers``: at least 70 % of streams × buffer / RTT,
    where that is below the link. ``losses``: segments were sent again in most runs. ``growth``: none of
    these, so windows that were still growing for much of the run.
    """
    rate_bps, most_bps = cells.mean_bps(cell), window_bps(cell)
    if rate_bps >= _AT_THE_LINK * cells.most_bps:
        return "link"
    if most_bps < _AT_THE_LINK * cells.most_bps and rate_bps >= _AT_THE_BUFFERS * most_bps:
        return "buffers"
    return "losses" if _sent_again(cells, cell) > 0 else "growth"


def window_bps(cell: Cell) -> float:
    """The most that a cell's buffers let through: streams × buffer / RTT; infinite where autotuned."""
    buffer_bytes = cell.configuration.buffer_bytes
    if buffer_bytes is None:
        return float("inf")
    return window_rate_bps(cell.configuration.streams, buffer_bytes, cell.rtt_s)


def limit_words(cells: PathCells, cell: Cell) -> str:
    """The limit in words, as ``limited by its buffers, which let 53 Mb/s through``."""
    match limiting_factor(cells, cell):
        case "link":
            return f"at what the path carries, {gigabits(cells.most_bps)}"
        case "buffers":
            return f"limited by its buffers, which let {gigabits(window_bps(cell))} through"
        case "losses":
            return f"limited by losses, {_sent_again(cells, cell):,.0f} segments sent again in a run"
        case "growth":
            in_runs = f"in runs of {_median(cells, cell, 'elapsed_s'):.3g} s without loss (paper: 100 s)"
            return f"limited by windows that still grow, {in_runs}"


def _sent_again(cells: PathCells, cell: Cell) -> float:
    return _median(cells, cell, "retransmissions")


def _median(cells: PathCells, cell: Cell, column: str) -> float:
    values = getattr(cells.runs, column)[cells.places(cell)]
    return float(np.median(values))


def limits_summary(cells: PathCells, shown: Sequence[Cell]) -> list[str]:
    """Sentences on a figure of these cells: from where to where, and what limits how many."""
    ordered = sorted(shown, key=cells.mean_bps)
    low, high = ordered[0], ordered[-1]
    least, most = gigabits(cells.mean_bps(low)), gigabits(cells.mean_bps(high))
    span = f"From {least} ({low.words}) to {most} ({high.words})."
    counts = Counter(limiting_factor(cells, cell) for cell in shown)
    parts = [f"{count(counts[kind], 'cell')} {words}" for kind, words in _KINDS.items() if counts[kind]]
    return [span, f"Of {count(len(shown), 'cell')}: {', '.join(parts)}."]


_KINDS: dict[LimitingFactor, str] = {
    "link": "at what the path carries",
    "buffers": "limited by buffers",
    "losses": "limited by losses",
    "growth": "limited by windows that still grow",
}
