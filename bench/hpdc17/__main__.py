"""The measurements of the HPDC 2017 paper in the lab, and what becomes of them: ``make bench-hpdc17``.

Runs two sweeps into an archive of their own below ``.bench``, going on where they were stopped; then judges
what the archive has: each statement of the papers by its rule, choice and prediction at RTTs left out, and
the other benches of dedicated paths by their records. The page of it is kept beside the record.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from bench import memory, report
from bench.hpdc17 import judge, page, record
from howdah import HowdahError, interrupt
from howdah.archive import Archive
from howdah.measure.plan import load_plan
from howdah.report.material import Material

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".bench" / "hpdc17"
PLANS = [ROOT / "scenarios" / f"hpdc17-{name}.toml" for name in ("two-hours", "sizes")]


def main() -> int:
    interrupt.install()
    options = _options()
    files: list[Path] = [options.plan] if options.plan else PLANS
    plans = [load_plan(file) for file in files]
    for file in files if options.sweep else ():
        if code := _sweep(file):
            return code
    if options.parts:
        for part in judge.PARTS:
            subprocess.run([sys.executable, "-m", f"bench.{part}"], cwd=ROOT, check=False)
    archive = Archive(HOME / "howdah" / "records")
    runs = archive.runs().where(sweep=[plan.name for plan in plans])
    try:
        material = Material(runs)
        rows = [
            *(judge.of_sweep(plan, archive) for plan in plans),
            judge.of_lateness(material),
            *judge.of_selection(material),
            *judge.of_parts(),
            *judge.of_statements(material),
        ]
    except HowdahError as error:
        print(f"bench hpdc17: {error}", file=sys.stderr)
        return 1
    newest = archive.load(str(material.all.id[-1]))
    met = report.publish("hpdc17", rows, record.kept(runs, newest), keep=options.keep)
    if options.keep:
        record.keep_traces(archive, material)
        page.draw()
    return 0 if met else 1


def _sweep(plan: Path) -> int:
    HOME.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "howdah", "sweep", str(plan)]
    with memory.warm(), subprocess.Popen(command, env={**os.environ, "XDG_DATA_HOME": str(HOME)}) as sweep:
        try:
            return sweep.wait()
        except interrupt.Interrupted:
            sweep.terminate()
            raise


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.hpdc17", description=__doc__)
    parser.add_argument("--plan", type=Path, metavar="TOML", help="another sweep")
    parser.add_argument("--no-sweep", dest="sweep", action="store_false", help="judge what the archive has")
    parser.add_argument(
        "--no-parts", dest="parts", action="store_false", help="take the other benches' records as they are"
    )
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
