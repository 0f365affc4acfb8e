"""A copy that listens and changes how it sends, over a real link; who is there is told by a stand-in."""

import sys
import time
from pathlib import Path

import msgspec
import pytest
from copying import Copier, alive

from howdah import lab
from howdah.record import Record

pytestmark = pytest.mark.lab

LISTENING = """
import sys
from types import SimpleNamespace
import msgspec
from howdah.archive import Archive
from howdah.plan import Plan
from howdah.transfer import beside
from howdah.transfer.display import Quiet
from howdah.transfer.endpoints import route
from howdah.transfer.run import Request, run

def recognise(times_s, rtt_s, base_rtt_s, ours):
    assert len(times_s) == len(rtt_s) and base_rtt_s > 0 and len(ours) == 1
    return SimpleNamespace(classes={"1 bbr": 0.95, "nobody": 0.05}, new=False, heard_s=2.5)

beside.listen = recognise
places = route(["far:"], memory=True)
plan = Plan(congestion_control="cubic", streams=2, block_bytes=1 << 20)
asked = Request(command=["x"], route=places, memory_s=13.0, plan=plan, fairness=0.5)
done = run(asked, Quiet(), Archive())
sys.stdout.buffer.write(msgspec.json.encode(done.record))
"""


def test_a_copy_that_comes_later_begins_with_one_stream(privilege: None, tmp_path: Path) -> None:
    """Beside streams that have filled the queue; alone with all of its plan."""
    with lab.started(lab.symmetric(200_000_000, 60_000_000), sshd=True) as wan:
        cp = Copier(wan, tmp_path)
        alone = [cp.good("--memory", "1s", "far:").outcome for _ in range(3)]
        assert any(outcome is not None and not outcome.changes for outcome in alone), "but for a busy machine"
        begun = [*cp.argv("--memory", "9s", "--no-listen", "--quiet", "far:")]
        with alive(wan.popen("near", begun, env=cp.env)) as other:
            time.sleep(4)
            later = cp.good("--memory", "2s", "far:")
            assert other.wait(20) == 0
    assert later.plan is not None
    assert later.plan.streams > 1
    assert later.outcome is not None
    (change,) = later.outcome.changes
    assert (change.streams, change.refused) == (1, None)
    assert change.why == "others were heard before the first byte"
    assert sum(stream.bytes > 0 for stream in later.outcome.streams) == 1


def test_a_copy_hears_by_icmp_and_changes_its_live_streams(cp: Copier) -> None:
    done = cp.lab.run("near", [sys.executable, "-c", LISTENING], env=cp.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = msgspec.json.decode(done.stdout, type=Record)
    outcome, listened = record.outcome, record.listened
    assert record.error is None
    assert outcome is not None
    assert listened is not None
    assert (listened.by, listened.not_by_icmp, listened.ended) == ("icmp", None, None)
    assert [each.background for each in listened.heard] == ["1 bbr"]
    assert listened.base_rtt_s is not None
    assert 0.02 <= listened.base_rtt_s < 0.03, "of some 1,000 probes the least"
    (sent,) = listened.sent
    assert (sent.congestion_control, sent.streams, sent.background) == ("bbr", 1, "1 bbr")
    assert sent.before is not None
    (change,) = outcome.changes
    assert (change.congestion_control, change.streams, change.refused) == ("bbr", 1, None)
    assert change.t_s == pytest.approx(sent.t_s)
    assert {stream.congestion_control for stream in outcome.streams} == {"bbr"}
    assert outcome.bytes == sum(stream.bytes for stream in outcome.streams)
