"""One ``howdah cp`` between hosts of a lab, timed from the start of the command to its end, and compared."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from howdah.lab import Lab
from howdah.values.outcome import Outcome
from howdah.values.plan import Plan
from howdah.values.record import Record

_PROGRAM = Path(sys.executable).parent / "howdah"


class Copied(NamedTuple):
    """A copy that has succeeded."""

    wall_s: float
    record: Record
    plan: Plan
    outcome: Outcome


def copied(lab: Lab, host: str, source: Path, archive: Path, *, of: str, to: str) -> Copied:
    """A copy that ``host`` starts.

    The command names ``source`` by ``of``. The copy gets a new name beside it at host ``to``, and is removed
    again. Raises SystemExit where it fails, or differs.
    """
    there = source.parent / f"there-{time.monotonic_ns()}"
    env = {**os.environ, "XDG_DATA_HOME": str(archive)}
    argv = [str(_PROGRAM), "cp", "--json", of, f"{to}:{there}"]
    began_s = time.monotonic()
    done = lab.run(host, argv, env=env, capture_output=True, timeout=600)
    wall_s = time.monotonic() - began_s
    if done.returncode:
        raise SystemExit(f"{host}: {done.stderr.decode(errors='replace')}")
    same = subprocess.run(["cmp", "--silent", source, there], check=False).returncode == 0
    there.unlink()
    record = msgspec.json.decode(done.stdout, type=Record)
    if not same or record.outcome is None or record.plan is None:
        raise SystemExit(f"{host}: what has arrived is not what was sent")
    return Copied(wall_s, record, record.plan, record.outcome)
