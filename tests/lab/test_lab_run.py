"""``howdah lab run``: the command, its exit code, its terminal, its end."""

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from traces import HOWDAH, Traces, ping, round_trip_ms

from howdah.values.link import LinkStats

pytestmark = [pytest.mark.lab, pytest.mark.beside]

LINK = ("--rate", "1Gbit", "--rtt", "20ms")


def run(traces: Traces, *command: str, options: tuple[str, ...] = LINK) -> "subprocess.CompletedProcess[str]":
    return traces.howdah("lab", "run", *options, "--", *command)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
        (("no-such-command",), 127),
        (("/etc/passwd",), 126),
    ],
)
def test_the_exit_code_is_the_commands(traces: Traces, command: tuple[str, ...], code: int) -> None:
    assert run(traces, *command).returncode == code


def test_a_link_that_breaks_ends_the_lab_and_says_so(traces: Traces) -> None:
    begin_s = time.monotonic()
    result = run(traces, "sh", "-c", "ip link delete wan0; exec sleep 300")
    assert time.monotonic() - begin_s < 20
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("howdah: the link broke")
    assert "device of the link was removed" in result.stderr


def test_the_far_host_is_there_by_variable_and_by_name(traces: Traces) -> None:
    result = run(
        traces, "sh", "-c", "echo $HOWDAH_FAR; getent ahostsv4 far | cut -d' ' -f1 | head -1; ping -q -c1 far"
    )
    assert result.stdout.splitlines()[:2] == ["10.77.0.2", "10.77.0.2"]
    assert result.returncode == 0


def test_the_round_trip_is_as_asked(traces: Traces) -> None:
    smallest_ms = round_trip_ms(run(traces, *ping(10)).stdout)
    assert 20 <= smallest_ms < 22


def test_delay_can_differ_by_direction_and_change_in_time(traces: Traces, tmp_path: Path) -> None:
    schedule = tmp_path / "link.toml"
    schedule.write_text(
        """
        rate = "1Gbit"
        [near_to_far]
        delay = "5ms"
        [far_to_near]
        delay = "10ms"
        [[change]]
        at = "1s"
        direction = "far_to_near"
        delay = "40ms"
        """
    )
    result = run(
        traces,
        "sh",
        "-c",
        " ".join(ping()) + "; sleep 1; " + " ".join(ping()),
        options=("--schedule", str(schedule)),
    )
    before, after = (
        round_trip_ms(text) for text in result.stdout.strip().split("\n\n--- ")[0::1] if " = " in text
    )
    assert 15 <= before < 17
    assert 45 <= after < 47


def test_input_and_output_are_the_commands(traces: Traces) -> None:
    result = traces.howdah(
        "lab", "run", *LINK, "--", "sh", "-c", "tr a-z A-Z; echo problem >&2", input="words\n"
    )
    assert (result.stdout, result.stderr) == ("WORDS\n", "problem\n")


def test_no_descriptor_leaks_into_the_command(traces: Traces) -> None:
    assert run(traces, "sh", "-c", "ls /proc/$$/fd").stdout.split() == ["0", "1", "2"]


def test_the_command_sees_only_the_labs_processes_and_devices(traces: Traces) -> None:
    result = run(traces, "sh", "-c", "ls -d /proc/[0-9]* | wc -l; ip -o link | wc -l; cat /proc/1/comm")
    processes, devices, _ = result.stdout.split()
    assert int(processes) < 6
    assert int(devices) == 2


def test_the_jobs_and_logins_of_another_lab_are_not_seen(traces: Traces) -> None:
    """A program that ran outside of a lab with a lab's environment has left a folder in /run."""
    lab_run = [*HOWDAH, "lab", "run", *LINK, "--", "ls", "/run"]
    shell = 'mount -t tmpfs none /run && mkdir -m 700 /run/howdah-ssh /run/other && exec "$@"'
    outside = ["unshare", "--mount", "sh", "-c", shell, "sh", *lab_run]
    seen = subprocess.run(
        outside, env=traces.environment, capture_output=True, text=True, timeout=30, check=True
    ).stdout.split()
    assert "other" in seen
    assert "howdah-ssh" not in seen


def test_statistics_as_json_and_for_people(traces: Traces, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    result = traces.howdah("lab", "run", *LINK, "--stats", "--json-stats", str(file), "--", *ping(5))
    stats = msgspec.json.decode(file.read_bytes(), type=LinkStats)
    for direction in stats.directions.values():
        assert direction.segments >= 5
        assert direction.wire_bytes - direction.ip_bytes == 38 * direction.segments
    assert "on the wire" in result.stderr


def test_an_idle_link_carries_nothing(traces: Traces) -> None:
    result = traces.howdah("lab", "run", *LINK, "--json-stats", "-", "--", "sleep", "0.5")
    stats = msgspec.json.decode(result.stdout, type=LinkStats)
    assert [direction.segments for direction in stats.directions.values()] == [0, 0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rate", "10", "--", "true"),
        ("--rtt", "100", "--", "true"),
        ("--loss", "2", "--", "true"),
        ("--schedule", "/no/such.toml", "--", "true"),
        ("--json-stats", "/no/such/folder/x", "--", "true"),
        ("--", "no-such-command"),
    ],
)
def test_bad_input_is_one_clear_line(traces: Traces, arguments: tuple[str, ...]) -> None:
    result = traces.howdah("lab", "run", *arguments)
    assert result.returncode not in (0, -signal.SIGSEGV)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("howdah: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_howdah_reaches_the_command(traces: Traces, number: signal.Signals) -> None:
    script = f"trap 'exit 9' {number.name[3:]}; echo ready; while :; do sleep 0.02; done"
    with traces.start("lab", "run", *LINK, "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(timeout=5) == 9


def test_a_command_that_a_signal_ends(traces: Traces) -> None:
    with traces.start("lab", "run", *LINK, "--", "sh", "-c", "echo ready; exec sleep 60") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=5) == 128 + signal.SIGTERM


IGNORING = "trap '' TERM INT; readlink /proc/self/ns/net; sleep 20"


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_kills_a_command_that_ignores_them(
    traces: Traces, numbers: tuple[signal.Signals, signal.Signals]
) -> None:
    with traces.start("lab", "run", *LINK, "--json-stats", "-", "--", "sh", "-c", IGNORING) as process:
        assert process.stdout is not None
        namespace = process.stdout.readline().strip()
        process.send_signal(numbers[0])
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(numbers[1])
        assert process.wait(timeout=3) == 128 + numbers[0]
        stats = msgspec.json.decode(process.stdout.read(), type=LinkStats)
    assert set(stats.directions) == {"near_to_far", "far_to_near"}
    traces.assert_none(namespace)


def test_one_signal_kills_a_command_that_ignores_it_after_some_seconds(traces: Traces) -> None:
    with traces.start("lab", "run", *LINK, "--", "sh", "-c", IGNORING) as process:
        assert process.stdout is not None
        namespace = process.stdout.readline().strip()
        process.terminate()
        assert process.wait(timeout=15) == 128 + signal.SIGTERM
    traces.assert_none(namespace)


def test_a_signal_that_comes_twice_at_once_is_one(traces: Traces) -> None:
    script = "trap 'sleep 1; exit 9' TERM; echo ready; while :; do sleep 0.02; done"
    with traces.start("lab", "run", *LINK, "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=10) == 9


def test_what_the_command_started_ends_with_it(traces: Traces) -> None:
    result = run(traces, "sh", "-c", "sleep 300 & setsid sleep 300 & readlink /proc/self/ns/net")
    traces.assert_none(result.stdout.strip())


@pytest.mark.parametrize("victim", ["maker", "first process", "keeper"])
def test_killed_it_leaves_nothing(traces: Traces, victim: str) -> None:
    with traces.start(
        "lab",
        "run",
        *LINK,
        "--sshd",
        "--",
        "sh",
        "-c",
        "readlink /proc/self/ns/net; setsid sleep 300 & exec sleep 300",
    ) as process:
        assert process.stdout is not None
        namespace = process.stdout.readline().strip()
        pids = _roles(process.pid)
        os.kill(pids[victim], signal.SIGKILL)
        if victim == "keeper":
            time.sleep(0.1)
            assert process.poll() is None
            process.terminate()
        process.wait(timeout=5)
        traces.assert_none(namespace)


def test_killed_while_it_is_made_it_leaves_nothing(traces: Traces) -> None:
    for delay_s in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        with traces.start("lab", "run", *LINK, "--sshd", "--", "sleep", "300") as process:
            time.sleep(delay_s)
            process.kill()
        traces.assert_none()


def test_ctrl_c_reaches_the_command_once_and_its_answer_counts(traces: Traces) -> None:
    script = "trap 'echo caught' INT; echo ready; for i in 1 2 3 4 5 6; do sleep 0.1; done; exit 3"
    shown, code = _in_terminal(traces, script, b"\x03")
    assert shown.count("caught") == 1
    assert code == 3


def test_ctrl_c_ends_a_command_that_does_not_mind_it(traces: Traces) -> None:
    _, code = _in_terminal(traces, "echo ready; exec sleep 60", b"\x03")
    assert code == 128 + signal.SIGINT


def test_a_shell_has_the_terminal_and_gives_it_back(traces: Traces) -> None:
    """An interactive bash does job control; killed, it must not keep the terminal."""
    script = "echo ready; exec bash --norc -i"
    shown, code = _in_terminal(
        traces, script, b"tty; sleep 0.01 & wait; kill -9 $$\n", then="sh -c 'read line; echo got $line'"
    )
    assert "/dev/pts/" in shown
    assert "job control" not in shown
    assert "got more" in shown
    assert code == 0


def _roles(maker: int) -> dict[str, int]:
    """The processes of a lab by what they are; the keeper is the maker's child outside the lab."""
    own = Path("/proc/self/ns/pid").readlink()
    children = [path for path in Path("/proc").iterdir() if path.name.isdecimal() and _parent(path) == maker]
    outside = {path: (path / "ns/pid").readlink() == own for path in children}
    (keeper,) = (int(path.name) for path in children if outside[path])
    (first,) = (int(path.name) for path in children if not outside[path])
    return {"maker": maker, "first process": first, "keeper": keeper}


def _parent(path: Path) -> int | None:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _in_terminal(traces: Traces, script: str, keys: bytes, then: str = "exit $?") -> tuple[str, int]:
    """Runs ``script`` in a lab under a shell in a new terminal, types ``keys`` once it says ready."""
    pid, terminal = pty.fork()
    if pid == 0:
        quoted = script.replace("'", "'\\''")
        command = f"{' '.join(HOWDAH)} lab run {' '.join(LINK)} -- sh -c '{quoted}'; {then}"
        os.execvpe("bash", ["bash", "-mc", command], traces.environment)  # noqa: S606
    shown = b""
    typed = False
    try:
        while True:
            shown += os.read(terminal, 4096)
            if not typed and b"ready" in shown:
                time.sleep(0.2)
                os.write(terminal, keys)
                if then != "exit $?":
                    time.sleep(1)
                    os.write(terminal, b"more\n")
                typed = True
    except OSError:
        pass
    finally:
        os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return shown.decode(errors="replace"), os.waitstatus_to_exitcode(status)
