"""Tests in Rust that count: a bench runs one with more cases than the suite does, and keeps what it says."""

import json
import os
import subprocess
import sys
from typing import Any


def counted(target: str, test: str, says: str, variable: str, cases: int) -> dict[str, Any]:
    """What a test of howdah-transfer counted, the JSON behind ``says`` on a line of its own.

    ``variable`` of the environment has the test take so many ``cases``. A test that ends before it has
    counted ends the bench.
    """
    command = ["cargo", "test", "--release", "--locked", "-p", "howdah-transfer", "--test", target, "--"]
    done = subprocess.run(
        [*command, test, "--exact", "--nocapture"],
        env={**os.environ, "CI": "1", variable: str(cases)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    said = [line.removeprefix(says) for line in done.stdout.splitlines() if line.startswith(says)]
    if len(said) != 1:
        print(done.stdout, file=sys.stderr)
        raise SystemExit(f"the test ended with {done.returncode} before it had counted")
    found: dict[str, Any] = json.loads(said[0])
    return found
