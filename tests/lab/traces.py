"""What a lab could leave behind, and a way to find it among everything else on the machine."""

# ruff: noqa: ANN401, options are subprocess's

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from howdah.lab import settings, topology
from howdah.lab.processes import Identity

HOWDAH = [sys.executable, "-m", "howdah"]
SETTINGS = [
    name
    for name in (settings.CONGESTION_CONTROLS, *settings.BUFFERS, settings.MEMORY, settings.PAGE_REPORTING)
    if (settings.ROOT / name).exists()
]
GONE_S = 5.0


class Traces:
    """Marks everything it starts, by an environment variable that a lab's processes inherit."""

    def __init__(self) -> None:
        self._mark = f"HOWDAH_TEST={secrets.token_hex(8)}"
        self._before = self._shared()

    @property
    def environment(self) -> dict[str, str]:
        name, _, value = self._mark.partition("=")
        return {**os.environ, name: value}

    def howdah(self, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Runs howdah to its end."""
        options = {"capture_output": True, "text": True, "timeout": 30, "env": self.environment} | options
        return subprocess.run([*HOWDAH, *arguments], check=False, **options)

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """Starts howdah; its output is for the caller."""
        options = {"stdout": subprocess.PIPE, "text": True, "env": self.environment} | options
        return subprocess.Popen([*HOWDAH, *arguments], **options)

    def processes(self) -> list[int]:
        """Every process with the mark that still runs, oldest first."""
        found = [pid for pid in _pids() if self._mark in _environment(pid) and Identity.of(pid)]
        return sorted(found)

    def assert_none(self, *namespaces: str) -> None:
        """Nothing is left: no process, mount, device, ledger entry, nor any of ``namespaces``."""
        deadline = time.monotonic() + GONE_S
        while (left := self._left(namespaces)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert left == [], left

    def kill_all(self) -> None:
        """Kills every process with the mark."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left(self, namespaces: tuple[str, ...]) -> list[str]:
        left = [f"process {pid}" for pid in self.processes()]
        left += [
            f"mount {line}"
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if "howdah-lab" in line
        ]
        left += [f"device {path}" for path in Path("/sys/class/net").glob("wan*")]
        left += [f"{name} held by {path}" for name in namespaces for path in _holders(name)]
        left += [f"file {path}" for path in settings.RUNTIME.glob("labs/*.[0-9]*")]
        shared = self._shared()
        if not shared["claims"] and not self._before["claims"] and shared != self._before:
            left.append(f"settings {shared} were {self._before}")
        left += [f"claim of {claim}" for claim in shared["claims"] if not claim.alive()]
        return left

    @staticmethod
    def _shared() -> dict[str, Any]:
        """The host's settings, and who claims them: other labs may run beside the tests."""
        ledger = settings.RUNTIME / "claims.json"
        claims = msgspec.json.decode(ledger.read_bytes())["claims"] if ledger.exists() else []
        values = {name: sorted((settings.ROOT / name).read_text().split()) for name in SETTINGS}
        return {"claims": [msgspec.convert(claim["owner"], Identity) for claim in claims], **values}


def wait_for(true: Callable[[], bool]) -> None:
    """Returns once ``true()``; fails after a while."""
    deadline = time.monotonic() + GONE_S
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert true()


def round_trip_ms(output: str) -> float:
    """The smallest round trip that ping reports."""
    return float(output.rpartition(" = ")[2].split("/")[0])


def ping(count: int = 3, to: str = topology.ADDRESSES["far"]) -> list[str]:
    return ["ping", "-n", "-q", "-i", "0.05", "-c", str(count), to]


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _holders(namespace: str) -> Iterator[str]:
    """Every process and descriptor that keeps ``namespace``, as ``net:[4026531840]``."""
    for pid in _pids():
        try:
            paths = [Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        for path in paths:
            try:
                if str(path.readlink()) == namespace:
                    yield str(path)
            except OSError:
                # It has gone since it was listed.
                continue
