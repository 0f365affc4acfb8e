"""From a sweep to a copy: measured at two round trips, selected and carried out at a third."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from controls import clean_kernel

from howdah.archive import Archive

pytestmark = pytest.mark.lab

PLAN = """
name = "fork"
repeats = 1
late_again = 20
[lab]
rate = "200Mbit"
rtt = ["10ms", "40ms"]
[[runs]]
congestion_control = "cubic"
streams = [1, 2]
buffer = "16KB"
time = "500ms"
[[runs]]
congestion_control = "scalable"
streams = 2
buffer = "1MB"
time = "500ms"
"""


@pytest.fixture
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


def howdah(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "howdah", *arguments],
        env={**os.environ, "XDG_DATA_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=160,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("kernel")
def test_what_is_selected_is_what_a_copy_does_and_compares(tmp_path: Path) -> None:
    plan = tmp_path / "fork.toml"
    plan.write_text(PLAN)
    howdah(tmp_path, "sweep", str(plan), "--beside-others", "--json")
    answer = json.loads(howdah(tmp_path, "select", "--rtt", "20ms", "--json"))
    chosen = answer["chosen"]
    # Windows of 16 kB carry less than 30 Mb/s, whatever the run; those of 1 MB fill the link.
    assert (chosen["congestion_control"], chosen["streams"], chosen["buffer_bytes"]) == (
        "scalable",
        2,
        1_000_000,
    )
    assert (chosen["basis"], chosen["rtts_s"]) == ("interpolated", [0.01, 0.04])
    assert len(answer["others"]) == 2
    assert all(other["rate_low_bps"] < chosen["rate_low_bps"] for other in answer["others"])

    command = [
        sys.executable,
        "-m",
        "howdah",
        "cp",
        "--path",
        "dedicated",
        "--plaintext",
        "--memory",
        "500ms",
        "far:",
    ]
    said = howdah(tmp_path, "lab", "run", "--rate", "200Mbit", "--rtt", "20ms", "--sshd", "--", *command)
    copy = Archive(tmp_path / "howdah" / "records").load("last")
    assert copy.sweep is None
    assert copy.plan is not None
    assert copy.outcome is not None
    assert (copy.plan.path, copy.plan.streams, copy.plan.buffer_bytes) == ("dedicated", 2, 1_000_000)
    assert copy.outcome.congestion_control == copy.plan.congestion_control == "hd_scalable"
    predicted = copy.plan.why.prediction
    assert predicted is not None
    assert predicted.rate_mid_bps == pytest.approx(chosen["rate_mid_bps"], rel=0.05)
    assert predicted.duration_s is not None
    assert predicted.duration_s > 0.5
    assert ("sweep", "fork") in [(fact.name, fact.value) for fact in copy.plan.why.evidence]
    (line,) = [line for line in said.splitlines() if line.startswith("Predicted ")]
    assert "measured" in line
