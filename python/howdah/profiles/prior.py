"""A model's prediction as a prior, refined by whatever was measured on the path.

The logarithm of measured over modelled rate is taken as Gaussian: an error of the model that all
configurations of the path share, one of each configuration's own, together as large as the model says it
errs, and the spread from run to run. What the model errs by at one RTT tells less of another the farther off
that is. What was measured then moves the prediction by ordinary conditioning (Rasmussen and Williams,
Gaussian Processes for Machine Learning, equation 2.19), so a run weighs against the model as the variances
do: with a model that errs by 50 % and runs that vary by 10 %, one run counts 25 times the model.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from howdah.archive.runs import Configuration, Runs
from howdah.profiles.cells import RUN_SPREAD, Cells, cells_of, spreads
from howdah.profiles.predict import Prediction

Array = NDArray[np.float64]

Model = Callable[[Sequence[tuple[Configuration, float]]], Array]
"""Of configurations, each at an RTT in seconds, the rates in b/s: least, middle and largest, with 90 %.
Shape (configurations, 3)."""

_TAIL = 1.6449
"""Normal quantile of 95 %."""

_SHARED = 0.5
"""Part of the model's variance that all configurations of a path have in common: its capacity and its hosts
are the same for all, what a control makes of them is not."""

_REACH = 1.0
"""Log RTT at which the model's error is correlated to 1/e with that here: a factor of e in RTT."""

_FAR = 3
"""Times that, and an error tells less than 5 % of another: left out."""


def refine(
    model: Model,
    configurations: Sequence[Configuration],
    rtt_s: float,
    measured: Runs,
    most_bps: float = np.inf,
) -> list[Prediction]:
    """Of each configuration the next run at ``rtt_s``: what the model says, moved by what was measured.

    ``measured``: runs of the path that count, at any RTT, of any configurations; may be empty. ``most_bps``:
    the capacity, which no rate exceeds.
    """
    cells = cells_of(measured)
    seen = _Seen(cells, rtt_s)
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


def runs_worth(model: Model, configuration: Configuration, rtt_s: float) -> float:
    """How many times the model one run of the configuration counts, with the spread of runs assumed."""
    return float((_error(np.log(model([(configuration, rtt_s)]))) / RUN_SPREAD)[0] ** 2)


def _error(log_rates: Array) -> Array:
    """Of the model, by the wider side of its interval: the other may end at the capacity."""
    low, mid, high = log_rates.T
    return np.asarray(np.maximum(mid - low, high - mid) / _TAIL)


class _Seen:
    """Medians of log rates, and how sure they are, at RTTs near enough to tell anything of the one wanted."""

    def __init__(self, cells: Sequence[Cells], around_s: float) -> None:
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
    """Of the model's error at these places."""
    numbers = {configuration: number for number, (configuration, _) in enumerate(places)}
    which = np.array([numbers[configuration] for configuration, _ in places])
    log_rtt = np.log([rtt_s for _, rtt_s in places])
    alike = np.where(which[:, None] == which, 1.0, _SHARED)
    near = np.exp(-np.abs(log_rtt[:, None] - log_rtt) / _REACH)
    return np.asarray(np.outer(error, error) * alike * near)


def _prediction(configuration: Configuration, rates_bps: Array, own: Cells | None) -> Prediction:
    low, mid, high = rates_bps.tolist()
    return Prediction(
        configuration=configuration,
        rate_low_bps=low,
        rate_mid_bps=mid,
        rate_high_bps=high,
        basis="model",
        rtts_s=tuple(own.rtt_s.tolist()) if own else (),
        runs=sum(len(rates) for rates in own.log_rates) if own else 0,
    )
