"""Lyapunov exponents and their verdict against systems with known answers: ``make bench-dynamics``.

Exponents are of 100 samples, over as many traces as ``--traces`` says; verdicts but for noise over fewer,
because the surrogates of a trace cost ten times its exponents. Noise in the dynamics makes another system
of a map, whose exponent is that along its own states, and the target there; the note says both.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bench.maps import LINEAR, MAPS, NOISE, orbit
from bench.report import Row, Target, publish
from howdah.profiles.dynamics import verdict
from howdah.profiles.dynamics.lyapunov import Exponents, exponents
from howdah.profiles.dynamics.traces import Trace

NAME = "dynamics"
SAMPLES = 100
LEVELS = (0.0, 0.02, 0.05, 0.1)
KINDS = ("observational", "dynamical")
CLOSE = 0.1
"""Of the exponent, in nats per step."""
JUDGED_SHARE = 8
"""One trace in so many is set beside its surrogates; of independent noise, every one."""
Run = dict[str, Any]


class Case(NamedTuple):
    """A system and the noise on it."""

    name: str
    noise: str = KINDS[0]
    level: float = 0.0

    def __str__(self) -> str:
        return f"{self.name}, {self.level:.0%} {self.noise} noise" if self.name in MAPS else self.name


class Found(NamedTuple):
    """Of one trace."""

    local: float
    rosenstein: float
    own: float | None
    """The mean of ln|slope| along the states, where the map is known."""
    beyond: bool | None
    """None where the trace was not judged."""
    chaotic: bool | None


CASES = (
    *(Case("logistic", KINDS[0], level) for level in LEVELS),
    *(Case("logistic", KINDS[1], level) for level in LEVELS[1:]),
    *(Case(name, KINDS[0], 0.05) for name in MAPS if name != "logistic"),
    *(Case(name) for name in (*NOISE, *LINEAR)),
)


def main() -> int:
    options = _options()
    runs = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for case in CASES:
            found = list(pool.map(partial(measure, case), range(options.traces), chunksize=8))
            runs.append(_summary(case, found))
            print(f"{case}: {options.traces} traces", file=sys.stderr)
    met = publish(NAME, [row for run in runs for row in _rows(run)], runs, keep=options.keep)
    return 0 if met else 1


def measure(case: Case, seed: int) -> Found:
    """One trace of a case, by its seed."""
    trace, own = _made(case, seed)
    found = exponents(trace)
    if not isinstance(found, Exponents):
        raise SystemExit(f"{case}, seed {seed}: {found.reason}")
    if case.name not in NOISE and seed % JUDGED_SHARE:
        return Found(found.local, found.rosenstein, own, None, None)
    judged = verdict.chaos_verdict(found, verdict.draw_surrogates(trace, seed))
    return Found(found.local, found.rosenstein, own, judged.beyond, judged.chaotic)


def _made(case: Case, seed: int) -> tuple[Trace, float | None]:
    rng = np.random.default_rng(seed)
    if case.name in MAPS:
        return orbit(MAPS[case.name], rng, SAMPLES, **{case.noise: case.level})
    return (NOISE | LINEAR)[case.name](rng, SAMPLES), None


def _summary(case: Case, found: list[Found]) -> Run:
    judged = [each for each in found if each.chaotic is not None]
    own = [each.own for each in found if each.own is not None]
    return {
        "case": str(case),
        **case._asdict(),
        "traces": len(found),
        "local": _estimate(case, [each.local for each in found]),
        "rosenstein": _estimate(case, [each.rosenstein for each in found]),
        "own_exponent": float(np.mean(own)) if own else None,
        "judged": len(judged),
        "beyond_share": float(np.mean([each.beyond for each in judged])),
        "chaotic_share": float(np.mean([each.chaotic for each in judged])),
    }


def _estimate(case: Case, values: list[float]) -> Run:
    low, high = np.quantile(values, (0.05, 0.95))
    close = None
    if case.name in MAPS:
        close = float(np.mean(np.abs(np.array(values) - MAPS[case.name].exponent) <= CLOSE))
    return {"mean": float(np.mean(values)), "low": float(low), "high": float(high), "close_share": close}


def _rows(run: Run) -> Iterator[Row]:
    """A target only where one is promised: the logistic map's exponent, and noise not called chaotic."""
    of_map = run["name"] in MAPS
    if of_map:
        yield from (_exponent_row(run, estimate) for estimate in ("local", "rosenstein"))
    yield Row(
        f"{run['case']}: {'' if of_map else 'not '}called chaotic",
        100 * (run["chaotic_share"] if of_map else 1 - run["chaotic_share"]),
        "%",
        Target.at_least(95) if run["name"] in NOISE else None,
        f"{run['judged']} traces; beyond their surrogates {run['beyond_share']:.1%}",
    )


def _exponent_row(run: Run, estimate: str) -> Row:
    exponent, of = MAPS[run["name"]].exponent, run[estimate]
    truth = run["own_exponent"] if run["noise"] == "dynamical" else exponent
    target = Target.within(truth - CLOSE, truth + CLOSE, f"{truth:.3f} ± {CLOSE:g}")
    return Row(
        f"{run['case']}: {estimate}, mean",
        of["mean"],
        "nats/step",
        target if run["name"] == "logistic" else None,
        f"without noise {exponent:.3f}, along the states {run['own_exponent']:.3f}; "
        f"within {CLOSE:g} of the first in {of['close_share']:.0%} of traces; "
        f"90 % {of['low']:.2f} to {of['high']:.2f}",
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.dynamics", description=__doc__)
    parser.add_argument("--traces", type=int, default=400, help="of each case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
