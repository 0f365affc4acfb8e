"""What is kept between copies: the ssh login, and a far end that waits behind it."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from copying import SLACK_S, STOP_S, Copier, alive, wait_until

from howdah.lab.session import Process

LOOK_EVERY_S = 2.0
"""A far end that waits looks so often whether it has said the truth (crates/transfer/src/session/far.rs)."""

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]


@pytest.fixture
def waiting(cp: Copier) -> int:
    """The process number of the far end that waits after a copy."""
    cp.good("--memory", "1MiB", "far:")
    return cp.waiting()


def test_the_next_copy_takes_the_far_end_that_waits(cp: Copier, waiting: int) -> None:
    cp.good("--memory", "1MiB", "far:")
    wait_until(lambda: waiting not in cp.far_ends(), STOP_S + SLACK_S)
    wait_until(lambda: len(cp.far_ends()) == 1, STOP_S + SLACK_S)
    assert len([args for args in cp.processes().values() if "[mux]" in args]) == 1


def listening(cp: Copier) -> set[str]:
    """Local addresses and ports at which the far host listens, as /proc writes them."""
    shown = cp.lab.run("far", ["cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, text=True)
    tables = shown.stdout
    rows = [line.split() for line in tables.splitlines()]
    return {row[1] for row in rows if row[3] == "0A"}


def test_nobody_can_connect_to_a_far_end_that_waits(cp: Copier, waiting: int) -> None:
    ssh = {address for address in listening(cp) if address.endswith(":0016")}
    assert ssh
    # It takes the connections that are made ahead first.
    wait_until(lambda: listening(cp) == ssh, STOP_S + SLACK_S)
    assert waiting in cp.far_ends()
    assert cp.connected("far") > 0


def test_the_next_copy_begins_on_connections_made_ahead(cp: Copier, waiting: int) -> None:
    # Encrypted they begin on them, as many as there are.
    for other, begun in (([], 8), (["--streams", "3"], 3), (["--streams", "4"], 3), (["--plaintext"], 0)):
        cp.waiting()
        wait_until(lambda: cp.connected("far") > 0, STOP_S + SLACK_S)
        assert begun_ahead(cp, *other, "--memory", "1MiB", "far:") == begun


def test_a_plan_without_encryption_begins_anew(cp: Copier, waiting: int, tmp_path: Path) -> None:
    plan = cp.good("--memory", "1MiB", "far:").plan
    plan_file = tmp_path / "plan.json"
    plan_file.write_bytes(msgspec.json.encode(msgspec.structs.replace(plan, encrypt=False)))
    cp.waiting()
    wait_until(lambda: cp.connected("far") > 0, STOP_S + SLACK_S)
    record = cp.good("--plan", plan_file, "--memory", "1MiB", "far:")
    assert record.outcome is not None
    assert not record.outcome.encrypted
    assert record.outcome.streams_ahead == 0
    assert record.outcome.restarts == 0


def begun_ahead(cp: Copier, *words: str) -> int:
    """How many streams of a copy began on connections made ahead."""
    outcome = cp.good(*words).outcome
    assert outcome is not None
    return outcome.streams_ahead


def test_a_copy_to_another_howdah_does_not_take_it(cp: Copier, waiting: int) -> None:
    program = Path(sys.executable).parent / "howdah"
    cp.good("--memory", "1MiB", "--far-howdah", program, "far:")
    assert waiting in cp.far_ends()


def test_of_copies_at_once_one_takes_it_and_all_go_well(cp: Copier, waiting: int) -> None:
    argv = [*cp.argv("--memory", "1MiB", "far:"), "--quiet"]
    copies = [cp.lab.popen("near", argv, env=cp.env) for _ in range(4)]
    assert [copy.wait(timeout=30) for copy in copies] == [0] * 4
    wait_until(lambda: waiting not in cp.far_ends() and len(cp.holders()) == 1, STOP_S + SLACK_S)


def test_of_first_copies_at_once_one_keeps_the_login_and_none_complains(cp: Copier) -> None:
    argv = [*cp.argv("--memory", "1MiB", "far:"), "--quiet"]
    copies = [cp.lab.popen("near", argv, env=cp.env, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [copy.communicate(timeout=30)[1] for copy in copies]
    assert [(copy.returncode, text) for copy, text in zip(copies, said, strict=True)] == [(0, "")] * 3
    assert len([args for args in cp.processes().values() if "[mux]" in args]) == 1


@contextmanager
def copying(cp: Copier, waiting: int) -> Iterator[Process]:
    """A copy on its way that has taken the far end that waited."""
    argv = [*cp.argv("--memory", "100GiB", "far:"), "--quiet"]
    with alive(cp.lab.popen("near", argv, env=cp.env, stderr=subprocess.PIPE, text=True)) as process:
        wait_until(lambda: not cp.holders(), STOP_S)
        time.sleep(0.2)
        assert process.poll() is None
        assert cp.far_ends() == [waiting]
        yield process


def test_a_signal_stops_a_far_end_that_waited(cp: Copier, waiting: int) -> None:
    with copying(cp, waiting) as process:
        process.send_signal(signal.SIGINT)
        wait_until(lambda: process.poll() is not None, STOP_S + SLACK_S)
        assert process.returncode == 130
    cp.wait_for_nothing_left()


def test_a_near_end_killed_outright_leaves_none_that_waited(cp: Copier, waiting: int) -> None:
    with copying(cp, waiting) as process:
        process.kill()
        process.wait()
    wait_until(lambda: all("[mux]" in args for args in cp.processes().values()), STOP_S + SLACK_S)


def test_a_far_end_that_waited_and_is_killed_stops_the_near_one(cp: Copier, waiting: int) -> None:
    with copying(cp, waiting) as process:
        cp.lab.run("far", ["kill", "-KILL", str(waiting)], check=True)
        wait_until(lambda: process.poll() is not None, STOP_S + SLACK_S)
        assert process.returncode == 1
        assert process.stderr.read().startswith("howdah: ")
    cp.wait_for_nothing_left()


def test_nothing_is_kept_where_none_is_wanted(cp: Copier) -> None:
    done = cp("--memory", "1MiB", "far:", HOWDAH_SSH_KEEP_S="0")
    assert done.returncode == 0, done.stderr
    cp.wait_for_nothing_left()


def test_all_of_it_ends_by_itself(cp: Copier) -> None:
    done = cp("--memory", "1MiB", "far:", HOWDAH_SSH_KEEP_S="1")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not cp.processes(), 2 + STOP_S + SLACK_S)


def test_a_holder_that_is_killed_takes_its_far_end_along(cp: Copier, waiting: int) -> None:
    cp.lab.run("near", ["kill", "-KILL", *map(str, cp.holders())], check=True)
    wait_until(lambda: waiting not in cp.far_ends(), STOP_S + SLACK_S)
    cp.good("--memory", "1MiB", "far:")


def test_a_far_end_that_dies_is_not_offered(cp: Copier, waiting: int) -> None:
    cp.lab.run("far", ["kill", "-KILL", str(waiting)], check=True)
    wait_until(lambda: not cp.holders(), STOP_S + SLACK_S)
    cp.good("--memory", "1MiB", "far:")


def test_a_copy_that_fails_leaves_none(cp: Copier, tmp_path: Path) -> None:
    cp.refused(f"far:{tmp_path}/nothing", tmp_path / "here")
    cp.wait_for_nothing_left()


def test_a_look_at_the_far_host_leaves_one_for_the_copy(cp: Copier) -> None:
    doctor = [sys.executable, "-m", "howdah", "doctor", "far", "--json"]
    cp.lab.run("near", doctor, env=cp.env, capture_output=True, timeout=30, check=True)
    wait_until(lambda: cp.holders() and cp.far_ends(), STOP_S + SLACK_S)


@contextmanager
def receive_buffers(cp: Copier, most_bytes: int) -> Iterator[None]:
    """The far host's receive buffers may grow so far."""
    setting, write = "net.ipv4.tcp_rmem", ["sysctl", "-q", "-w"]
    before = cp.lab.run("far", ["sysctl", "-n", setting], capture_output=True, text=True).stdout.strip()
    least, default, _ = before.split()
    try:
        cp.lab.run("far", [*write, f"{setting}={least} {default} {most_bytes}"], check=True)
        yield
    finally:
        cp.lab.run("far", [*write, f"{setting}={before}"], check=True)


def test_a_look_at_the_far_host_tells_what_was_changed_while_one_waited(cp: Copier, waiting: int) -> None:
    argv = [sys.executable, "-m", "howdah", "doctor", "far", "--json"]
    with receive_buffers(cp, 7654321):
        looked = cp.lab.run("near", argv, env=cp.env, capture_output=True, timeout=30, check=True)
    assert msgspec.json.decode(looked.stdout)["hosts"][1]["limits"]["tcp_rmem_max_bytes"] == 7654321
    wait_until(lambda: waiting not in cp.far_ends(), STOP_S + SLACK_S)


def test_a_far_end_that_waits_goes_when_what_it_said_is_no_longer_true(cp: Copier, waiting: int) -> None:
    time.sleep(LOOK_EVERY_S + SLACK_S)
    assert waiting in cp.far_ends()
    with receive_buffers(cp, 7654321):
        wait_until(lambda: not cp.holders(), LOOK_EVERY_S + SLACK_S)
        record = cp.good("--memory", "1MiB", "far:")
    assert record.environment.far is not None
    assert record.environment.far.tcp_rmem_max_bytes == 7654321
