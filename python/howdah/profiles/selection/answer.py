"""A selection as ``--json`` prints it.

Schema 1. Rates are goodput in bits per second, with a 90 % interval for the next run: it reaches
``rate_low_bps`` with 95 %.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from howdah.archive.runs import Runs
from howdah.profiles.selection.bounds import covering_bound, lower_prediction_bound, median_interval
from howdah.profiles.selection.predict import NextRun, PredictionBasis
from howdah.profiles.selection.select import Selection, why_not

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
