"""Programs and their pins beside users who may not touch them, and after a start that failed."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest
from controls import PINS, clean_kernel, good, in_kernel, refused
from copying import wait_until
from traces import HOWDAH

pytestmark = [pytest.mark.lab, pytest.mark.beside]

STRANGER = 54321
AS_STRANGER = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--"]
SOON_S = 20


@pytest.fixture(autouse=True)
def _kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


def test_a_lock_that_any_user_can_hold_stops_nobody() -> None:
    held = subprocess.Popen([*AS_STRANGER, "flock", "/sys/fs", "sleep", "60"], process_group=0)
    try:
        wait_until(lambda: subprocess.run(["flock", "-n", "/sys/fs", "true"], check=False).returncode, SOON_S)
        assert good("load", "scalable")["action"] == "loaded"
    finally:
        os.killpg(held.pid, signal.SIGKILL)
        held.wait()
    for locked in (PINS, "/run/howdah/cc.lock"):
        tried = subprocess.run(
            [*AS_STRANGER, "flock", "-n", locked, "true"], capture_output=True, check=False
        )
        assert tried.returncode, f"a user can lock {locked}"
    good("unload", "scalable")


def test_pins_in_a_folder_that_another_user_made_are_not_trusted() -> None:
    PINS.mkdir()
    os.chown(PINS, STRANGER, STRANGER)
    try:
        for command in (["load", "scalable"], ["status"], ["unload", "scalable"]):
            assert f"belongs to user {STRANGER}" in refused(*command)
        assert in_kernel() == []
    finally:
        PINS.rmdir()


def test_what_howdah_mounts_is_for_root_alone() -> None:
    howdah = shlex.join(HOWDAH)
    script = f"""
        umount --all-targets /sys/fs/bpf 2>/dev/null
        {howdah} cc load scalable >&2 || exit 1
        grep ' /sys/fs/bpf ' /proc/self/mountinfo
        stat --format=%a /sys/fs/bpf /sys/fs/bpf/howdah
        {howdah} cc unload scalable >&2
    """
    shown = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    mounted, *modes = shown.stdout.splitlines()
    assert {"nosuid", "nodev", "noexec"} <= set(mounted.split()[5].split(","))
    assert [int(mode, 8) & 0o777 for mode in modes] == [0o700, 0o700]


@pytest.mark.parametrize("loaded_before", [False, True])
def test_an_agent_that_cannot_start_leaves_programs_as_they_were(loaded_before: bool) -> None:
    if loaded_before:
        good("load", "hold")
    # Discard (RFC 863), on which nobody listens here.
    agent = [*HOWDAH, "control", "agent", "--controller", "nats://127.0.0.1:9", "--host", "base20"]
    failed = subprocess.run(agent, capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 1, failed.stderr
    assert failed.stderr.count("\n") == 1, failed.stderr
    wait_until(lambda: bool(in_kernel()) == loaded_before, SOON_S)
    assert in_kernel() == (["hold"] if loaded_before else [])


def test_a_controller_that_cannot_listen_leaves_no_program() -> None:
    policy = """
    name = "x"
    guarantee = "80Mbit"
    [class.a]
    [[class.a.member]]
    host = "base20"
    to = "10.9.0.0/16"
    """
    serve = [*HOWDAH, "control", "serve", "/dev/stdin", "--host", "base20", "--listen", "192.0.2.1:1"]
    failed = subprocess.run(serve, input=policy, capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 2, failed.stderr
    wait_until(lambda: not in_kernel(), SOON_S)
