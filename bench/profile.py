"""Transition RTTs of synthetic profiles found again: ``make bench-profile``.

Seven RTTs, ten runs at each, σ = 4 %. Families of curves and which profiles can be told are in
``bench/profile_families.py``.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from bench.profile_families import (
    CAPACITY_BPS,
    CONCAVE,
    CONVEX,
    RTTS_S,
    SIGMOID_PAIRS,
    TELLABLE,
    TURNING,
    TURNS,
    Family,
    distance,
    runs,
    turn,
)
from bench.report import Row, Target, publish
from howdah.profiles.profile import profile
from howdah.profiles.transition import transition
from howdah.profiles.transition.sigmoids import sigmoids

DRAWS = 300
AT_LEAST = Target.at_least(95)
Run = dict[str, Any]


def look(family: Family, count: int, generator: np.random.Generator) -> Iterator[Run]:
    """What is found of ``count`` profiles of a family, their turns spread over the grid."""
    for number in range(count):
        drawn = TURNS[number % len(TURNS)]
        means = family.draw(generator, drawn)
        measured = profile(*runs(means, generator))
        found = transition(measured, draws=DRAWS, seed=number)
        pair = sigmoids(measured, capacity_bps=CAPACITY_BPS)
        yield {
            "family": family.name,
            "drawn_s": float(RTTS_S[drawn]),
            "true_s": float(RTTS_S[turn(means)]),
            "errors_away": distance(means),
            "found_s": found.rtt_s,
            "interval_s": found.interval_s,
            "sigmoids_s": pair.transition_s,
        }


def exact(kept: Sequence[Run], key: str = "found_s", truth: str = "true_s") -> float | None:
    """The percentage of runs whose transition RTT is the true one."""
    return 100 * float(np.mean([run[key] == run[truth] for run in kept])) if kept else None


def held(kept: Sequence[Run]) -> float | None:
    """The percentage of runs whose interval holds the true transition RTT."""
    inside = [run["interval_s"][0] <= run["true_s"] <= run["interval_s"][1] for run in kept]
    return 100 * float(np.mean(inside)) if inside else None


def judge(found: Sequence[Run]) -> Iterator[Row]:
    """The rows of all runs."""
    for family in TURNING:
        kept = [run for run in found if run["family"] == family.name]
        tellable = [run for run in kept if run["errors_away"] >= TELLABLE]
        if tellable:
            share = f"{len(tellable)} of {len(kept)} can be told"
            what = f"{family.name}: exact, of those that can be told"
            yield Row(what, exact(tellable), "%", AT_LEAST, share)
        most = 100 * float(np.mean(ndtr([run["errors_away"] / 2 for run in kept])))
        note = f"the best rule between the two nearest turns: {most:.0f} %"
        yield Row(f"{family.name}: exact, of all", exact(kept), "%", note=note)
        yield Row(f"{family.name}: the 90 % interval holds it, of all", held(kept), "%")
        if family is SIGMOID_PAIRS:
            paper = exact(kept, "sigmoids_s", "drawn_s")
            yield Row(f"{family.name}: exact by the paper's fit, of all", paper, "%", AT_LEAST)
        else:
            yield Row(f"{family.name}: exact by the paper's fit, of all", exact(kept, "sigmoids_s"), "%")
    for word, families in (("concave", CONCAVE), ("convex", CONVEX)):
        for family in families:
            kept = [run for run in found if run["family"] == family.name]
            what = f"{family.name}: wholly {word}"
            yield Row(f"{what}, recognised", exact(kept), "%", AT_LEAST)
            yield Row(f"{what}, recognised by the paper's fit", exact(kept, "sigmoids_s"), "%")


def counts(found: Sequence[Run]) -> list[Run]:
    """How many runs are alike in all that the rows are made from."""
    same = Counter(
        (
            run["family"],
            run["errors_away"] >= TELLABLE,
            *(run[key] for key in ("drawn_s", "true_s", "found_s", "sigmoids_s")),
            run["interval_s"][0] <= run["true_s"] <= run["interval_s"][1],
        )
        for run in found
    )
    keys = ("family", "tellable", "drawn_s", "true_s", "found_s", "sigmoids_s", "in_interval")
    return [{**dict(zip(keys, row, strict=True)), "runs": count} for row, count in sorted(same.items())]


def main() -> int:
    """Draws, finds, judges."""
    parser = argparse.ArgumentParser(prog="bench.profile", description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, help="profiles of each family; nothing is kept then")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    found: list[Run] = []
    for family in (*TURNING, *CONCAVE, *CONVEX):
        print(family.name, file=sys.stderr)
        found.extend(look(family, options.each or 400, generator))
    return 0 if publish("profile", list(judge(found)), counts(found), keep=options.each is None) else 1


if __name__ == "__main__":
    sys.exit(main())
