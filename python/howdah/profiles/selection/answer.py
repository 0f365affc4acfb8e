"""A selection as ``--json`` prints it, with its confidence from a few repeats.

Schema 1. Rates are goodput in bits per second, with a 90 % interval for the next run: it reaches
``rate_low_bps`` with 95 %.

No distribution is assumed. Order statistics and conformal bounds ask only that runs are exchangeable, and say
something with ten of them. The bound of the paper asks for less still, and says nothing below hundreds of
thousands of runs.

Sources: the interval for a median, David and Nagaraja, Order Statistics, 3rd edition, §7.1; the next
run, Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, §2; the covering-number bound, Rao
et al., HPDC 2017, §5.2.

Deviations from that bound. Its exponent has log₂(4ε/C), which is negative when ε < C/4: the bound then falls
as functions become harder to tell apart, and is far below one for a single run. A covering number grows as ε
falls, so ``as_printed=False`` has log₂(4C/ε). The rest is as printed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.archive.runs import Runs
from howdah.profiles.selection import Selection, why_not
from howdah.profiles.selection.predict import NextRun, PredictionBasis


class MedianInterval(NamedTuple):
    """[x_rank, x_(n+1-rank)] of n values in ascending order."""

    low: float
    high: float
    rank: int
    """The rank of the lower end, from 1."""
    confidence: float
    """The probability that it holds the median; too few values give less than was asked for."""


class PredictionBound(NamedTuple):
    """The bound that the next value reaches."""

    low: float
    confidence: float
    """The probability that it does; too few values give less than was asked for."""


def median_interval(values: NDArray[np.float64], confidence: float = 0.95) -> MedianInterval:
    """The narrowest interval of order statistics that holds the median with ``confidence``.

    ``values``: any order, at least two. Raises HowdahError for fewer, or for one that is not finite.
    """
    ordered = _ordered(values, least=2)
    n = len(ordered)
    rank = 1
    while rank < n // 2 and median_confidence(n, rank + 1) >= confidence:
        rank += 1
    return MedianInterval(
        low=float(ordered[rank - 1]),
        high=float(ordered[n - rank]),
        rank=rank,
        confidence=median_confidence(n, rank),
    )


def median_confidence(n: int, rank: int) -> float:
    """Probability that [x_rank, x_(n+1-rank)] of ``n`` holds the median: exact binomial with p = 1/2."""
    uncovered = 2 * sum(math.comb(n, k) for k in range(rank))
    return 1.0 - uncovered / 2.0**n


def lower_prediction_bound(values: NDArray[np.float64], confidence: float = 0.95) -> PredictionBound:
    """The largest of ``values`` that the next one reaches with ``confidence``; the least if none does.

    Exchangeable values: the next one lies below the k-th least of n with probability at most k/(n+1).
    Raises HowdahError for no value, or for one that is not finite.
    """
    ordered = _ordered(values, least=1)
    n = len(ordered)
    # A rounding error of the product must not cost a rank: 0.05 × 20 is one.
    rank = max(1, math.floor((1 - confidence) * (n + 1) + 1e-9))
    return PredictionBound(low=float(ordered[rank - 1]), confidence=1 - rank / (n + 1))


class CoveringBound(NamedTuple):
    """Bound on the probability that the profile's mean is worse than the best estimator by more than ε."""

    log10_probability: float
    runs_needed: int
    """The bound is below one from this many runs on."""

    @property
    def vacuous(self) -> bool:
        """True where the bound is not below one, and so says nothing."""
        return self.log10_probability >= 0


def covering_bound(
    n: int, *, epsilon: float, capacity_gbps: float, as_printed: bool = False
) -> CoveringBound:
    """32 (n/ε²)^((1+C/ε) log₂(4C/ε)) n exp(−ε²n/(2C)²), C the capacity (HPDC 2017, §5.2).

    The paper leaves the unit of rates open, and the bound depends on it: Gb/s here. ``epsilon`` is the
    excess of the expected squared error. Raises HowdahError unless 0 < ε ≤ C and n ≥ 1.
    """
    if not (0 < epsilon <= capacity_gbps and n >= 1):
        raise HowdahError(
            f"no bound for {n} runs, an error of {epsilon:g} and a capacity of {capacity_gbps:g} Gb/s; "
            "give at least one run, and an error above 0 and up to the capacity"
        )
    ratio = 4 * epsilon / capacity_gbps if as_printed else 4 * capacity_gbps / epsilon
    exponent = (1 + capacity_gbps / epsilon) * math.log2(ratio)
    decay = (epsilon / (2 * capacity_gbps)) ** 2

    def log_probability(runs: int) -> float:
        return exponent * math.log(runs / epsilon**2) + math.log(32 * runs) - decay * runs

    peak = max(1, math.ceil((exponent + 1) / decay))
    return CoveringBound(
        log10_probability=log_probability(n) / math.log(10),
        runs_needed=_below_zero_from(log_probability, peak),
    )


def _below_zero_from(function: Callable[[int], float], peak: int) -> int:
    """The least whole number from which on a function that rises to ``peak`` and then falls is below zero."""
    if function(peak) < 0:
        return 1
    low, high = peak, 2 * peak
    while function(high) >= 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if function(middle) >= 0 else (low, middle)
    return high


def _ordered(values: NDArray[np.float64], *, least: int) -> NDArray[np.float64]:
    if len(values) < least:
        raise HowdahError(f"{len(values)} runs are too few for a bound; measure at least {least}")
    if not np.isfinite(values).all():
        where = int(np.flatnonzero(~np.isfinite(values))[0])
        raise HowdahError(f"run {where + 1} of {len(values)} has no finite rate; leave it out")
    return np.sort(values)


COVERING_ERROR_SHARE = 0.1
"""The ε of the paper's bound, as a share of the capacity."""

_ASSUMED_CAPACITY_BPS = 10e9


class RankedConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration and what its next run will reach."""

    congestion_control: str
    streams: int
    buffer_bytes: int | None
    """The buffer of each stream; null is autotuned."""
    rate_low_bps: float
    rate_mid_bps: float
    rate_high_bps: float
    basis: PredictionBasis
    rtts_s: list[float]
    """The measured RTTs that the prediction comes from."""
    runs: int
    """The runs at those RTTs."""
    why_not: str | None = None
    """The reason why it was not chosen; null for the chosen one."""


class RepeatBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds from the runs of the chosen configuration at one RTT alone, whatever their distribution."""

    rtt_s: float
    runs: int
    median_low_bps: float
    median_high_bps: float
    median_confidence: float
    next_low_bps: float
    next_confidence: float
    """The probability that the next run at this RTT reaches ``next_low_bps``."""


class CoveringNumberBound(msgspec.Struct, frozen=True, kw_only=True):
    """The bound of HPDC 2017, section 5.2, its sign mended (``selection.bounds``)."""

    runs: int
    """The runs of the chosen configuration, at all RTTs."""
    error_gbps: float
    log10_probability: float
    vacuous: bool
    runs_needed: int
    log10_probability_as_printed: float


class SelectionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration to take at an RTT, how fast it is, how sure that is, and why not the others."""

    schema: int = 1
    rtt_s: float
    path: str | None
    """The path whose runs decided; null when none did."""
    rests_on: list[str]
    left_out: list[str]
    """Runs that do not count, and why."""
    chosen: RankedConfiguration
    others: list[RankedConfiguration]
    """The other configurations, best lower bound first."""
    bounds: list[RepeatBounds]
    """The bounds at each RTT with two runs or more that the prediction comes from."""
    covering: CoveringNumberBound | None
    """The paper's bound; null when the chosen configuration was not measured."""


def selection_report(selection: Selection, path: str | None, left_out: list[str]) -> SelectionReport:
    """The selection in full, with its bounds."""
    chosen, *others = selection.ranked
    mine = selection.profile.where(**chosen.configuration._asdict())
    return SelectionReport(
        rtt_s=selection.rtt_s,
        path=path,
        rests_on=selection.rests_on,
        left_out=left_out,
        chosen=_candidate(chosen, None),
        others=[_candidate(other, why_not(chosen, other)) for other in others],
        bounds=list(_bounds(mine, chosen.rtts_s)),
        covering=_covering(mine) if len(mine) else None,
    )


def _bounds(mine: Runs, rtts_s: Sequence[float]) -> Iterator[RepeatBounds]:
    for rtt_s in rtts_s:
        rates_bps = mine.where(rtt_s=rtt_s).rate_bps
        if len(rates_bps) < 2:
            continue
        median, following = median_interval(rates_bps), lower_prediction_bound(rates_bps)
        yield RepeatBounds(
            rtt_s=rtt_s,
            runs=len(rates_bps),
            median_low_bps=median.low,
            median_high_bps=median.high,
            median_confidence=median.confidence,
            next_low_bps=following.low,
            next_confidence=following.confidence,
        )


def _covering(mine: Runs) -> CoveringNumberBound:
    known = mine.capacity_bps[np.isfinite(mine.capacity_bps)]
    capacity_gbps = (float(known.max()) if len(known) else _ASSUMED_CAPACITY_BPS) / 1e9
    epsilon = COVERING_ERROR_SHARE * capacity_gbps
    mended = covering_bound(len(mine), epsilon=epsilon, capacity_gbps=capacity_gbps)
    printed = covering_bound(len(mine), epsilon=epsilon, capacity_gbps=capacity_gbps, as_printed=True)
    return CoveringNumberBound(
        runs=len(mine),
        error_gbps=epsilon,
        log10_probability=mended.log10_probability,
        vacuous=mended.vacuous,
        runs_needed=mended.runs_needed,
        log10_probability_as_printed=printed.log10_probability,
    )


def _candidate(prediction: NextRun, lost: str | None) -> RankedConfiguration:
    control, streams, buffer_bytes = prediction.configuration
    return RankedConfiguration(
        congestion_control=control,
        streams=streams,
        buffer_bytes=None if buffer_bytes is None else int(buffer_bytes),
        rate_low_bps=prediction.rate_low_bps,
        rate_mid_bps=prediction.rate_mid_bps,
        rate_high_bps=prediction.rate_high_bps,
        basis=prediction.basis,
        rtts_s=list(prediction.rtts_s),
        runs=prediction.runs,
        why_not=lost,
    )
