"""The prediction of a transfer beside what was measured."""

from howdah._native import format_duration, format_rate
from howdah.values.outcome import Outcome
from howdah.values.plan import Prediction
from howdah.values.record import Record

ALIKE = 2.0
"""Up to so many times shorter or longer than the runs that a prediction rests on, a transfer is like them;
slow start is a larger part of a shorter one, and a smaller part of a longer one."""

LIMITED_SHARE = 0.1
"""The share of samples in which an end limited the transfer, from which on that is said."""


def comparison(record: Record) -> str | None:
    """A line for the summary; None where there was nothing to predict or nothing was moved."""
    outcome, plan = record.outcome, record.plan
    if outcome is None or plan is None or outcome.moving_bps is None:
        return None
    predicted = plan.why.prediction
    if predicted is not None and record.limited is not None:
        return "Not compared with the prediction: the copy was limited or paused"
    if predicted is not None and outcome.changed:
        return "Not compared with the prediction: the streams changed on the way"
    if predicted is None:
        return "Not predicted: options changed the plan" if plan.path == "dedicated" else None
    low_bps, high_bps = predicted.rate_low_bps, predicted.rate_high_bps
    rate_bps = outcome.moving_bps
    line = f"Predicted {format_rate(low_bps)} to {format_rate(high_bps)}, measured {format_rate(rate_bps)}"
    if low_bps <= rate_bps <= high_bps:
        return line
    if rate_bps < low_bps:
        causes = [*_length(outcome, predicted, shorter=True), *_limited(outcome)]
        verdict = "less than predicted"
    else:
        causes = _length(outcome, predicted, shorter=False)
        verdict = "more than predicted"
    return f"{line}; not comparable: {' and '.join(causes)}" if causes else f"{line}: {verdict}"


def _length(outcome: Outcome, predicted: Prediction, *, shorter: bool) -> list[str]:
    """A sentence where the transfer was much shorter, or much longer, than the runs behind the prediction."""
    moving_s, duration_s = outcome.moving_s, predicted.duration_s
    if moving_s is None or duration_s is None:
        return []
    if not (moving_s * ALIKE < duration_s if shorter else moving_s > ALIKE * duration_s):
        return []
    took, expected = format_duration(moving_s), format_duration(duration_s)
    return [f"it took {took} and the runs behind the prediction {expected}"]


def _limited(outcome: Outcome) -> list[str]:
    """A sentence on the end that slowed a transfer of files, so that its rate need not be the network's."""
    whose = {"app": "the sender's disk or CPU", "rwnd": "the receiver's disk, CPU or buffer"}
    shares = {limit: _share(outcome, limit) for limit in whose} if outcome.files else {}
    return [
        f"{whose[limit]} limited it in {share:.0%} of the samples"
        for limit, share in shares.items()
        if share >= LIMITED_SHARE
    ]


def _share(outcome: Outcome, limit: str) -> float:
    samples = outcome.samples
    return sum(sample.limited == limit for sample in samples) / len(samples) if samples else 0.0
