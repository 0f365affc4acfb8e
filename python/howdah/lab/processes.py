"""Processes that live, told from later ones with the same number, and those that end with their parent."""

import select
from collections.abc import Iterator
from pathlib import Path

import msgspec

DIES_WITH_PARENT = ("setpriv", "--pdeathsig=KILL", "--")
"""The words before a command line with which the kernel kills the program when the thread that started it
ends."""


_DEAD = {"Z", "X", "x"}


class Identity(msgspec.Struct, frozen=True):
    """One process for as long as this kernel runs."""

    pid: int
    start_ticks: int
    """The time of its start, in clock ticks since boot: proc_pid_stat(5), field 22."""
    boot_id: str
    namespace: int
    """The PID namespace in which ``pid`` means anything."""

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """The process that has ``pid`` now; null when none has, or only its corpse."""
        fields = _stat(pid)
        if fields is None or fields[0] in _DEAD:
            return None
        return cls(pid, int(fields[19]), boot_id(), _namespace())

    def alive(self) -> bool:
        """Whether the process still runs; true where that cannot be seen from this PID namespace."""
        if (self.boot_id, self.namespace) == (boot_id(), _namespace()):
            return Identity.of(self.pid) == self
        return self.boot_id == boot_id()


def boot_id() -> str:
    """The identity of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def children(parent: int) -> Iterator[int]:
    """The processes whose parent is ``parent``; not every kernel has ``/proc/PID/task/PID/children``."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            fields = _stat(int(entry.name))
            if fields is not None and int(fields[1]) == parent and fields[0] not in _DEAD:
                yield int(entry.name)


def wait_gone(pidfd: int, timeout_s: float) -> bool:
    """True once the process of ``pidfd`` has ended, at the latest after ``timeout_s``."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
