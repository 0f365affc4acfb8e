"""The memory and processor time of a copy's two ends, seen from outside: /proc, some times a second."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_EVERY_S = 0.1
_TICKS_HZ = os.sysconf("SC_CLK_TCK")
ENDS = ("near", "far", "ssh")


@dataclasses.dataclass
class Seen:
    """What was seen of the processes of each end: the largest one's peak, and the time of all."""

    peak_bytes: dict[str, int]
    cpu_s: dict[str, float]


def end_of(argv: list[bytes]) -> str | None:
    """Which end a command line is of."""
    program = os.path.basename(argv[0]) if argv else b""  # noqa: PTH119, bytes
    if program.startswith((b"ssh", b"sshd")):
        return "ssh"
    ours = any(word.endswith(b"/howdah") or word == b"howdah" for word in argv)
    if (b"serve" in argv and ours) or b"--server" in argv:
        return "far"
    if program == b"rsync" or (b"cp" in argv and ours):
        return "near"
    return None


@contextlib.contextmanager
def watched(inner_pid: Callable[[], int | None]) -> Iterator[Seen]:
    """Watches all processes of one lab, that of the process ``inner_pid`` names, while the block lasts."""
    stop = threading.Event()
    seen = Seen(dict.fromkeys(ENDS, 0), dict.fromkeys(ENDS, 0.0))
    thread = threading.Thread(target=_watch, args=(inner_pid, stop, seen))
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def _watch(inner_pid: Callable[[], int | None], stop: threading.Event, seen: Seen) -> None:
    space: str | None = None
    before: dict[int, float] = {}
    now: dict[int, tuple[str, float]] = {}
    while not stop.is_set():
        if space is None and (pid := inner_pid()) is not None:
            space = _link(pid)
        if space is not None:
            for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208
                if _link(pid) == space:
                    _look(pid, before, now, seen)
        stop.wait(_EVERY_S)
    for pid, (end, cpu_s) in now.items():
        seen.cpu_s[end] += cpu_s - before[pid]


def _look(pid: int, before: dict[int, float], now: dict[int, tuple[str, float]], seen: Seen) -> None:
    """Notes one process. The time that one had when the copy began is not the copy's."""
    process = Path(f"/proc/{pid}")
    try:
        end = end_of(process.joinpath("cmdline").read_bytes().split(b"\0"))
        status = process.joinpath("status").read_text(errors="replace")
        fields = process.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return
    if end is None:
        return
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_HZ
    # Before the first look it had at most some milliseconds, but for one that was there already.
    before.setdefault(pid, cpu_s if cpu_s > 1.0 else 0.0)
    now[pid] = (end, cpu_s)
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            seen.peak_bytes[end] = max(seen.peak_bytes[end], int(line.split()[1]) * 1024)


def _link(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115
    except OSError:
        return None
