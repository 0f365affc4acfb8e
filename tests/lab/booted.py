"""A systemd as the first process of namespaces of its own, for tests of the shipped units.

It has its own /run, /tmp, /etc and cgroups, and the network of the test. When the test ends, the kernel
kills it and all that it has started.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from copying import wait_until
from requirement import missing

SYSTEMD = Path("/lib/systemd/systemd")
UNITS = Path(__file__).parents[2] / "packaging" / "systemd"
SYSUSERS = Path(__file__).parents[2] / "packaging" / "debian" / "sysusers"
PYTHON = [sys.prefix, sys.base_prefix]
SOON_S = 20
_TARGETS = (
    "sysinit basic shutdown sockets timers paths slices local-fs network-online network nss-user-lookup"
)
_TARGET = "[Unit]\nRequires=basic.target\n"
_SAID = "StandardOutput=append:/run/said\nStandardError=append:/run/said\n"
_BOOT = """
set -eu
mount -t proc proc /proc
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs tmpfs /run
cp -a /etc /run/etc
mount --bind /run/etc /etc
cp -a "$1/etc/." /etc/
systemd-sysusers "$1/sysusers"
mkdir "$1/tmp"
for place in "$3" "$4"; do
    case $place in /tmp/*)
        mkdir -p "$1$place"
        mount --bind "$place" "$1$place"
    esac
done
mount --rbind "$1/tmp" /tmp
export container=howdah SYSTEMD_UNIT_PATH="/etc/systemd/system" SYSTEMD_LOG_TARGET=console
exec "$2" --system --unit=test.target
"""


class Booted:
    """A running systemd."""

    def __init__(self, pid: int) -> None:
        """The one whose first process has this number."""
        self._pid = pid

    def within(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        """What comes of a command that sees what it sees."""
        entered = ["nsenter", "--target", str(self._pid), "--mount", "--pid", *argv]
        return subprocess.run(entered, capture_output=True, text=True, timeout=SOON_S, check=False)

    def systemctl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """What systemctl(1) says to it."""
        return self.within("systemctl", "--no-pager", *words)

    def start(self, *units: str) -> None:
        """Starts units, which must not fail."""
        started = self.systemctl("start", *units)
        assert started.returncode == 0, self._said(*units)

    def stop(self, unit: str) -> None:
        """Stops a unit, which must end well."""
        assert self.systemctl("stop", unit).returncode == 0
        result = self.systemctl("show", "--property=Result", "--value", unit).stdout
        assert result == "success\n", self._said(unit)

    def pid_of(self, unit: str) -> int:
        """The main process of a unit, by its number here; 0 where there is none."""
        inside = self.systemctl("show", "--property=MainPID", "--value", unit).stdout.strip()
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):
                numbers = re.search("^NSpid:(.*)$", status.read_text(encoding="ascii"), re.MULTILINE)
                if numbers and numbers[1].split()[1:] == [inside] and self._has(status.parent):
                    return int(status.parent.name)
        return 0

    def _said(self, *units: str) -> str:
        return self.systemctl("status", *units).stdout + self.within("cat", "/run/said").stdout

    def _has(self, process: Path) -> bool:
        return (process / "ns" / "pid").readlink() == Path(f"/proc/{self._pid}/ns/pid").readlink()


@contextmanager
def booted(folder: Path, files: Mapping[str, str]) -> Iterator[Booted]:
    """A systemd with the shipped units, which start the howdah of this Python, and ``files`` in its /etc."""
    if not SYSTEMD.exists():
        missing("systemd is not installed; run: apt-get install systemd")
    units = folder / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    howdah = Path(sys.executable).parent / "howdah"
    for unit in UNITS.glob("*.service"):
        text = unit.read_text(encoding="ascii").replace("ExecStart=howdah", f"ExecStart={howdah}")
        # The Python of this test may lie where a service may not look: it sees that and nothing else of it.
        text = text.replace("ProtectHome=yes", "ProtectHome=tmpfs")
        (units / unit.name).write_text(f"{text}[Service]\nBindReadOnlyPaths={' '.join(PYTHON)}\n{_SAID}")
    for name in _TARGETS.split():
        target = Path("/lib/systemd/system") / f"{name}.target"
        (units / target.name).write_bytes(target.read_bytes())
    (units / "test.target").write_text(_TARGET)
    (folder / "sysusers").write_bytes(SYSUSERS.read_bytes())
    for name, text in files.items():
        file = folder / "etc" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o600)
    with _cgroup(folder) as cgroup:
        namespaces = ["--mount", "--pid", "--uts", "--ipc", "--cgroup", "--propagation", "private"]
        boot = ["sh", "-c", _BOOT, "boot", folder, SYSTEMD, *PYTHON]
        argv = ["unshare", *namespaces, "--fork", "--kill-child", *boot]
        joined = ["sh", "-c", f'echo $$ > "{cgroup}/cgroup.procs"; exec "$@"', "sh", *argv]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(joined, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield _ready(process, folder / "log")
        finally:
            process.kill()
            process.wait()


def _ready(process: "subprocess.Popen[bytes]", log: Path) -> Booted:
    """The systemd that a command has started, once it takes orders."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def first() -> str:
        return children.read_text(encoding="ascii").partition(" ")[0]

    def is_ready() -> bool:
        pid = first()
        if not pid or Path(f"/proc/{pid}/comm").read_text(encoding="ascii") != "systemd\n":
            return False
        return Booted(int(pid)).systemctl("is-active", "test.target").stdout == "active\n"

    try:
        wait_until(is_ready, SOON_S)
        return Booted(int(first()))
    except (AssertionError, OSError):
        raise AssertionError(f"systemd did not start: {log.read_text(errors='replace')}") from None


@contextmanager
def _cgroup(folder: Path) -> Iterator[Path]:
    """A cgroup of its own, which goes with all below it."""
    mounted = folder / "cgroups"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", mounted], check=True)
    cgroup = mounted / f"howdah-test-{os.getpid()}"
    cgroup.mkdir()

    def removed() -> bool:
        for each in sorted(cgroup.rglob("*/"), key=lambda path: -len(path.parts)):
            with suppress(OSError):
                each.rmdir()
        with suppress(OSError):
            cgroup.rmdir()
        return not cgroup.exists()

    try:
        yield cgroup
    finally:
        wait_until(removed, SOON_S)
        subprocess.run(["umount", mounted], check=True)
