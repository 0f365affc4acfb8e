"""Which configuration ``howdah.profiles.select`` chooses at each measured RTT, and how sure it is."""

import msgspec

from howdah import HowdahError
from howdah.profiles.evaluate import draw, evaluate
from howdah.profiles.predict import Prediction, Predictor
from howdah.profiles.select import ranked
from howdah.report.cells import in_words, milliseconds
from howdah.report.material import Material

SEED = 2017
"""Draws the RTTs that are left out."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The choice at one RTT; rates of the next run, with 90 %."""

    rtt_s: float
    configuration: str
    rate_low_bps: float
    rate_mid_bps: float
    rate_high_bps: float
    second: str | None
    """The next best; null where nothing else was measured."""
    second_low_bps: float | None


def choices(material: Material) -> list[Chosen]:
    """The choice at each RTT that was measured."""
    predictor = Predictor(material.cells.runs)
    ranking = ((float(rtt_s), ranked(predictor.at(float(rtt_s)))) for rtt_s in predictor.rtt_s)
    return [_chosen(rtt_s, *found[:2]) for rtt_s, found in ranking if found]


def left_out(material: Material) -> str:
    """How good choices and predictions are at three RTTs that are taken away before."""
    runs = material.cells.runs
    try:
        rtts = draw(runs, SEED)
        found = evaluate(runs, rtts)
    except HowdahError as error:
        return f"Not tried at RTTs left out: {error}"
    return (
        f"With {', '.join(map(milliseconds, rtts))} left out (drawn by seed {SEED}), what is chosen there "
        f"reaches {100 * found.share_mean:.3g} % of the best measured on average, "
        f"{100 * found.share_worst:.3g} % in the worst case; the median error of predictions is "
        f"{100 * found.error_median:.2g} %, and the 90 % interval holds {100 * found.coverage:.3g} % of runs."
    )


def _chosen(rtt_s: float, first: Prediction, second: Prediction | None = None) -> Chosen:
    return Chosen(
        rtt_s=rtt_s,
        configuration=in_words(first.configuration),
        rate_low_bps=first.rate_low_bps,
        rate_mid_bps=first.rate_mid_bps,
        rate_high_bps=first.rate_high_bps,
        second=None if second is None else in_words(second.configuration),
        second_low_bps=None if second is None else second.rate_low_bps,
    )
