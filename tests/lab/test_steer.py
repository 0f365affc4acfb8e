"""Streams changed on their way: what the kernel says of them, and what crosses the link."""

import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from copying import Argument, Copier, alive, tree

from howdah.values.outcome import Outcome
from howdah.values.plan import Later, Plan
from howdah.values.record import Record

pytestmark = pytest.mark.lab

T = TypeVar("T")

STREAMS, PACED_BPS = 8, 5_000_000
"""So slow that the kernel has 5 ms for each burst, and a busy machine that wakes it late loses little."""


PILOTED = """
import sys
import msgspec
from howdah.archive import Archive
from howdah.values.plan import Plan
from howdah.transfer.display import Quiet
from howdah.remote.endpoints import route
from howdah.remote.messages import Steering
from howdah.transfer.request import Request
from howdah.transfer.run import run

def pilot(now):
    if now.latest is None:
        return Steering(congestion_control="nosuch", streams=1, why="a whim")
    if now.latest.refused:
        return Steering(congestion_control="reno", streams=2, why="then that")

places = route(["far:"], memory=True)
plan = Plan(streams=2, block_bytes=1 << 20)
done = run(Request(command=["x"], route=places, memory_s=0.6, plan=plan, pilot=pilot), Quiet(), Archive())
sys.stdout.buffer.write(msgspec.json.encode(done.record.outcome))
"""


def planned(folder: Path, *changes: Later, **keys: Any) -> Path:  # noqa: ANN401, the plan's
    file = folder / "plan.json"
    made = Plan(congestion_control="cubic", block_bytes=2**20, changes=list(changes), **keys)
    file.write_bytes(msgspec.json.encode(made))
    return file


def watched(cp: Copier, look: Callable[[], T], *arguments: Argument) -> tuple[Outcome, list[T]]:
    """The outcome of a copy that must succeed with all its changes, and what was seen while it went on."""
    seen = []
    with (cp.folder / "record.json").open("w+") as output:
        with alive(cp.lab.popen("near", cp.argv(*arguments, "--json"), env=cp.env, stdout=output)) as process:
            while process.poll() is None:
                seen.append(look())
                time.sleep(0.03)
        output.seek(0)
        outcome = msgspec.json.decode(output.read(), type=Record).outcome
    assert outcome is not None
    assert [change.refused for change in outcome.changes] == [None] * len(outcome.changes)
    return outcome, seen


def controls(cp: Copier) -> dict[str, str]:
    """The congestion control of each data stream by its port, as the sending kernel says it."""
    ss = ["ss", "-tinHO", "state", "established", "dport", "!=", ":22"]
    listed = cp.lab.run("near", ss, capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in listed.splitlines()]
    return {each[2].rpartition(":")[2]: each[4] for each in words}


def test_live_streams_take_another_congestion_control_and_stay_connected(cp: Copier, tmp_path: Path) -> None:
    changes = [Later(at_s=1.2, congestion_control="bbr"), Later(at_s=2.4, congestion_control="cubic")]
    file = planned(tmp_path, *changes, streams=2)
    outcome, seen = watched(cp, lambda: controls(cp), "--memory", "3.3s", "--plan", file, "far:")
    whole = [now for now in seen if len(now) == 2]
    assert len({tuple(sorted(now)) for now in whole}) == 1, "the streams connected anew"
    settled = [next(iter(now.values())) for now in whole if len(set(now.values())) == 1]
    assert [control for control, _ in groupby(settled)] == ["cubic", "bbr", "cubic"]
    assert [change.congestion_control for change in outcome.changes] == ["bbr", "cubic"]
    assert [change.t_s for change in outcome.changes] == pytest.approx([1.2, 2.4], abs=0.4)
    assert outcome.bytes == sum(stream.bytes for stream in outcome.streams)
    assert {stream.congestion_control for stream in outcome.streams} == {"cubic"}
    # No stream stood still after a change.
    for begin, end in ((0.6, 1.2), (1.8, 2.4), (2.7, 3.2)):
        acked = [
            [each.bytes_acked for each in outcome.samples if each.stream == stream and begin < each.t_s < end]
            for stream in (0, 1)
        ]
        assert all(counts[-1] > counts[0] for counts in acked), (begin, acked)


def test_a_far_sender_paced_at_half_halves_what_crosses_the_link(cp: Copier, tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "dst"
    source.mkdir()
    (source / "big").write_bytes(bytes(range(256)) * 48_000)
    later = Later(at_s=1.5, pacing_bps=PACED_BPS // 2)
    file = planned(tmp_path, later, streams=STREAMS, pacing_bps=PACED_BPS)

    def far_to_near() -> tuple[float, int]:
        stats = cp.lab.stats()
        return stats.elapsed_ns / 1e9, stats.directions["far_to_near"].wire_bytes

    outcome, crossed = watched(cp, far_to_near, "--plan", file, f"far:{source}", target)
    assert tree(target) == tree(source)
    (change,) = outcome.changes
    assert change.pacing_bps == PACED_BPS // 2
    assert outcome.setup_s is not None
    first_s = next(at_s for at_s, so_far in crossed if so_far > crossed[0][1] + 100_000)
    turn_s = first_s + change.t_s - outcome.setup_s

    def rate(begin_s: float, end_s: float) -> float:
        inside = [point for point in crossed if begin_s < point[0] < end_s]
        (start_s, start), (stop_s, stop) = inside[0], inside[-1]
        return (stop - start) / (stop_s - start_s)

    before, after = rate(turn_s - 0.9, turn_s - 0.2), rate(turn_s + 0.3, turn_s + 1.0)
    assert 0.4 < after / before < 0.7


def test_what_the_sender_cannot_do_is_refused_before_it_begins_or_on_its_way(
    cp: Copier, tmp_path: Path
) -> None:
    file = planned(tmp_path, Later(at_s=1.0, congestion_control="nosuch"), streams=1)
    refused = cp.refused("--plan", file, "far:/x", tmp_path)
    assert "the plan's nosuch after 1 s: the kernel of the sender, far" in refused
    done = cp.lab.run("near", [sys.executable, "-c", PILOTED], env=cp.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outcome = msgspec.json.decode(done.stdout, type=Outcome)
    wrong, right = outcome.changes
    assert wrong.refused is not None
    assert wrong.refused.startswith('congestion control "nosuch" is not in this kernel, which has ')
    assert (right.refused, right.why) == (None, "then that")
    assert [stream.congestion_control for stream in outcome.streams] == ["reno", "reno"]
    assert outcome.bytes == sum(stream.bytes for stream in outcome.streams)
