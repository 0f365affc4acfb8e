"""What shares are worth: our own against fairness to others, with one knob.

    value = (1 - fairness) × our share + fairness × Jain's index × (1 - harm)

Jain's index is over this transfer, however many streams it has, and each stream of others (Jain, Chiu, Hawe,
DEC-TR-301, 1984). Harm is what others lose beyond what they would lose to one more that takes an equal share
(after Ware, Mukerjee, Seshan, Sherry, *Beyond Jain's fairness index*, HotNets 2019), of whoever loses most.

``fairness`` is the knob: 0, nothing but our own rate; 1, nothing but fairness. From 0.4 on an equal share is
best beside one stream that yields; up to 0.3 the whole path is.
"""

from collections.abc import Sequence

from howdah.steering.background import Background
from howdah.steering.share import Shares


def jain(rates: Sequence[float]) -> float:
    """Jain's index of rates: 1 when all are equal, 1/n when one has all."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares > 0 else 1.0


def harm(with_us: Sequence[float], without: Sequence[float]) -> float:
    """What others lose beyond what a fair newcomer takes, of what that leaves them: the most, 0..1."""
    left = len(without) / (len(without) + 1)
    lost = [
        max(0.0, 1 - now / (before * left))
        for now, before in zip(with_us, without, strict=True)
        if before > 0
    ]
    return max(lost, default=0.0)


def value(found: Shares, before: Shares, background: Background, fairness: float) -> float:
    """Of these shares, where the others had those ``before`` us: 0..1."""
    others = found.others(background)
    fair = jain([found.ours, *others]) * (1 - harm(others, before.others(background))) if others else 1.0
    return (1 - fairness) * found.ours + fairness * fair
