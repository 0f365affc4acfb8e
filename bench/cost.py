"""What durability and digests at both ends cost: ``make bench-cost ARGS="--before FOLDER"``.

FOLDER is a checkout of a commit before both (df17564 in the issue on trust), in which ``make build`` was run.
Both ends of a copy are of one build, and the builds take turns over the same link, in memory. Timed is the
whole command, with a login that is kept from the copy before.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench import memory
from bench.peers import work
from bench.report import Row, Target, publish
from demo import data
from demo.compare import differences
from howdah import lab
from howdah.lab import Lab

PROGRAM = ".venv/bin/howdah"
RATE_BPS = 10_000_000_000
RTTS_NS = (1_000_000, 100_000_000)
FILE_BYTES = 4 << 30
ROUNDS = 7
LEAST = {"file": 0.95, "tree": 0.85}
"""The least rate of now, as a part of that before (the issue's words)."""
SETTLES_S = 3.0
"""The next far end is on its way to being ready, and disturbs the copy after it."""


class Build(NamedTuple):
    """Howdah as it was built in a checkout."""

    name: str
    checkout: Path
    commit: str
    """The commit that is checked out."""

    @classmethod
    def of(cls, name: str, checkout: Path) -> "Build":
        """The build in a checkout."""
        words = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        return cls(name, checkout, done.stdout.strip())

    @property
    def program(self) -> Path:
        """Its command."""
        return self.checkout / PROGRAM


def copied(wan: Lab, build: Build, source: Path, scratch: Path) -> dict[str, Any]:
    """A copy to a new name beside its source, which is compared and removed.

    Raises SystemExit where it fails or differs.
    """
    there = source.parent / f"there-{time.monotonic_ns()}"
    own = scratch / build.name
    own.mkdir(mode=0o700, exist_ok=True)
    env = {**os.environ, "XDG_DATA_HOME": str(own), "XDG_RUNTIME_DIR": str(own)}
    argv = [str(build.program), "cp", "--json", "--far-howdah", str(build.program), str(source)]
    began_s = time.monotonic()
    done = wan.run("near", [*argv, f"far:{there}"], env=env, capture_output=True, timeout=600)
    wall_s = time.monotonic() - began_s
    if done.returncode:
        raise SystemExit(f"{build.name}: {done.stderr.decode(errors='replace')}")
    if found := next(differences(source, there), None):
        raise SystemExit(f"{build.name}: {found}")
    shutil.rmtree(there) if there.is_dir() else there.unlink()
    outcome = json.loads(done.stdout)["outcome"]
    return {"build": build.name, "wall_s": wall_s, "bytes": outcome["bytes"], "files": outcome["files"]}


def measure(builds: list[Build], rounds: int) -> list[dict[str, Any]]:
    """The copies of each round, and before the first a small one of each build, which makes its login."""
    runs = []
    with memory.warm(), work.scratch(2 * FILE_BYTES + (1 << 28), 3 * data.LIBRARY_BYTES) as scratch:
        small = work.one_file(scratch / "small", 1 << 20).source
        file = work.one_file(scratch / work.LARGE / "file", FILE_BYTES).source
        tree = data.copy_library(scratch)
        for rtt_ns in RTTS_NS:
            with lab.started(lab.symmetric(RATE_BPS, rtt_ns), sshd=True) as wan:
                for build in builds:
                    copied(wan, build, small, scratch)
                for number in range(rounds):
                    for kind, source in (("tree", tree), ("file", file)):
                        for build in builds[:: 1 - 2 * (number % 2)]:
                            time.sleep(SETTLES_S)
                            done = copied(wan, build, source, scratch)
                            about = {"rtt_ms": rtt_ns / 1e6, "kind": kind, "round": number}
                            runs.append(about | done | {"built_from": build.commit})
                            print(
                                f"{about} {build.name:6} {done['wall_s']:6.2f} s", file=sys.stderr, flush=True
                            )
    return runs


def rows_of(runs: list[dict[str, Any]]) -> list[Row]:
    """The median of the pairs, and the spread of all."""
    rows = []
    for rtt_ms in sorted({run["rtt_ms"] for run in runs}):
        for kind, least in LEAST.items():
            of_these = [run for run in runs if (run["rtt_ms"], run["kind"]) == (rtt_ms, kind)]
            before, now = (
                [run["wall_s"] for run in of_these if run["build"] == name] for name in ("before", "now")
            )
            pairs = sorted(one / other for one, other in zip(before, now, strict=True))
            what = f"{kind}, {rtt_ms:g} ms: rate of now / before"
            rows.append(
                Row(f"{what}, median of the pairs", statistics.median(pairs), "×", Target.at_least(least))
            )
            rows.append(Row(f"{what}, least", pairs[0], "×"))
            rows.append(Row(f"{what}, most", pairs[-1], "×"))
    return rows


def main() -> int:
    """Runs the bench; returns its exit code."""
    parser = argparse.ArgumentParser(prog="bench.cost", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="a checkout, built, to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="another number keeps no record")
    given = parser.parse_args()
    checkouts = {"before": given.before.resolve(), "now": Path(__file__).parents[1]}
    for checkout in checkouts.values():
        if not (checkout / PROGRAM).exists():
            parser.error(f"{checkout / PROGRAM} is missing; build it: make -C {checkout} build")
    builds = [Build.of(name, checkout) for name, checkout in checkouts.items()]
    runs = measure(builds, given.rounds)
    return 0 if publish("cost", rows_of(runs), runs, keep=given.rounds == ROUNDS) else 1


if __name__ == "__main__":
    sys.exit(main())
