"""A model's prediction as a prior, refined by whatever was measured on the path.

The logarithm of measured over modelled rate is taken as Gaussian: an error of the model that all
configurations of the path share, one of each configuration's own, together as large as the model says it
errs, and the spread from run to run. What the model errs by at one RTT tells less of another the farther off
that is. What was measured then moves the prediction by ordinary conditioning (Rasmussen and Williams,
Gaussian Processes for Machine Learning, equation 2.19), so a run weighs against the model as the variances
do: with a model that errs by 50 % and runs that vary by 10 %, one run counts 25 times the model.

The model is asked of the configurations that a pair of hosts could use on a path with no profile.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from howdah._native import format_rate
from howdah.archive.runs import Configuration, Runs
from howdah.profiles import theory
from howdah.profiles.selection.predict import RUN_SPREAD, Array, NextRun, RunsByRtt, by_rtt, spreads
from howdah.values import sizes
from howdah.values.path import Path

RateModel = Callable[[Sequence[tuple[Configuration, float]]], Array]
"""A model gives rates in b/s for configurations, each at an RTT in seconds: least, middle and largest, with
90 %, shape (configurations, 3)."""

_TAIL = 1.6449
"""The normal quantile of 95 %."""

_SHARED = 0.5
"""The part of the model's variance that all configurations of a path have in common: its capacity and its
hosts are the same for all, what a control makes of them is not."""

_REACH = 1.0
"""The model's errors at RTTs whose logarithms differ by this are correlated to 1/e."""

_FAR = 3
"""Errors farther apart than so many times ``_REACH`` tell less than 5 % of one another and are left out."""


def refine(
    model: RateModel,
    configurations: Sequence[Configuration],
    rtt_s: float,
    measured: Runs,
    most_bps: float = np.inf,
) -> list[NextRun]:
    """Predicts the next run of each configuration at ``rtt_s``: the model's rate, moved by what was measured.

    ``measured``: runs of the path that count, at any RTT, of any configurations; may be empty. ``most_bps``:
    the capacity, which no rate exceeds.
    """
    cells = by_rtt(measured)
    seen = _MeasuredMedians(cells, rtt_s)
    places = [(configuration, rtt_s) for configuration in configurations]
    rates = np.log(model([*places, *seen.places]))
    log_rate, error = rates[:, 1], _error(rates)
    covariance = _covariance([*places, *seen.places], error)
    n = len(places)
    across, known = covariance[:n, n:], covariance[n:, n:]
    spread = float(np.mean(spreads(cells))) if cells else RUN_SPREAD
    gain = np.linalg.solve(known + np.diag(seen.variances), across.T).T
    mid = log_rate[:n] + gain @ (seen.log_rates - log_rate[n:])
    # Of the next run: what is left of the model's error, and the spread of runs.
    variance = np.diag(covariance)[:n] - np.sum(gain * across, axis=1) + spread**2
    width = _TAIL * np.sqrt(variance)
    own = {each.configuration: each for each in cells}
    return [
        _prediction(configuration, rates_bps, own.get(configuration))
        for configuration, rates_bps in zip(
            configurations,
            np.minimum(np.exp(np.stack([mid - width, mid, mid + width], axis=1)), most_bps),
            strict=True,
        )
    ]


def runs_worth(model: RateModel, configuration: Configuration, rtt_s: float) -> float:
    """One run of the configuration counts so many times the model, with the spread of runs assumed."""
    return float((_error(np.log(model([(configuration, rtt_s)]))) / RUN_SPREAD)[0] ** 2)


def _error(log_rates: Array) -> Array:
    """The error of the model, by the wider side of its interval: the other may end at the capacity."""
    low, mid, high = log_rates.T
    return np.asarray(np.maximum(mid - low, high - mid) / _TAIL)


class _MeasuredMedians:
    """Medians of log rates and their variances, at RTTs near enough to tell anything of the one wanted."""

    def __init__(self, cells: Sequence[RunsByRtt], around_s: float) -> None:
        rows = [
            ((each.configuration, float(rtt_s)), float(np.median(rates)), spread**2 / len(rates))
            for each, spread in zip(cells, spreads(cells), strict=True)
            for rtt_s, rates in zip(each.rtt_s, each.log_rates, strict=True)
            if abs(np.log(rtt_s / around_s)) < _FAR * _REACH
        ]
        self.places = [place for place, _, _ in rows]
        self.log_rates = np.array([log_rate for _, log_rate, _ in rows])
        self.variances = np.array([variance for _, _, variance in rows])


def _covariance(places: Sequence[tuple[Configuration, float]], error: Array) -> Array:
    """The covariance of the model's error at these places."""
    numbers = {configuration: number for number, (configuration, _) in enumerate(places)}
    which = np.array([numbers[configuration] for configuration, _ in places])
    log_rtt = np.log([rtt_s for _, rtt_s in places])
    alike = np.where(which[:, None] == which, 1.0, _SHARED)
    near = np.exp(-np.abs(log_rtt[:, None] - log_rtt) / _REACH)
    return np.asarray(np.outer(error, error) * alike * near)


def _prediction(configuration: Configuration, rates_bps: Array, own: RunsByRtt | None) -> NextRun:
    low, mid, high = rates_bps.tolist()
    return NextRun(
        configuration=configuration,
        rate_low_bps=low,
        rate_mid_bps=mid,
        rate_high_bps=high,
        basis="model",
        rtts_s=tuple(own.rtt_s.tolist()) if own else (),
        runs=sum(len(rates) for rates in own.log_rates) if own else 0,
    )


CONTROLS = ("cubic", "htcp", "scalable")
"""Reno and HighSpeed were convex everywhere in the papers, and never the choice."""

STREAMS = (1, 4, 8, 16)

DURATION_S = 10.0
"""The length of the run that is predicted: long beside slow start on all but the longest paths."""


class ModelPrior(NamedTuple):
    """A model that predicts where nothing measured covers an RTT."""

    model: RateModel
    configurations: list[Configuration]
    """The configurations that it predicts."""
    most_bps: float
    """No rate is predicted above this."""
    words: str
    """Its assumptions in words, as ``capacity 10.0 Gb/s assumed``."""


def model_prior(path: Path, rtt_s: float, measured: Runs, capacity_bps: float | None = None) -> ModelPrior:
    """The models for these two hosts, at a capacity that is given, or measured, or else assumed.

    Assumed is what windows are made for, or the fastest run ``measured`` on the path if that is more.
    """
    loss = float(np.nanmax(measured.loss, initial=0.0))
    known_bps = capacity_bps or float(np.nanmax(measured.capacity_bps, initial=0.0))
    rate_bps = known_bps or max(sizes.TARGET_RATE_BPS, float(np.max(measured.rate_bps, initial=0.0)))
    window = sizes.windows(path)
    parameters = theory.PathParameters(
        capacity_bps=rate_bps, rtt_s=rtt_s, loss=loss, autotuned_window_bytes=window.autotuned_bytes
    )

    def model(places: Sequence[tuple[Configuration, float]]) -> Array:
        rates = np.zeros((len(places), 3))
        for configuration in {configuration for configuration, _ in places}:
            mine = [index for index, (each, _) in enumerate(places) if each == configuration]
            at = parameters._replace(rtt_s=np.array([places[index][1] for index in mine]))
            rates[mine] = np.stack(theory.predict(at, *configuration, duration_s=DURATION_S), axis=1)
        return rates

    needed = sizes.HEADROOM * rate_bps / 8 * rtt_s
    configurations = [
        Configuration(control, streams, size)
        for control, streams in product(CONTROLS, STREAMS if path.streams is None else (path.streams,))
        for size in _buffers(needed / streams, window)
    ]
    words = f"capacity {format_rate(rate_bps)}{'' if known_bps else ' assumed'}, runs of {DURATION_S:g} s"
    return ModelPrior(model, configurations, rate_bps, words)


def _buffers(needed_bytes: float, window: sizes.Windows) -> tuple[float | None, ...]:
    """The buffers to consider: autotuned, and what the path needs where autotuning does not reach it."""
    if needed_bytes <= window.autotuned_bytes or window.explicit_bytes <= window.autotuned_bytes:
        return (None,)
    return (None, float(min(window.explicit_bytes, int(np.ceil(needed_bytes)))))
