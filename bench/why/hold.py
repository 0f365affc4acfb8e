"""What holds a copy back: a disk with a rate, a processor with a share, a neighbour on the path.

Disks are throttled by device for all of this machine (blkio of cgroup v1, in its root, so that what the
kernel writes behind counts too), processors by cgroup (cpu of v1).
"""

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import memory
from howdah import HowdahError
from howdah.lab import Lab

_BLOCKS = Path("/sys/fs/cgroup/blkio")
_PROCESSORS = Path("/sys/fs/cgroup/cpu")
_ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")
_SPARED_BYTES = 64 << 20
_QUOTA_US = 1000
"""The least there is, so that what is sent between two stops fits into what is on the way."""
_POLL_S = 0.01
_GONE_S = 10.0
_PORT = "5209"


class Disk:
    """An ext4 in a file in memory, whose device may be given a rate."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder
        status = os.stat(device)  # noqa: PTH116
        self._number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"

    @contextlib.contextmanager
    def at(self, bps: int | None) -> Iterator[None]:
        """Reads and writes at this rate, bits per second, while the block lasts; null: as fast as it can."""
        self._set(0 if bps is None else bps // 8)
        try:
            yield
        finally:
            self._set(0)

    def forget(self, file: Path) -> None:
        """Has the page cache hold nothing of a file."""
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _set(self, bytes_per_s: int) -> None:
        for way in ("read", "write"):
            file = _BLOCKS / f"blkio.throttle.{way}_bps_device"
            file.write_text(f"{self._number} {bytes_per_s}\n")


@contextlib.contextmanager
def disk(size_bytes: int) -> Iterator[Disk]:
    """A disk of its own while the block lasts. Needs root; raises HowdahError where there is none."""
    if not (_BLOCKS / "blkio.throttle.read_bps_device").exists():
        raise HowdahError(f"no throttling of disks; the bench needs blkio of cgroup v1 at {_BLOCKS}")
    with tempfile.TemporaryDirectory(prefix="howdah-why-") as name:
        memory.mount(Path(name), size_bytes + _SPARED_BYTES, "never")
        image, folder = Path(name, "image"), Path(name, "disk")
        folder.mkdir()
        with image.open("wb") as stream:
            stream.truncate(size_bytes)
        _do(
            "mkfs.ext4",
            "-q",
            "-m",
            "0",
            "-N",
            "300000",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0",
            str(image),
        )
        device = _do("losetup", "--find", "--show", str(image)).strip()
        try:
            _do("mount", "-o", "noatime", device, str(folder))
            try:
                yield Disk(folder, device)
            finally:
                _do("umount", str(folder))
        finally:
            _do("losetup", "--detach", device)
            image.unlink()
            _do("umount", "--lazy", name)


class Processor:
    """A share of one core for processes that are put there, and the account of what they ran."""

    def __init__(self, share: float) -> None:
        self._group = f"howdah-why-{os.getpid()}"
        self.share = share
        self._pid: int | None = None
        self._since_s = self._there_s = self._ran_s = 0.0

    def __enter__(self) -> "Processor":
        for above in (_PROCESSORS, _ACCOUNTS):
            (above / self._group).mkdir()
        group = _PROCESSORS / self._group
        (group / "cpu.cfs_period_us").write_text(f"{round(_QUOTA_US / self.share)}\n")
        (group / "cpu.cfs_quota_us").write_text(f"{_QUOTA_US}\n")
        return self

    def __exit__(self, *_: object) -> None:
        for above in (_PROCESSORS, _ACCOUNTS):
            _dissolve(above, above / self._group)

    def take(self, pid: int) -> None:
        """Puts a process there."""
        self._pid, self._since_s = pid, time.monotonic()
        for above in (_PROCESSORS, _ACCOUNTS):
            (above / self._group / "cgroup.procs").write_text(f"{pid}\n")

    def held_s(self) -> float:
        """Returns how long it held a copy back: for what its process ran, no longer than there were streams.

        What the process does afterwards is behind the copy, and the copy's record does not count it.
        """
        if self._pid is None:
            raise HowdahError("no process of a copy was found to be limited")
        return min(self._there_s, self._ran_s / self.share)

    def _account(self) -> None:
        """Notes how long the process was there until now, and what it ran."""
        self._there_s = time.monotonic() - self._since_s
        self._ran_s = int((_ACCOUNTS / self._group / "cpuacct.usage").read_text()) / 1e9

    @contextlib.contextmanager
    def taking(self, end: bytes, inner_pid: Callable[[], int | None]) -> Iterator[None]:
        """Takes the end of a copy, ``cp`` or ``serve``, as soon as it has data streams, until it has none."""
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(_POLL_S):
                pid = inner_pid()
                if self._pid is not None:
                    if not _has_streams(Path(f"/proc/{self._pid}")):
                        return
                    self._account()
                    continue
                for each in _streaming(end, str(Path(f"/proc/{pid}/ns/pid").readlink())) if pid else ():
                    self.take(each)
                    break

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _dissolve(above: Path, group: Path) -> None:
    """Removes a group. Its processes go to the one above; those that have ended are there for a moment."""
    until_s = time.monotonic() + _GONE_S
    while True:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (above / "cgroup.procs").write_text(pid)
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > until_s:
                raise
            time.sleep(_POLL_S)
        else:
            return


def _streaming(end: bytes, space: str) -> Iterator[int]:
    """The processes of one end in a lab that have threads of data streams."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if str((process / "ns/pid").readlink()) != space:
                continue
            if end not in (process / "cmdline").read_bytes().split(b"\0"):
                continue
        except OSError:
            continue
        if _has_streams(process):
            yield int(process.name)


def _has_streams(process: Path) -> bool:
    """Whether a process, by its folder in /proc, has threads of data streams."""
    try:
        names = [(task / "comm").read_text() for task in (process / "task").iterdir()]
    except OSError:
        return False
    return any(name.startswith("howdah-stream") for name in names)


@contextlib.contextmanager
def neighbour(wan: Lab) -> Iterator[None]:
    """One CUBIC stream beside the copy, from the near host to the far one."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = ["iperf3", "--server", "--bind", wan.far_address, "--port", _PORT]
    client = [
        "iperf3",
        "--client",
        wan.far_address,
        "--port",
        _PORT,
        "--time",
        "120",
        "--congestion",
        "cubic",
    ]
    with wan.popen("far", server, **quiet) as serving:
        time.sleep(0.5)
        with wan.popen("near", client, **quiet) as sending:
            # Its slow start is over.
            time.sleep(2.0)
            try:
                yield
            finally:
                sending.kill()
                serving.kill()


def _do(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HowdahError(f"{argv[0]}: {done.stderr.strip()}")
    return done.stdout
