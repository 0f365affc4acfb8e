"""What sharing a path did: Jain's index, and what the others lost."""

from collections.abc import Sequence


def jain(rates: Sequence[float]) -> float | None:
    """1 when all have the same, 1/n when one has all; null when nobody has anything.

    Jain, Chiu and Hawe, DEC-TR-301, 1984; Equation (1) of the paper, where a tool counts as one, however
    many streams it has.
    """
    squares = len(rates) * sum(each**2 for each in rates)
    return sum(rates) ** 2 / squares if squares else None


def harm(alone: float, beside: float) -> float:
    """The share of what a flow has alone that it has no more beside another; less than 0 when it has more.

    Ware, Mukerjee, Seshan and Sherry, Beyond Jain's Fairness Index, HotNets 2019: more is better.
    """
    return (alone - beside) / alone
