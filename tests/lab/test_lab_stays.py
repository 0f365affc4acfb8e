"""``howdah lab up``, ``exec``, ``stats``, ``list``, ``down``: labs that stay, side by side."""

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from traces import SETTINGS, Traces, ping, round_trip_ms, wait_for

from howdah.lab import settings
from howdah.values.link import LinkStats

pytestmark = [pytest.mark.lab, pytest.mark.beside]


@pytest.fixture
def name(traces: Traces) -> Iterator[str]:
    made = f"test-{secrets.token_hex(4)}"
    yield made
    traces.howdah("lab", "down", made)


def up(traces: Traces, name: str, *options: str) -> dict[str, Any]:
    result = traces.howdah("lab", "up", name, "--json", *options)
    assert result.returncode == 0, result.stderr
    made: dict[str, Any] = msgspec.json.decode(result.stdout)
    return made


def on(
    traces: Traces,
    name: str,
    host: str,
    *command: str,
    **options: Any,  # noqa: ANN401
) -> "subprocess.CompletedProcess[str]":
    return traces.howdah("lab", "exec", name, host, "--", *command, **options)


def listed(traces: Traces) -> dict[str, Any]:
    return {lab["name"]: lab for lab in msgspec.json.decode(traces.howdah("lab", "list", "--json").stdout)}


def test_a_lab_stays_until_it_is_taken_down(traces: Traces, name: str) -> None:
    made = up(traces, name, "--rate", "1Gbit", "--rtt", "10ms")
    assert listed(traces)[name]["pid"] == made["pid"]
    assert listed(traces)[name]["link"]["near_to_far"]["delay_ns"] == 5_000_000
    assert name in traces.howdah("lab", "list").stdout
    assert 10 <= round_trip_ms(on(traces, name, "near", *ping(5)).stdout) < 12
    stats = msgspec.json.decode(traces.howdah("lab", "stats", name, "--json").stdout, type=LinkStats)
    assert stats.directions["near_to_far"].segments >= 5
    namespace = traces.howdah(
        "lab", "exec", name, "far", "--", "readlink", "/proc/self/ns/net"
    ).stdout.strip()
    down = traces.howdah("lab", "down", name)
    assert down.returncode == 0, down.stderr
    assert traces.processes() == []
    assert name not in listed(traces)
    traces.assert_none(namespace)


def test_exec_has_the_commands_input_output_folder_and_exit_code(
    traces: Traces, name: str, tmp_path: Path
) -> None:
    up(traces, name)
    result = traces.howdah(
        "lab",
        "exec",
        name,
        "far",
        "--",
        "sh",
        "-c",
        "pwd; cat; echo problem >&2; exit 5",
        input="words",
        cwd=tmp_path,
    )
    assert (result.stdout, result.stderr, result.returncode) == (f"{tmp_path}\nwords", "problem\n", 5)
    killed = on(traces, name, "far", "sh", "-c", "kill -KILL $$")
    assert killed.returncode == 128 + signal.SIGKILL
    assert on(traces, name, "far", "no-such-command").returncode == 127


def test_exec_passes_a_signal_on(traces: Traces, name: str) -> None:
    up(traces, name)
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done"
    with traces.start("lab", "exec", name, "near", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=5) == 9


def test_exec_killed_takes_its_command_along(traces: Traces, name: str) -> None:
    up(traces, name)
    before = traces.processes()
    with traces.start("lab", "exec", name, "near", "--", "sh", "-c", "echo ready; exec sleep 300") as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert set(traces.processes()) > set(before)
        process.kill()
    wait_for(lambda: traces.processes() == before)


@pytest.mark.parametrize("victim", ["maker", "lab"])
def test_a_killed_lab_is_forgotten_by_the_next_command(traces: Traces, name: str, victim: str) -> None:
    made = up(traces, name, "--sshd")
    file = settings.RUNTIME / "labs" / f"{name}.json"
    entry = msgspec.json.decode(file.read_bytes())
    assert entry["lab"]["pid"] == made["pid"]
    os.kill(entry[victim]["pid"], signal.SIGKILL)
    traces.assert_none()
    assert name not in listed(traces)
    assert not file.exists()
    up(traces, name)


def test_a_lab_whose_link_broke_says_so_to_the_next_command(traces: Traces, name: str) -> None:
    answers: list[str] = []

    def told() -> bool:
        result = traces.howdah("lab", "stats", name)
        assert result.returncode == 1
        answers.append(result.stderr)
        return any(f"{name} is down: the link broke" in answer for answer in answers)

    up(traces, name)
    ended = on(traces, name, "far", "sh", "-c", "ip link delete wan0; exec sleep 300")
    assert ended.returncode == 128 + signal.SIGKILL
    wait_for(told)
    assert "no lab is called" in answers[-1], "told once"
    up(traces, name)


def test_two_labs_side_by_side_with_the_same_addresses(traces: Traces, name: str) -> None:
    other = f"{name}-other"
    try:
        up(traces, name, "--rate", "1Gbit", "--rtt", "10ms")
        up(traces, other, "--rate", "1Gbit", "--rtt", "30ms")
        for lab, low_ms in ((name, 10), (other, 30)):
            output = on(traces, lab, "near", *ping(5)).stdout
            assert low_ms <= round_trip_ms(output) < low_ms + 2
    finally:
        traces.howdah("lab", "down", other)


def test_the_first_lab_that_ends_takes_no_setting_from_the_other(traces: Traces, name: str) -> None:
    other = f"{name}-other"
    try:
        up(traces, name, "--rate", "10Gbit", "--rtt", "200ms")
        up(traces, other, "--rate", "1Gbit", "--rtt", "10ms")
        assert int(_values()[settings.BUFFERS[0]][0]) >= 4 * 250_000_000
        traces.howdah("lab", "down", name)
        after = _values()
        assert "cubic" in after[settings.CONGESTION_CONTROLS]
        assert int(after[settings.BUFFERS[0]][0]) >= 64 * 2**20
        control = traces.howdah(
            "lab", "exec", other, "near", "--", "cat", "/proc/sys/net/ipv4/tcp_congestion_control"
        )
        assert control.stdout == "cubic\n"
    finally:
        traces.howdah("lab", "down", other)


def test_a_name_is_taken_once(traces: Traces, name: str) -> None:
    up(traces, name)
    again = traces.howdah("lab", "up", name)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "up already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("up", "../x"), 2),
        (("up", "x", "--rate", "10"), 2),
        (("down", "no-such-lab"), 1),
        (("stats", "no-such-lab"), 1),
        (("exec", "no-such-lab", "near", "--", "true"), 1),
        (("exec", "no-such-lab", "middle", "--", "true"), 1),
    ],
)
def test_bad_input_is_one_clear_line(traces: Traces, arguments: tuple[str, ...], code: int) -> None:
    result = traces.howdah("lab", *arguments)
    assert result.returncode == code
    assert result.stderr.startswith("howdah: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def _values() -> dict[str, list[str]]:
    return {name: (settings.ROOT / name).read_text().split() for name in SETTINGS}
