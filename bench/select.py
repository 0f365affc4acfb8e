"""Selection and prediction at RTTs left out of synthetic sweeps: ``make bench-select``.

Of each sweep all sets of three inner RTTs are left out in turn, chosen for and predicted at. What a choice
can reach is bounded by chance: the best measured there is the luckiest of 27 configurations. So beside each
share stands that of an oracle, which knows the true rates but not the runs. ``bumps`` has no target: nothing
between RTTs foretells it.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from bench.report import Row, Target, publish
from bench.select_families import FAMILIES, RTT_S, Rates, sweep_of
from howdah.archive.runs import Runs
from howdah.profiles.selection.evaluate import Evaluation, evaluate

SEED = 20171
REPEATS = (3, 5, 10)
UNKNOWABLE = "bumps"


class Found(NamedTuple):
    """One set of RTTs left out of one sweep."""

    family: str
    repeats: int
    evaluation: Evaluation
    oracle: list[float]
    """Share of the best measured at each RTT left out."""


def judge(sweeps: int) -> Iterator[Found]:
    for family in FAMILIES:
        rng = np.random.default_rng([SEED, *family.encode()])
        for repeats in REPEATS:
            for _ in range(sweeps):
                rates = FAMILIES[family](rng)
                runs = sweep_of(rates, rng, repeats)
                for left_out in combinations(range(1, len(RTT_S) - 1), 3):
                    evaluation = evaluate(runs, RTT_S[list(left_out)].tolist())
                    oracle = [oracle_share(rates, runs, index) for index in left_out]
                    yield Found(family, repeats, evaluation, oracle)


def oracle_share(rates: Rates, runs: Runs, index: int) -> float:
    """What the configuration of the highest true rate at an RTT was measured at, of the best measured."""
    there = runs.where(rtt_s=float(RTT_S[index]))
    means = {
        configuration: float(there.where(**configuration._asdict()).rate_bps.mean())
        for configuration in there.configurations()
    }
    best = max(means, key=lambda configuration: rates[configuration][index])
    return means[best] / max(means.values())


def rows(found: list[Found]) -> Iterator[Row]:
    known = [each for each in found if each.family != UNKNOWABLE]
    for repeats in REPEATS:
        mine = [each for each in known if each.repeats == repeats]
        yield from _rows(f"all, {repeats} repeats", mine, targets=True)
    for family in FAMILIES:
        mine = [each for each in found if each.family == family and each.repeats == 5]
        yield from _rows(f"{family}, 5 repeats", mine, targets=family != UNKNOWABLE)


def _rows(name: str, found: list[Found], *, targets: bool) -> Iterator[Row]:
    evaluations = [each.evaluation for each in found]
    shares = [choice.share for each in evaluations for choice in each.choices]
    oracle = [share for each in found for share in each.oracle]
    errors, coverages = [each.error_median for each in evaluations], [each.coverage for each in evaluations]
    for what, value, target in (
        ("share of the best, mean", np.mean(shares), Target.at_least(0.95)),
        ("the same, of the oracle", np.mean(oracle), None),
        ("choices below 90 % of the best", np.mean(np.array(shares) < 0.9), None),
        ("the same, of the oracle", np.mean(np.array(oracle) < 0.9), None),
        ("median error of prediction", np.mean(errors), Target.at_most(0.08)),
        (
            "runs inside the 90 % interval",
            np.mean(coverages),
            Target.within(0.85, 0.97),
        ),
    ):
        yield Row(f"{name}: {what}", float(value), "", target if targets else None)


def _kept(found: list[Found]) -> Iterator[dict[str, Any]]:
    for family, repeats in product(FAMILIES, REPEATS):
        mine = [each for each in found if (each.family, each.repeats) == (family, repeats)]
        yield {
            "family": family,
            "repeats": repeats,
            "share_mean": [round(each.evaluation.share_mean, 4) for each in mine],
            "share_worst": [round(each.evaluation.share_worst, 4) for each in mine],
            "oracle_share_worst": [round(min(each.oracle), 4) for each in mine],
            "error_median": [round(each.evaluation.error_median, 4) for each in mine],
            "coverage": [round(each.evaluation.coverage, 4) for each in mine],
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.select", description=__doc__)
    parser.add_argument("--sweeps", type=int, default=20, metavar="N", help="of each family and repeats")
    parser.add_argument("--no-keep", action="store_true", help="only print")
    arguments = parser.parse_args()
    found = list(judge(arguments.sweeps))
    return 0 if publish("select", list(rows(found)), list(_kept(found)), keep=not arguments.no_keep) else 1


if __name__ == "__main__":
    sys.exit(main())
