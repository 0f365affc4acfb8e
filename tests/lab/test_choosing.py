"""A copy that listens and changes how it sends, over a real link; who is there is told by a stand-in."""

import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from copying import Copier, alive

from howdah import lab
from howdah.values.outcome import Outcome
from howdah.values.reason import Reason
from howdah.values.record import Record

pytestmark = pytest.mark.lab

LISTENING = """
import sys
from types import SimpleNamespace
import msgspec
from howdah.archive import Archive
from howdah.values.plan import Plan
from howdah.steering import controller
from howdah.transfer.display import Quiet
from howdah.remote.endpoints import route
from howdah.transfer.request import Request
from howdah.transfer.run import run

def recognise(times_s, rtt_s, base_rtt_s, ours):
    assert len(times_s) == len(rtt_s) and base_rtt_s > 0 and len(ours) <= 1
    return SimpleNamespace(classes={sys.argv[1]: 0.95, "nobody": 0.05}, new=False, heard_s=2.5)

controller.listen = recognise
places = route(["far:"], memory=True)
plan = Plan(congestion_control="cubic", streams=int(sys.argv[2]), block_bytes=1 << 20)
asked = Request(command=["x"], route=places, memory_s=float(sys.argv[3]), plan=plan, fairness=0.5)
done = run(asked, Quiet(), Archive())
sys.stdout.buffer.write(msgspec.json.encode(done.record))
"""


def listening(cp: Copier, heard: str, streams: int, for_s: float) -> Record:
    argv = [sys.executable, "-c", LISTENING, heard, str(streams), str(for_s)]
    done = cp.lab.run("near", argv, env=cp.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = msgspec.json.decode(done.stdout, type=Record)
    if record.outcome is not None:
        # Shown where a test fails.
        print([round(sent_bps(record.outcome, s, s + 1) / 1e6) for s in range(round(for_s))], "Mb/s")
        print([(round(change.t_s, 1), change.pacing_bps, change.why) for change in record.outcome.changes])
    return record


def sent_bps(outcome: Outcome, begin_s: float, end_s: float) -> float:
    """What all streams had acknowledged between these, by their samples."""
    acked = 0
    for stream in range(len(outcome.streams)):
        own = [s.bytes_acked for s in outcome.samples if s.stream == stream and begin_s <= s.t_s < end_s]
        acked += own[-1] - own[0] if own else 0
    return acked * 8 / (end_s - begin_s)


def test_a_copy_that_comes_later_begins_with_one_stream(privilege: None, tmp_path: Path) -> None:
    """Beside streams that have filled the queue; alone with all of its plan."""
    with lab.started(lab.symmetric(200_000_000, 60_000_000), sshd=True) as wan:
        cp = Copier(wan, tmp_path)
        alone = (cp.good("--memory", "1s", "far:").outcome for _ in range(3))
        assert any(outcome is not None and not outcome.changes for outcome in alone), "but for a busy machine"
        begun = [*cp.argv("--memory", "9s", "--no-listen", "--quiet", "far:")]
        with alive(wan.popen("near", begun, env=cp.env)) as other:
            time.sleep(4)
            # A login of its own takes round trips enough for answers to arrive before the first byte.
            later = cp.good("--memory", "2s", "far:", HOWDAH_SSH_KEEP_S="0")
            assert other.wait(20) == 0
    assert later.plan is not None
    assert later.plan.streams > 1
    assert later.outcome is not None
    (change,) = later.outcome.changes
    assert (change.streams, change.refused) == (1, None)
    assert change.why == "competing traffic before the first byte"
    assert sum(stream.bytes > 0 for stream in later.outcome.streams) == 1


CARRIES_BPS = 100e6 * 1448 / 1514
"""Of payload, by a path of 100 Mb/s."""


def test_a_copy_listens_and_changes_its_live_streams(privilege: None, tmp_path: Path) -> None:
    """Three copies at the same time, each on a path of its own: they mostly wait."""
    ways = {"hears": a_copy_that_hears_bbr, "comes": a_copy_that_comes, "stays": a_copy_that_stays}
    with ThreadPoolExecutor(len(ways)) as pool:
        made = {name: pool.submit(copy, tmp_path / name) for name, copy in ways.items()}
    assert_it_hears_by_icmp_and_changes(made["hears"].result())
    assert_it_measures_what_the_path_carries_and_takes_an_equal_share(made["comes"].result())
    assert_it_is_held_alone_and_who_comes_has_an_equal_share(made["stays"].result())


@contextmanager
def path(folder: Path, rtt_ms: int) -> Iterator[Copier]:
    """100 Mb/s."""
    folder.mkdir()
    with lab.started(lab.symmetric(100_000_000, rtt_ms * 1_000_000), sshd=True) as wan:
        yield Copier(wan, folder)


def a_copy_that_hears_bbr(folder: Path) -> Record:
    """It is told so."""
    with path(folder, 20) as cp:
        return listening(cp, "1 bbr", streams=2, for_s=13)


def a_copy_that_comes(folder: Path) -> Record:
    """It comes to one that ends 28 s before it."""
    with path(folder, 60) as cp:
        begun = [*cp.argv("--memory", "32s", "--streams", "1", "--no-listen", "--quiet", "far:")]
        with alive(cp.lab.popen("near", begun, env=cp.env)):
            time.sleep(6)
            return listening(cp, "1 cubic", streams=8, for_s=54)


def a_copy_that_stays(folder: Path) -> Record:
    """Another comes to it after 30 s, and goes on after its end."""
    with path(folder, 60) as cp:
        # On a slow machine the copy's own first byte comes seconds after this clock's start.
        late = ["sh", "-c", 'sleep 30; exec "$@"', "late"]
        comes = cp.argv("--memory", "24s", "--streams", "1", "--no-listen", "--quiet", "far:")
        with alive(cp.lab.popen("near", [*late, *comes], env=cp.env)) as other:
            record = listening(cp, "1 cubic", streams=8, for_s=48)
            assert other.wait(20) == 0
    return record


def assert_it_hears_by_icmp_and_changes(record: Record) -> None:
    """Once, and for good."""
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


def assert_it_measures_what_the_path_carries_and_takes_an_equal_share(record: Record) -> None:
    """CUBIC that comes late to CUBIC would take a minute to come to it. When the other ends, all is its."""
    listened, outcome = record.listened, record.outcome
    assert listened is not None
    assert outcome is not None
    told = [dip.capacity_bps for dip in listened.dips if dip.capacity_bps is not None]
    assert len(told) >= 2
    assert listened.capacity_bps == pytest.approx(CARRIES_BPS, rel=0.3)
    held = listened.sent[-1]
    assert (held.congestion_control, held.streams, held.held, held.undone) == ("cubic", 8, True, None)
    assert held.pacing_bps is not None
    assert held.pacing_bps * 8 == pytest.approx(listened.capacity_bps / 2, rel=0.15)
    beside = [change for change in outcome.changes if held.t_s <= change.t_s < 24]
    controls = [change.congestion_control for change in beside]
    started = [change.why for change in beside].index(Reason.SLOW_START_OVER)
    assert set(controls[:started]) == {"reno"}
    assert set(controls[started:]) == {"cubic"}
    assert beside[started].t_s - held.t_s < 3
    assert all(change.pacing_bps for change in beside)
    # A stream may be paced to twice its equal part while windows keep others from theirs (TUNED.uneven_most).
    # What all send together is what the other one meets.
    for second in range(math.ceil(held.t_s), 23):
        assert sent_bps(outcome, second, second + 1) < 0.6 * CARRIES_BPS
    assert 0.3 < sent_bps(outcome, held.t_s + 4, 24) / CARRIES_BPS < 0.65
    assert held.after is not None
    assert 0.8 < held.after.rate_bps / CARRIES_BPS < 1.05
    dips = [change for change in outcome.changes if change.why == Reason.PROBING_CAPACITY]
    assert len(dips) == 2 * len(listened.dips), "each bound is lifted again"


def assert_it_is_held_alone_and_who_comes_has_an_equal_share(record: Record) -> None:
    """CUBIC that comes late to streams that fill the queue would take minutes to come to it."""
    listened, outcome = record.listened, record.outcome
    assert listened is not None
    assert outcome is not None
    held = listened.sent[0]
    assert (held.why, held.streams, held.held) == ("nobody else fills the path", 8, True)
    assert held.t_s < 17
    assert listened.capacity_bps == pytest.approx(CARRIES_BPS, rel=0.05)
    assert (len(listened.sent), listened.dips) == (1, [])
    assert {change.streams for change in outcome.changes} == {8}, "it is never left to few"
    assert sent_bps(outcome, held.t_s + 3, 22) > 0.8 * CARRIES_BPS
    assert 0.35 < sent_bps(outcome, 38, 45) / CARRIES_BPS < 0.65
