"""Selects the configuration at an RTT: the one whose next run is surest to be fast.

HPDC 2017, section 5.1, takes the highest mean. Here it is the highest lower bound: of two that are as fast on
the average, the steadier, and none because of a lucky interpolation. What was measured decides wherever it
can; a model is asked only where it cannot, and the selection says so.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from howdah import HowdahError
from howdah._native import format_bytes, format_duration, format_rate
from howdah.archive.runs import Configuration, Runs
from howdah.profiles.selection.evidence import profile
from howdah.profiles.selection.predict import MEASURE, NextRun, Predictor, Uncovered
from howdah.profiles.selection.prior import ModelPrior, RateModel, refine, runs_worth
from howdah.profiles.theory import has_model
from howdah.text import count


class Selection(NamedTuple):
    """Every configuration considered at an RTT, the one to take first."""

    rtt_s: float
    ranked: list[NextRun]
    unusable: list[tuple[NextRun, str]]
    """The configurations that cannot be used here, and why; best lower bound first."""
    rests_on: list[str]
    """Sentences on what the selection rests on."""
    profile: Runs
    """The runs of the profile; empty when the model decided alone."""

    @property
    def chosen(self) -> NextRun:
        """The one with the best lower bound."""
        return self.ranked[0]


def select(
    runs: Runs,
    rtt_s: float,
    model_prior: ModelPrior | None,
    obstacle: Callable[[Configuration], str | None] = lambda _: None,
) -> Selection:
    """The selection at ``rtt_s`` from ``runs`` of one path that count.

    ``obstacle`` says why a configuration cannot be used, if so. The ``model_prior`` is asked where what was
    measured does not cover the RTT; without one, raises HowdahError there, and when nothing is usable.
    """
    measured = profile(runs)
    predictor = Predictor(measured)
    problem = predictor.uncovered(rtt_s)
    if problem is None:
        found, unusable = _split(predictor.at(rtt_s), obstacle)
        if found:
            return Selection(rtt_s, found, unusable, [_measured(found)], measured)
        problem = Uncovered(f"nothing usable here was measured around {format_duration(rtt_s)}", MEASURE)
    if model_prior is None:
        raise HowdahError(f"{problem.what}; {problem.mend}")
    usable = [
        configuration for configuration in model_prior.configurations if obstacle(configuration) is None
    ]
    if not usable:
        raise HowdahError(
            f"{problem.what}, and no control that has a model can be used here; see: howdah cc list"
        )
    modelled = np.array([has_model(each) for each in runs.congestion_control.tolist()], np.bool_)
    refining = runs[modelled]
    found = ranked(refine(model_prior.model, usable, rtt_s, refining, model_prior.most_bps))
    rests_on = [
        f"A model decides ({model_prior.words}): {problem.what}.",
        _refined(refining, model_prior.model, found[0]),
        *_left_out(runs[~modelled]),
    ]
    return Selection(rtt_s, found, [], rests_on, measured)


def _split(
    predictions: Sequence[NextRun], obstacle: Callable[[Configuration], str | None]
) -> tuple[list[NextRun], list[tuple[NextRun, str]]]:
    usable: list[NextRun] = []
    unusable: list[tuple[NextRun, str]] = []
    for prediction in ranked(predictions):
        if problem := obstacle(prediction.configuration):
            unusable.append((prediction, problem))
        else:
            usable.append(prediction)
    return usable, unusable


def _measured(ranking: Sequence[NextRun]) -> str:
    chosen = ranking[0]
    rtts = " and ".join(format_duration(rtt_s) for rtt_s in chosen.rtts_s)
    what = f"{count(len(ranking), 'configuration')} compared, {count(chosen.runs, 'run')} of the one chosen"
    if chosen.basis == "measured":
        return f"Measured at {rtts}: {what}."
    return f"Interpolated between what was measured at {rtts}: {what}."


def _refined(runs: Runs, model: RateModel, chosen: NextRun) -> str:
    if not len(runs):
        return "No run on this path refines it yet; each transfer will, with its record."
    at_s = chosen.rtts_s[0] if chosen.rtts_s else float(runs.rtt_s[-1])
    worth = runs_worth(model, chosen.configuration, at_s)
    refine = "refines" if len(runs) == 1 else "refine"
    return (
        f"{count(len(runs), 'run')} on this path {refine} it; "
        f"for its configuration a run weighs {worth:.2g} times the model."
    )


def _left_out(runs: Runs) -> list[str]:
    if not len(runs):
        return []
    names = ", ".join(sorted(set(runs.congestion_control.tolist())))
    return [f"{count(len(runs), 'run')} left out, of controls without a model: {names}."]


def best(predictions: Sequence[NextRun]) -> NextRun:
    """The one with the best lower bound; among equals that with fewest streams, then least buffer."""
    return ranked(predictions)[0]


def ranked(predictions: Sequence[NextRun]) -> list[NextRun]:
    """The predictions, best lower bound first."""

    def order(prediction: NextRun) -> tuple[float, int, float, str]:
        control, streams, buffer_bytes = prediction.configuration
        return -prediction.rate_low_bps, streams, buffer_bytes or 0.0, control

    return sorted(predictions, key=order)


def why_not(chosen: NextRun, other: NextRun) -> str:
    """The reason why the other was not chosen, with its bound."""
    bound = f"at least {format_rate(other.rate_low_bps)}"
    if other.rate_high_bps <= chosen.rate_low_bps:
        return f"{bound}, at most {format_rate(other.rate_high_bps)}: slower even at its best"
    if other.rate_mid_bps > chosen.rate_mid_bps:
        return f"{bound}: perhaps faster ({format_rate(other.rate_mid_bps)}), but less sure"
    return f"{bound}, about {format_rate(other.rate_mid_bps)}"


def in_words(control: str, streams: int, buffer_bytes: float | None) -> str:
    """The configuration in words, as ``htcp, 4 streams, buffers 256 MB``."""
    size = "autotuned" if buffer_bytes is None else format_bytes(int(buffer_bytes))
    return f"{control}, {count(streams, 'stream')}, buffers {size}"
