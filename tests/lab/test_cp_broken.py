"""What becomes of a copy whose data connections break on the way."""

import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from copying import Copier, alive

from howdah.values.record import Record

pytestmark = [pytest.mark.lab, pytest.mark.beside]

TIMES = 3
APART_S = 0.4


@pytest.mark.parametrize("host", ["near", "far"])
@pytest.mark.parametrize("push", [True, False])
def test_connections_that_a_kernel_resets_are_replaced(
    cp: Copier, tmp_path: Path, push: bool, host: str
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(300_000_000))
    arguments = [source, f"far:{target}"] if push else [f"far:{source}", target]
    argv = [*cp.argv(*arguments), "--json", "--quiet"]
    said = tmp_path / "record.json"
    with (
        # A pipe that nobody reads yet would hold the process at its end.
        said.open("wb") as record,
        alive(cp.lab.popen("near", argv, env=cp.env, stdout=record, stderr=subprocess.PIPE)) as process,
    ):
        reset = 0
        while reset < TIMES and process.poll() is None:
            time.sleep(APART_S)
            reset += cp.reset_all(host) > 0
        _, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    assert target.read_bytes() == source.read_bytes()
    outcome = msgspec.json.decode(said.read_bytes(), type=Record).outcome
    assert outcome is not None
    assert outcome.bytes == 300_000_000
    assert reset > 0
    assert outcome.connections_replaced >= reset
