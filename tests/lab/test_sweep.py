"""A sweep in labs: killed, gone on with, stopped, refused."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from controls import clean_kernel
from copying import alive, wait_until

from howdah import lab
from howdah.archive import Archive
from howdah.cc import programs
from howdah.values.record import Record

pytestmark = pytest.mark.lab

PLAN = """
name = "tiny"
repeats = 2
sample_every = "20ms"
late_again = 0
[lab]
rate = "1Gbit"
rtt = ["1ms", "10ms"]
[[runs]]
congestion_control = ["cubic", "scalable"]
streams = 2
buffer = "1MB"
time = "300ms"
"""
RUNS = 8

HOST = """
name = "path"
host = "far"
repeats = 50
[[runs]]
congestion_control = "cubic"
streams = 1
time = "300ms"
"""


class Sweeper:
    """Runs ``howdah sweep`` with an archive of its own."""

    def __init__(self, folder: Path) -> None:
        self.plan = folder / "tiny.toml"
        self.plan.write_text(PLAN)
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder)}
        self.archive = Archive(folder / "howdah" / "records")

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        argv = [sys.executable, "-m", "howdah", "sweep", *arguments]
        return subprocess.Popen(
            argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        )

    def records(self) -> list[Record]:
        return [each for each in self.archive.newest() if isinstance(each, Record)]

    def good(self) -> list[Record]:
        return [each for each in self.records() if each.error is None]

    def finish(self, *arguments: str) -> Any:  # noqa: ANN401, JSON
        """A sweep that must succeed; what it says as JSON."""
        with self.start(str(self.plan), "--beside-others", "--json", *arguments) as process:
            output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return json.loads(output)


@pytest.fixture
def sweeper(tmp_path: Path) -> Sweeper:
    return Sweeper(tmp_path)


@pytest.fixture
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


def places(records: list[Record]) -> Counter[tuple[str, int]]:
    return Counter((each.sweep.cell, each.sweep.repeat) for each in records if each.sweep)


def in_kernel() -> list[str]:
    return [program.name for program in programs.listed() if program.in_kernel]


def some_runs(sweeper: Sweeper, least: int) -> Callable[[], bool]:
    return lambda: len(sweeper.good()) >= least


@pytest.mark.beside
@pytest.mark.parametrize("host", ["fd77::2", "[fd77::2]"])
def test_a_host_may_be_an_ipv6_address(sweeper: Sweeper, host: str) -> None:
    once = "repeats = 1\nlate_again = 0"
    sweeper.plan.write_text(HOST.replace("far", host).replace("repeats = 50", once) + 'buffer = "1MB"\n')
    with lab.started(lab.symmetric(10**9, 1_000_000), sshd=True) as wan:
        argv = [sys.executable, "-m", "howdah", "sweep", str(sweeper.plan), "--beside-others"]
        done = wan.run("near", argv, env=sweeper.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (record,) = sweeper.records()
    assert (record.host, record.error) == ("fd77::2", None)


@pytest.mark.beside
@pytest.mark.usefixtures("kernel")
def test_a_sweep_that_is_killed_goes_on_where_it_was(sweeper: Sweeper) -> None:
    with sweeper.start(str(sweeper.plan), "--beside-others") as process:
        wait_until(some_runs(sweeper, 3), 60)
        assert in_kernel() == ["scalable"]
        process.kill()
    wait_until(lambda: in_kernel() == [], 10)
    before = sweeper.good()
    assert 3 <= len(before) < RUNS
    planned = sweeper.finish("--dry-run")
    assert planned["runs_left"] == RUNS - len(before)
    done = sweeper.finish()
    after = sweeper.good()
    assert done["runs_left"] == 0
    assert {each.id for each in before} | set(done["records"]) == {each.id for each in after}
    assert set(places(after).values()) == {1}
    assert len(after) == RUNS
    check_runs([sweeper.archive.load(each.id) for each in after])
    assert sweeper.finish()["records"] == []


def check_runs(records: list[Record]) -> None:
    for each in records:
        assert each.sweep is not None
        assert each.plan is not None
        assert each.outcome is not None
        assert each.link_stats is not None
        link = each.environment.link
        assert link is not None
        rtt_ms = (link["near_to_far"]["delay_ns"] + link["far_to_near"]["delay_ns"]) / 1e6
        control = each.plan.congestion_control or ""
        name = control.removeprefix("hd_")
        assert each.sweep.cell == f"{name} {each.plan.streams}x1MB 0.3s {rtt_ms:g}ms"
        assert each.outcome.congestion_control == control
        assert len(each.outcome.streams) == each.plan.streams
        assert not each.outcome.encrypted
        assert each.near_cpu_busy_fraction is not None
        assert 0 < each.near_cpu_busy_fraction <= 1
        assert each.plan.why.alternatives == []
        assert each.outcome.moving_s is not None
        assert each.outcome.moving_s >= 0.3
        assert len(each.outcome.samples) >= 5 * each.plan.streams
        wire_bytes = each.link_stats["directions"]["near_to_far"]["wire_bytes"]
        assert each.outcome.bytes < wire_bytes < 1.5 * each.outcome.bytes + 1e6


@pytest.mark.beside
@pytest.mark.usefixtures("kernel")
def test_a_sweep_unloads_what_it_loaded(sweeper: Sweeper) -> None:
    sweeper.plan.write_text(PLAN.replace('"1ms", ', "").replace("repeats = 2", "repeats = 1"))
    sweeper.finish()
    assert {each.outcome.congestion_control for each in sweeper.good() if each.outcome} == {
        "cubic",
        "hd_scalable",
    }
    assert in_kernel() == []


@pytest.mark.beside
def test_ctrl_c_keeps_what_is_measured(sweeper: Sweeper) -> None:
    sweeper.plan.write_text(PLAN.replace('"scalable"', '"reno"'))
    with sweeper.start(str(sweeper.plan), "--beside-others") as process:
        wait_until(some_runs(sweeper, 2), 60)
        began_s = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert time.monotonic() - began_s < 10
    assert process.returncode == 130, errors
    assert "left: the same command goes on with tiny-" in output
    assert "Traceback" not in errors
    assert 2 <= len(sweeper.good()) < RUNS


def test_a_sweep_beside_another_is_refused_with_its_number(sweeper: Sweeper) -> None:
    with sweeper.start(str(sweeper.plan), "--beside-others") as one:
        wait_until(some_runs(sweeper, 1), 60)
        with sweeper.start(str(sweeper.plan)) as two:
            _, errors = two.communicate(timeout=30)
        one.send_signal(signal.SIGTERM)
        one.communicate(timeout=30)
    assert two.returncode == 1
    assert f"(process {one.pid})" in errors
    assert errors.count("\n") == 1


@pytest.mark.beside
def test_a_buffer_that_the_kernel_would_not_give_is_refused(wan: lab.Lab, sweeper: Sweeper) -> None:
    sweeper.plan.write_text(HOST.replace('time = "300ms"', 'time = "300ms"\nbuffer = "1GB"'))
    argv = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", "--ambient-caps=-net_admin"]
    command = [*argv, sys.executable, "-m", "howdah", "sweep", str(sweeper.plan), "--beside-others"]
    planned = wan.run(
        "near", [*command, "--dry-run"], env=sweeper.env, capture_output=True, text=True, timeout=60
    )
    assert "the sweep would be refused now: buffers of 1.00 GB are above net.core.wmem_max" in planned.stderr
    done = wan.run("near", command, env=sweeper.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "net.core.wmem_max of this host" in done.stderr
    assert "sysctl -w net.core.wmem_max=1000000000" in done.stderr
    assert sweeper.records() == []


@pytest.mark.beside
def test_the_plan_for_a_host_fits_the_time(wan: lab.Lab, sweeper: Sweeper) -> None:
    argv = [sys.executable, "-m", "howdah", "sweep", "far", "--dry-run", "--json"]
    planned = {}
    for lasting in ("3min", "20min"):
        done = wan.run("near", [*argv, "--for", lasting], env=sweeper.env, capture_output=True, check=True)
        planned[lasting] = json.loads(done.stdout)
    for (lasting, minutes), each in zip((("3min", 3), ("20min", 20)), planned.values(), strict=True):
        controls = {name.split()[0] for name in each["cells"]}
        assert "cubic" in controls, lasting
        assert len(each["cells"]) == len(controls) * 3 * 2
        assert 0.8 * minutes * 60 < each["left_s"] < 1.3 * minutes * 60
    few, many = (sum(each["cells"].values()) for each in planned.values())
    assert few < many
    refused = wan.run("near", [*argv, "--for", "5s"], env=sweeper.env, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "is too short" in refused.stderr


@pytest.mark.beside
def test_a_host_that_vanishes_half_way_keeps_what_was_measured(sweeper: Sweeper) -> None:
    sweeper.plan.write_text(HOST)
    with lab.started(lab.symmetric(1_000_000_000, 1_000_000), sshd=True) as wan:
        argv = [sys.executable, "-m", "howdah", "sweep", str(sweeper.plan), "--beside-others"]
        with alive(wan.popen("near", argv, env=sweeper.env, stderr=subprocess.PIPE, text=True)) as process:
            wait_until(some_runs(sweeper, 3), 60)
            # Only the lab's processes are to be seen in a lab.
            wan.run("far", ["pkill", "-KILL", "sshd"], check=True)
            _, errors = process.communicate(timeout=90)
    assert process.returncode == 1
    made = len(sweeper.good())
    assert made >= 3
    assert f"{made} runs of this sweep made now and kept; the same command goes on with it" in errors
    assert errors.splitlines()[-1].startswith("howdah: ")
    assert "Traceback" not in errors


@pytest.mark.beside
def test_a_host_that_no_longer_answers_ends_the_sweep_within_two_minutes(sweeper: Sweeper) -> None:
    """A copy would wait for it for five minutes. A run that waited so long would have measured the outage."""
    sweeper.plan.write_text(HOST)
    link = lab.symmetric(1_000_000_000, 1_000_000)
    ends = (lab.Change(at_ns=10_000_000_000, outage=True),)
    link = msgspec.structs.replace(
        link,
        near_to_far=msgspec.structs.replace(link.near_to_far, changes=ends),
        far_to_near=msgspec.structs.replace(link.far_to_near, changes=ends),
    )
    with lab.started(link, sshd=True) as wan:
        argv = [sys.executable, "-m", "howdah", "sweep", str(sweeper.plan), "--beside-others"]
        with alive(wan.popen("near", argv, env=sweeper.env, stderr=subprocess.PIPE, text=True)) as process:
            _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    made = len(sweeper.good())
    assert f"{made} runs of this sweep made now and kept; the same command goes on with it" in errors
    assert "Traceback" not in errors
