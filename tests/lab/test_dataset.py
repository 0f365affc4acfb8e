"""``howdah shared dataset`` in labs: what it records, after it was stopped, too."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from copying import wait_until

from howdah.recognition.files import read_recording

pytestmark = pytest.mark.lab

# A queue of 400 ms is more than any pause of a machine adds to a round trip of 200 ms.
PLAN = """
name = "tiny"
length = "5s"
settle = "1s"
runs = 1
late_again = 3
classes = ["nobody", "1 cubic"]
ours = ["nobody", "1 bbr"]
[[path]]
name = "slow"
rate = "2Mbit"
rtt = "200ms"
queue = "2BDP"
"""
FILES = {
    f"{folder}/slow.{others}.beside-{ours}.1.npz"
    for folder, ours in (("nothing", "nobody"), ("bbr", "1bbr"))
    for others in ("nobody", "1cubic")
}


def found(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.npz")}


@pytest.mark.beside
def test_a_data_set_is_recorded_after_it_was_stopped(privilege: None, tmp_path: Path) -> None:
    plan, folder = tmp_path / "tiny.toml", tmp_path / "out"
    plan.write_text(PLAN)
    argv = [sys.executable, "-P", "-m", "howdah", "shared", "dataset", str(plan), "-o", str(folder)]
    stopped = subprocess.Popen([*argv, "--quiet"])
    wait_until(folder.exists, 20)
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(40) == 128 + signal.SIGTERM
    assert not found(folder)
    ended = subprocess.run([*argv, "--json"], stdout=subprocess.PIPE, check=True, timeout=120)
    told = json.loads(ended.stdout)
    recorded, left_out = (
        {str(Path(file).relative_to(folder)) for file in told[key]} for key in ("recorded", "left_out")
    )
    assert recorded | left_out == FILES
    assert found(folder) == recorded
    for name in recorded:
        held, _ = read_recording(folder / name)
        assert held.label == ("nobody" if "nobody.b" in name else "1 cubic")
        assert held.ours == (None if name.startswith("nothing") else {"bbr": 1})
        assert held.made is not None
        assert (held.made.rate_bps, held.made.queue_bytes) == (2_000_000, 100_000)
        assert held.base_rtt_s >= 0.2
        assert np.isfinite(held.rtt_s).any()


ACTIVE = """
name = "active"
length = "12s"
settle = "1s"
runs = 1
late_again = 3
classes = ["nobody"]
bursts = true
[[path]]
name = "slow"
rate = "1Mbit"
rtt = "50ms"
queue = "2BDP"
[[path]]
name = "wide"
rate = "60Mbit"
rtt = "50ms"
queue = "2BDP"
"""


def test_bursts_of_active_probing_are_in_the_recording_when_they_are_on_the_path(
    privilege: None, tmp_path: Path
) -> None:
    plan, folder = tmp_path / "active.toml", tmp_path / "out"
    plan.write_text(ACTIVE)
    argv = [sys.executable, "-P", "-m", "howdah", "shared", "dataset", str(plan), "-o", str(folder)]
    subprocess.run([*argv, "--quiet"], check=True, timeout=120)
    names = {path: f"bursts/{path}.nobody.beside-bursts.1.npz" for path in ("slow", "wide")}
    assert found(folder) == set(names.values())
    queue_s = {}
    for path, name in names.items():
        held, _ = read_recording(folder / name)
        assert held.situation == "bursts"
        first_s = held.times_s[0]
        sent = [(each.congestion_control, round(each.start_s - first_s)) for each in held.bursts]
        assert sent == [("cubic", 0), ("bbr", 5), ("cubic", 10)]
        # Nobody else sends, and the first round trips of CUBIC are through no queue.
        cubic = held.bursts[0]
        busy = (held.times_s > cubic.start_s + 2) & (held.times_s < cubic.start_s + 5)
        queue_s[path] = float(np.nanmedian(held.rtt_s[busy])) - held.base_rtt_s
    # 1 Mb/s is more than the one path carries, and CUBIC fills its queue of 100 ms; the other has room.
    assert queue_s["slow"] > 0.03
    assert queue_s["wide"] < 0.01
