"""What becomes of a copy whose path, or whose far end, is gone for a while."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from copying import Copier, alive, wait_until

from howdah import lab
from howdah.lab.session import Process
from howdah.transfer.standing import Standing
from howdah.values.outcome import Outcome
from howdah.values.record import Record

pytestmark = [pytest.mark.lab, pytest.mark.beside]

OUTAGE_S = 60.0
RETURN_S = 3.0
"""The copy goes on this long after the link's return (the issue's words)."""
CUT_AT_S = 5.0
UNHEARD_S = 16.5
"""A far end to which nobody has spoken for 12 s gives its parts to a copy that asks."""
BYTES = 500_000_000
MOVES_BYTES = 500_000
"""Between two looks: more than greetings and acknowledgements, less than a copy that moves."""

LARGE_BYTES = 60_000_000
SLOWLY = ("--streams", "4", "--pace", "75Mbit")

LOOK = """
import sys, time
while True:
    rows = open("/proc/net/dev").read().splitlines()[2:]
    got = max(int(row.split(":")[1].split()[0]) for row in rows if not row.strip().startswith("lo:"))
    print(time.monotonic(), got, flush=True)
    time.sleep(0.05)
"""
"""Prints how many bytes the link has brought to a host."""


@contextmanager
def out_for(seconds: float, folder: Path) -> Iterator[Copier]:
    """1 Gb/s, 20 ms, and nothing for so long."""
    cut_ns, back_ns = (int(at_s * 1e9) for at_s in (CUT_AT_S, CUT_AT_S + seconds))
    changes = (lab.Change(at_ns=cut_ns, outage=True), lab.Change(at_ns=back_ns, outage=False))
    link = lab.symmetric(1_000_000_000, 20_000_000)
    ways = {name: msgspec.structs.replace(way, changes=changes) for name, way in link.directions().items()}
    with lab.started(msgspec.structs.replace(link, **ways), sshd=True) as running:
        yield Copier(running, folder)


@pytest.fixture
def outage(privilege: None, tmp_path: Path) -> Iterator[Copier]:
    """A lab with an outage of a minute. What is copied is there before: the link's time runs."""
    (tmp_path / "source").write_bytes(os.urandom(BYTES))
    with out_for(OUTAGE_S, tmp_path) as cp:
        yield cp


def begun(cp: Copier, *arguments: str | Path) -> Process:
    argv = [*cp.argv(*arguments), "--json"]
    return cp.lab.popen("near", argv, env=cp.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def standing(cp: Copier) -> list[Standing]:
    """The copies of this host that are running."""
    asked = cp.lab.run("near", [*cp.argv()[:-1], "jobs", "--json"], env=cp.env, capture_output=True)
    return msgspec.json.decode(asked.stdout, type=list[Standing])


def outcome_of(process: Process, within_s: float) -> Outcome:
    said, complained = process.communicate(timeout=within_s)
    assert process.returncode == 0, complained
    outcome = msgspec.json.decode(said, type=Record).outcome
    assert outcome is not None
    return outcome


def stood_still_s(looks: Path) -> float:
    """The longest time in which a host got nothing of a copy that it had begun to get."""
    rows = [line.split() for line in looks.read_text().splitlines()[:-1]]
    seen = [(float(at), int(got)) for at, got in rows]
    moves = [(before[0], after[0]) for before, after in pairwise(seen) if after[1] - before[1] > MOVES_BYTES]
    # From the beginning of the last look that saw it move: no shorter than it was.
    return max(later[1] - earlier[0] for earlier, later in pairwise(moves))


def test_a_link_that_is_out_for_a_minute_is_ridden_through(outage: Copier, tmp_path: Path) -> None:
    source = tmp_path / "source"
    targets = {way: tmp_path / way for way in ("push", "pull")}
    looks = {"push": tmp_path / "far", "pull": tmp_path / "near"}
    with ExitStack() as ends:
        for looked in looks.values():
            out = ends.enter_context(looked.open("w"))
            argv = [sys.executable, "-c", LOOK]
            ends.enter_context(alive(outage.lab.popen(looked.name, argv, stdout=out)))
        copies = {
            "push": begun(outage, source, f"far:{targets['push']}"),
            "pull": begun(outage, f"far:{source}", targets["pull"]),
        }
        for copy in copies.values():
            ends.enter_context(alive(copy))
        outcomes = {way: outcome_of(copy, 2 * OUTAGE_S + 60) for way, copy in copies.items()}
    for way, outcome in outcomes.items():
        assert targets[way].read_bytes() == source.read_bytes(), way
        assert (outcome.outages, outcome.restarts) == (1, 0), way
        assert OUTAGE_S - 1 < outcome.outage_s < OUTAGE_S + RETURN_S, way
        assert outcome.connections_replaced > 0, way
        still_s = stood_still_s(looks[way])
        print(f"{way}: went on {still_s - OUTAGE_S:.2f} s after the link's return")
        assert OUTAGE_S - 1 < still_s < OUTAGE_S + RETURN_S, way


def kill_near_end(cp: Copier) -> None:
    """Kills howdah and ssh at the near host."""
    running = {pid: args.split()[0].rpartition("/")[2] for pid, args in cp.processes().items()}
    near = [str(pid) for pid, name in running.items() if name in ("ssh", "ssh:")]
    cp.lab.run("near", ["kill", "-KILL", *near], check=True)


@pytest.mark.usefixtures("privilege")
def test_the_next_copy_goes_on_after_a_near_end_went_while_the_path_was_out(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "there/source"
    source.write_bytes(os.urandom(LARGE_BYTES))
    target.parent.mkdir()
    with out_for(UNHEARD_S, tmp_path) as cp:
        back_s = time.monotonic() + CUT_AT_S + UNHEARD_S
        with alive(begun(cp, source, f"far:{target}", "--limit", "80Mbit")) as process:
            time.sleep(back_s - UNHEARD_S + 0.5 - time.monotonic())
            assert process.poll() is None
            process.kill()
            kill_near_end(cp)
        time.sleep(back_s + 0.5 - time.monotonic())
        (orphan,) = cp.far_ends()
        record = cp.good(source, f"far:{target}")
        assert orphan not in cp.far_ends()
    assert record.outcome is not None
    assert record.outcome.bytes_resumed > LARGE_BYTES // 10
    assert record.outcome.warnings == []
    assert target.read_bytes() == source.read_bytes()
    assert [each.name for each in target.parent.iterdir()] == ["source"]


def arrived(cp: Copier, host: str) -> int:
    """The bytes that the link has brought to a host."""
    rows = cp.lab.run(host, ["cat", "/proc/net/dev"], capture_output=True, text=True, check=True).stdout
    return max(int(row.split(":")[1].split()[0]) for row in rows.splitlines()[2:] if "lo:" not in row)


def kill_ssh_session(cp: Copier) -> None:
    """Kills what serves the ssh connection at the far host, as a restart of that host would."""
    listed = cp.lab.run("far", ["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
    served = [pid for pid, args in rows if args.startswith(("sshd: ", "sshd-session: ")) and "@" in args]
    assert served
    cp.lab.run("far", ["kill", "-KILL", *served], check=True)


@pytest.mark.parametrize("push", [True, False])
@pytest.mark.parametrize("what", ["far end", "ssh"])
@pytest.mark.usefixtures("nothing_kept")
def test_a_far_end_that_is_gone_is_started_again(cp: Copier, tmp_path: Path, what: str, push: bool) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for number in range(20):
        (source / f"small-{number}").write_bytes(os.urandom(10_000))
    (source / "z-large").write_bytes(os.urandom(LARGE_BYTES))
    names = (source, f"far:{target}") if push else (f"far:{source}", target)
    receiver = "far" if push else "near"
    before = arrived(cp, receiver)
    with alive(begun(cp, *names, *SLOWLY)) as process:
        wait_until(lambda: arrived(cp, receiver) - before > LARGE_BYTES // 4, 20)
        assert process.poll() is None
        if what == "ssh":
            kill_ssh_session(cp)
        else:
            cp.kill_far_end(signal.SIGKILL.name.removeprefix("SIG"))
        # Its record may be more than a pipe takes, so the process itself ends only when that is read.
        sizes = set()
        while jobs := standing(cp):
            sizes |= {each.bytes_total for each in jobs}
        assert sizes == {sum(path.stat().st_size for path in source.iterdir())}
        outcome = outcome_of(process, 60)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        path.name: path.read_bytes() for path in source.iterdir()
    }
    assert outcome.restarts == 1
    assert (outcome.files, outcome.bytes) == (21, sum(path.stat().st_size for path in source.iterdir()))
    assert (outcome.files_skipped, outcome.bytes_resumed) == (0, 0), "what was there is the copy's own"
