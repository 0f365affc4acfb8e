"""The table of the runs."""

import statistics
from collections.abc import Iterator

from bench.parts import Run
from bench.report import Row, Target
from bench.why.kinds import KEPT, KINDS

NAMED = 0.95
APART = 0.10


def rows(runs: list[Run]) -> list[Row]:
    """What is asked of all, and each kind."""
    return [*_all(runs), *(row for kind in KINDS for row in _kind(runs, kind))]


def _all(runs: list[Run]) -> Iterator[Row]:
    kept = [run for run in runs if run["for_the_test"]]
    number = f"{len(runs)} copies"
    yield Row("named rightly, all kinds", _right(runs), "", Target.at_least(NAMED), number)
    yield Row(
        "named rightly, the kinds kept for the test",
        _right(kept),
        "",
        Target.at_least(NAMED),
        ", ".join(KEPT),
    )
    yield Row(
        "shares within 10 points of the truth, all kinds", _near(runs), "", Target.at_least(NAMED), number
    )


def _kind(runs: list[Run], kind: str) -> Iterator[Row]:
    of = [run for run in runs if run["kind"] == kind]
    if not of:
        return
    yield Row(f"{kind}: named rightly", _right(of), "", note=f"{len(of)} copies")
    apart = statistics.median(abs(run["share"] - run["true_share"]) for run in of)
    most = max(abs(run["share"] - run["true_share"]) for run in of)
    yield Row(
        f"{kind}: share apart from the truth, median", apart * 100, "points", note=f"at the most {most:.0%}"
    )


def _right(runs: list[Run]) -> float | None:
    return sum(run["right"] for run in runs) / len(runs) if runs else None


def _near(runs: list[Run]) -> float | None:
    near = [abs(run["share"] - run["true_share"]) <= APART for run in runs]
    return sum(near) / len(near) if near else None
