"""A lab from Python, its OpenSSH server, and labs without root."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from as_user import UID
from copying import alive
from traces import HOWDAH, Traces, ping, round_trip_ms

from howdah import lab
from howdah._native import HowdahError
from howdah.lab import messages, mounts
from howdah.lab.processes import children

pytestmark = [pytest.mark.lab, pytest.mark.beside]

AS_USER = [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    sys.executable,
    str(Path(__file__).parent / "as_user.py"),
]


def run(traces: Traces, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, env=traces.environment, timeout=60, capture_output=True, text=True, check=False, cwd="/"
    )


def test_a_lab_is_up_soon(privilege: None) -> None:
    started_s = time.monotonic()
    with lab.started(lab.symmetric(1_000_000_000, 1_000_000), sshd=True):
        assert time.monotonic() - started_s < 5


@pytest.mark.parametrize(("host", "address"), [("near", lab.Lab.near_address), ("far", lab.Lab.far_address)])
def test_programs_run_on_the_host_that_is_asked_for(wan: lab.Lab, host: str, address: str) -> None:
    result = wan.run(host, ["ip", "-4", "-o", "address"], capture_output=True, text=True, check=True)
    assert f" {address} " in result.stdout


def test_the_round_trip_and_the_statistics(wan: lab.Lab) -> None:
    before = wan.stats().directions["near_to_far"].segments
    result = wan.run("near", ping(5), capture_output=True, text=True, check=True)
    assert 20 <= round_trip_ms(result.stdout) < 22
    assert wan.stats().directions["near_to_far"].segments >= before + 5


def test_a_link_that_breaks_fails_its_program(privilege: None) -> None:
    with pytest.raises(HowdahError, match="link broke"), lab.started(lab.symmetric(None, 0)) as wan:
        wan.run("near", ["ip", "link", "delete", "wan0"])


def test_a_program_in_the_lab_can_ask_for_the_statistics(wan: lab.Lab) -> None:
    script = "from howdah import lab; print(lab.account_here().close().device)"
    result = wan.run("near", [sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == wan.stats().device
    assert lab.account_here() is None


def test_an_account_counts_from_its_beginning(wan: lab.Lab) -> None:
    wan.run("near", ping(20), capture_output=True, check=True)
    script = """
import subprocess, sys
from howdah import lab
one, two = lab.account_here(), lab.account_here()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
for stats in one.close(), two.close():
    print(stats.directions["near_to_far"].segments, stats.elapsed_ns)
"""
    argv = [sys.executable, "-c", script, *ping(5)]
    result = wan.run("near", argv, capture_output=True, text=True, check=True)
    whole = wan.stats()
    assert whole.directions["near_to_far"].segments >= 25
    for line in result.stdout.splitlines():
        segments, elapsed_ns = map(int, line.split())
        assert 5 <= segments < 15
        assert 0 < elapsed_ns < whole.elapsed_ns


def test_who_asks_and_goes_does_not_end_the_lab(wan: lab.Lab) -> None:
    assert wan.identity is not None
    path = f"/proc/{wan.identity.pid}/root{mounts.CONTROL}"
    for _ in range(50):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(path)
            asking.send(msgspec.json.encode(messages.LabQuery("stats")))
    assert wan.stats().elapsed_ns > 0


def test_signals_go_to_the_program(wan: lab.Lab) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done"
    with alive(wan.popen("far", ["sh", "-c", script], stdout=subprocess.PIPE)) as process:
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(timeout=5) == 9


def test_a_program_that_takes_too_long_is_killed(wan: lab.Lab) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        wan.run("near", ["sleep", "987654"], timeout=0.2)
    assert wan.run("near", ["pgrep", "-f", "sleep 987654"]).returncode == 1


def test_sockets_are_set_up_for_the_link(wan: lab.Lab) -> None:
    read = ["cat", "/proc/sys/net/ipv4/tcp_congestion_control", "/proc/sys/net/ipv4/tcp_rmem"]
    for host in ("near", "far"):
        result = wan.run(host, read, capture_output=True, text=True, check=True)
        assert result.stdout.split() == ["cubic", "4096", "131072", str(64 * 2**20)]


def test_a_lab_ends_with_its_caller_even_when_that_is_killed(traces: Traces) -> None:
    script = (
        "import time\nfrom howdah import lab\n"
        "with lab.started(lab.symmetric(10**9, 10**7), sshd=True):\n"
        "    print('ready', flush=True); time.sleep(300)"
    )
    argv = [sys.executable, "-c", script]
    with alive(subprocess.Popen(argv, env=traces.environment, stdout=subprocess.PIPE, text=True)) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "ready\n"
        (maker,) = children(caller.pid)
        assert len(traces.processes()) > 2
        assert maker in traces.processes()
        caller.kill()
    traces.assert_none()


def test_ssh_and_scp_reach_the_far_host_without_a_flag(wan: lab.Lab, tmp_path: Path) -> None:
    home = Path.home() / ".ssh"
    before = sorted(home.iterdir()) if home.exists() else None
    ssh = wan.run("near", ["ssh", "far", "echo $SSH_CONNECTION"], capture_output=True, text=True, check=True)
    assert (ssh.stderr, ssh.stdout.split()[2:]) == ("", [wan.far_address, "22"])
    (tmp_path / "from").write_bytes(os.urandom(1000))
    wan.run("near", ["scp", "-q", tmp_path / "from", f"far:{tmp_path}/to"], check=True)
    assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()
    assert (sorted(home.iterdir()) if home.exists() else None) == before


def test_the_far_host_offers_this_installations_programs(wan: lab.Lab) -> None:
    result = wan.run("near", ["ssh", "far", "echo $PATH"], capture_output=True, text=True, check=True)
    assert str(Path(sys.executable).parent) in result.stdout.strip().split(":")


def test_many_connections_at_once(wan: lab.Lab) -> None:
    connections = [wan.popen("near", ["ssh", "far", "true"]) for _ in range(15)]
    assert [connection.wait(timeout=60) for connection in connections] == [0] * 15


def test_without_root_a_lab_runs_in_a_user_namespace(traces: Traces) -> None:
    command = [*AS_USER, *HOWDAH, "lab", "run", "--rtt", "20ms", "--", *ping(20)]
    result = subprocess.run(
        command, env=traces.environment, capture_output=True, text=True, check=False, cwd="/"
    )
    assert result.returncode == 0, result.stderr
    assert 20 <= round_trip_ms(result.stdout) < 22
    assert "net.core.rmem_max" in result.stderr


def test_without_root_there_are_dumbbells_too(traces: Traces) -> None:
    shape = ("--topology", "dumbbell", "--left", "2", "--lan-rate", "100Mbit", "--host", "left2")
    command = [*AS_USER, *HOWDAH, "lab", "run", *shape, "--rtt", "20ms", "--", *ping(20, "right1")]
    result = run(traces, *command)
    assert result.returncode == 0, result.stderr
    assert 20 <= round_trip_ms(result.stdout) < 22


def test_without_root_a_lab_can_stay(traces: Traces) -> None:
    runtime = Path("/tmp") / f"howdah-test-{os.getpid()}"  # noqa: S108, a user cannot enter pytest's
    runtime.mkdir(mode=0o700)
    os.chown(runtime, UID, UID)
    howdah = " ".join(HOWDAH)
    script = f"""
        export XDG_RUNTIME_DIR={runtime}
        {howdah} lab up x && {howdah} lab exec x far -- sh -c 'exit 4'
        code=$?
        {howdah} lab down x && exit $code
    """
    try:
        result = run(traces, *AS_USER, "sh", "-c", script)
        assert result.returncode == 4, result.stderr
        assert list(runtime.rglob("*.json")) == []
    finally:
        shutil.rmtree(runtime)


def test_without_root_there_is_an_openssh_server_too(traces: Traces) -> None:
    command = ["ssh", "far", "id -un; echo $SSH_CONNECTION"]
    result = run(traces, *AS_USER, *HOWDAH, "lab", "run", "--sshd", "--", *command)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[:1] == ["tester"]
    assert result.stdout.split()[-2:] == [lab.Lab.far_address, "22"]


def test_without_user_namespaces_one_line_says_what_to_do(traces: Traces) -> None:
    """The limit is set in a user namespace of the test's own, so the machine's stays as it is."""
    script = f"echo 0 > /proc/sys/user/max_user_namespaces; exec {' '.join(HOWDAH)} lab run true"
    result = run(traces, "unshare", "--user", "--map-user=1000", "--keep-caps", "sh", "-c", script)
    assert result.returncode == 1
    assert "sudo sysctl -w user.max_user_namespaces=" in result.stderr
    assert result.stderr.count("\n") == 1


def test_when_all_of_it_is_killed_at_once_the_next_command_cleans_up(traces: Traces) -> None:
    for _ in range(3):
        with traces.start("lab", "run", "--sshd", "--", "sh", "-c", "echo ready; exec sleep 300") as process:
            assert process.stdout is not None
            process.stdout.readline()
            traces.kill_all()
        traces.howdah("lab", "list")
        traces.assert_none()
