"""Evaluation of selection where the truth is known: RTTs of a sweep are left out, predicted and compared.

All RTTs given are left out together, as if never measured. An RTT at an end of the profile cannot be left
out: what remains does not cover it, and selection refuses to extrapolate, so there would be nothing to judge.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from howdah import HowdahError
from howdah._native import format_duration
from howdah.archive.runs import Configuration, Runs
from howdah.profiles.selection import best
from howdah.profiles.selection.predict import Array, NextRun, Predictor, by_rtt


class LeftOutPrediction(NamedTuple):
    """The prediction for one configuration at one RTT that was left out."""

    rtt_s: float
    configuration: Configuration
    rate_mid_bps: float
    mean_bps: float
    """The mean rate measured there."""
    runs: int
    runs_inside: int
    """The runs whose rate lies in the 90 % interval."""

    @property
    def error(self) -> float:
        """|predicted − mean| / mean."""
        return abs(self.rate_mid_bps - self.mean_bps) / self.mean_bps


class LeftOutChoice(NamedTuple):
    """The choice at one RTT that was left out, and what would have been best."""

    rtt_s: float
    chosen: Configuration
    chosen_bps: float
    """The mean rate of the chosen configuration measured there."""
    best: Configuration
    best_bps: float

    @property
    def share(self) -> float:
        """The chosen configuration's share of the best measured there; at most 1."""
        return self.chosen_bps / self.best_bps


class Evaluation(NamedTuple):
    """The choices and predictions at RTTs that were left out."""

    choices: list[LeftOutChoice]
    predictions: list[LeftOutPrediction]

    @property
    def share_mean(self) -> float:
        """The mean over the RTTs left out of the share of the best measured."""
        return float(np.mean([choice.share for choice in self.choices]))

    @property
    def share_worst(self) -> float:
        """The share of the best measured at the worst RTT left out."""
        return min(choice.share for choice in self.choices)

    @property
    def error_median(self) -> float:
        """The median error over all configurations and RTTs left out."""
        return float(np.median([prediction.error for prediction in self.predictions]))

    @property
    def coverage(self) -> float:
        """The share of runs whose rate lies in its 90 % interval."""
        inside = sum(prediction.runs_inside for prediction in self.predictions)
        return inside / sum(prediction.runs for prediction in self.predictions)


def draw(runs: Runs, seed: int, count: int = 3) -> list[float]:
    """``count`` of the RTTs of ``runs`` that are not at an end, drawn by ``seed``, ascending.

    Raises HowdahError when there are not as many.
    """
    inner = np.unique(runs.rtt_s)[1:-1]
    if len(inner) < count:
        raise HowdahError(
            f"{len(inner)} RTTs between the least and the largest are too few to leave {count} out; "
            "sweep more of them"
        )
    return sorted(np.random.default_rng(seed).choice(inner, count, replace=False).tolist())


def evaluate(runs: Runs, left_out_s: Sequence[float]) -> Evaluation:
    """Chooses and predicts at RTTs of ``runs`` from what was measured at the others.

    ``runs``: of one path; what must not count (late runs) is left out beforehand. Raises HowdahError for an
    RTT that was not measured, or that the others do not cover.
    """
    out = np.isin(runs.rtt_s, left_out_s)
    predictor, truth = Predictor(runs[~out]), by_rtt(runs[out])
    choices, predictions = [], []
    for rtt_s in left_out_s:
        if problem := predictor.uncovered(rtt_s):
            raise HowdahError(f"{problem.what} once it is left out; leave out inner RTTs")
        rates_bps = {cells.configuration: cells.at(rtt_s) for cells in truth}
        found = [each for each in predictor.at(rtt_s) if len(rates_bps.get(each.configuration, ()))]
        if not found:
            raise HowdahError(
                f"nothing was measured both at {format_duration(rtt_s)} and around it; leave out another RTT"
            )
        predictions += [_compared(rtt_s, each, rates_bps[each.configuration]) for each in found]
        means = {
            configuration: float(rates.mean()) for configuration, rates in rates_bps.items() if len(rates)
        }
        chosen, most = best(found).configuration, max(means, key=means.__getitem__)
        choices.append(LeftOutChoice(rtt_s, chosen, means[chosen], most, means[most]))
    return Evaluation(choices, predictions)


def _compared(rtt_s: float, prediction: NextRun, rates_bps: Array) -> LeftOutPrediction:
    low, high = prediction.rate_low_bps, prediction.rate_high_bps
    return LeftOutPrediction(
        rtt_s=rtt_s,
        configuration=prediction.configuration,
        rate_mid_bps=prediction.rate_mid_bps,
        mean_bps=float(rates_bps.mean()),
        runs=len(rates_bps),
        runs_inside=int(np.sum((low <= rates_bps) & (rates_bps <= high))),
    )
