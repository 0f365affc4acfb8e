"""What the tests of ``howdah cp`` share: a lab, the command, trees to compare."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from howdah.lab import Lab
from howdah.values.record import Record

STOP_S = 2.0
"""Both ends have stopped this long after a signal (the issue's words); the tests add SLACK_S."""
SLACK_S = 1.5

Argument = str | Path
Wall = Callable[..., None]
P = TypeVar("P", bound="subprocess.Popen[Any]")
Node = tuple[str, int, int, bytes]


class Copier:
    """Runs ``howdah cp`` on the near host of a lab, with an archive of its own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}

    def argv(self, *arguments: Argument) -> list[str]:
        return [sys.executable, "-m", "howdah", "cp", *map(str, arguments)]

    def __call__(
        self, *arguments: Argument, prefix: tuple[str, ...] = (), **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        return self.lab.run(
            "near",
            [*prefix, *self.argv(*arguments)],
            env={**self.env, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def piped(
        self, *arguments: Argument, given: bytes = b"", **environment: str
    ) -> "subprocess.CompletedProcess[bytes]":
        """A copy with these bytes in its standard input."""
        return self.lab.run(
            "near",
            self.argv(*arguments),
            env={**self.env, **environment},
            input=given,
            capture_output=True,
            timeout=60,
        )

    def good(self, *arguments: Argument, **environment: str) -> Record:
        """A copy that must succeed; its record."""
        done = self(*arguments, "--json", **environment)
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout, type=Record)

    def refused(self, *arguments: Argument, prefix: tuple[str, ...] = (), **environment: str) -> str:
        """A copy that must fail with one line on standard error; that line."""
        done = self(*arguments, prefix=prefix, **environment)
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert done.stdout == ""
        assert done.stderr.startswith("howdah: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def forget_logins(self) -> None:
        """Ends the ssh logins kept by earlier copies, and far ends that wait or are being started."""

        def none_left() -> bool:
            left = self.processes()
            kept = [pid for pid, args in left.items() if "[mux]" in args or "howdah standby" in args]
            if kept:
                self.lab.run("near", ["kill", *map(str, kept)], capture_output=True)
            return not left

        try:
            wait_until(none_left, STOP_S)
        except AssertionError:
            raise AssertionError(f"left after {STOP_S} s: {self.processes()}") from None

    def processes(self) -> dict[int, str]:
        """Everything of howdah and ssh in the lab, both hosts, but for the lab itself and its server."""
        listed = self.lab.run(
            "near", ["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True
        ).stdout
        found = {}
        for line in listed.splitlines():
            pid, _, args = line.strip().partition(" ")
            if pid != "1" and ("howdah" in args or "ssh" in args) and not args.startswith("sshd: "):
                found[int(pid)] = args
        return found

    def wait_for_nothing_left(self) -> None:
        """Returns when no process of a copy is left; fails the test, naming them, when some stay."""
        deadline = time.monotonic() + SLACK_S
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.02)

    def far_ends(self) -> list[int]:
        """The process numbers, in the lab, of all ``howdah serve``."""
        return [pid for pid, args in self.processes().items() if "ssh" not in args and "howdah serve" in args]

    def far_end(self) -> int:
        """The process number, in the lab, of the one ``howdah serve``."""
        found = self.far_ends()
        assert len(found) == 1, f"one far end is looked for, use the fixture nothing_kept: {self.processes()}"
        return found[0]

    def holders(self) -> list[int]:
        """The process numbers, in the lab, of those that keep a far end ready for the next copy."""
        return [pid for pid, args in self.processes().items() if "howdah standby" in args]

    def waiting(self) -> int:
        """The process number of the one far end that is ready for the next copy, once there is one."""
        wait_until(lambda: bool(self.holders() and self.far_ends()), STOP_S + SLACK_S)
        return self.far_end()

    def kill_far_end(self, signal_name: str) -> None:
        self.lab.run("far", ["kill", f"-{signal_name}", str(self.far_end())], check=True)

    def connected(self, host: str) -> int:
        """How many data connections a host has."""
        return self._connections(host, "-Hnt")

    def reset_all(self, host: str) -> int:
        """Has the kernel of a host reset its data connections (ss --kill); how many there were."""
        return self._connections(host, "-HntK")

    def _connections(self, host: str, options: str) -> int:
        shown = self.lab.run(
            host,
            ["ss", options, "state", "established", "dport", "ne", "22", "and", "sport", "ne", "22"],
            capture_output=True,
            text=True,
            check=True,
        )
        return len(shown.stdout.splitlines())


def tree(root: Path) -> dict[bytes, Node]:
    """Every name under ``root``: kind, permissions, time of change in ns, content or link target."""
    found: dict[bytes, Node] = {}
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in folders + files):
            status = path.lstat()
            if path.is_symlink():
                node = ("link", 0, status.st_mtime_ns, bytes(path.readlink()))
            elif path.is_dir():
                node = ("folder", status.st_mode & 0o7777, 0, b"")
            else:
                node = ("file", status.st_mode & 0o7777, status.st_mtime_ns, path.read_bytes())
            found[bytes(path.relative_to(root))] = node
    return found


@contextmanager
def alive(process: P) -> Iterator[P]:
    """Kills it at the end of the block at the latest: a test that fails does not wait for it."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(true: Callable[[], bool], within_s: float) -> None:
    """Returns when ``true()``; fails the test when that takes longer."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < within_s, f"not within {within_s} s"
        time.sleep(0.02)
