"""The files that only a lab's processes see: names, keys, runtime files.

All of it lies in a tmpfs over /run of the lab's own mount namespace, so the kernel removes it with
the lab. What was in /run is seen through it, except for howdah's own directories (process numbers mean
something else in here) and the files that record logins.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from howdah._native import HowdahError, bind_mount
from howdah.lab.topology import LabHost

RUN = Path("/run")
PRIVATE = RUN / "howdah-lab"
CONTROL = PRIVATE / "control"
"""The socket on which a lab answers (messages.py)."""

_NOT_SEEN = {"howdah", "howdah-ssh", "utmp", PRIVATE.name}


def make() -> None:
    """Makes PRIVATE; needs a mount namespace of its own, with private propagation."""
    behind = os.open(RUN, os.O_PATH | os.O_DIRECTORY)
    try:
        entries = [entry for entry in os.scandir(RUN) if entry.name not in _NOT_SEEN]
        _tmpfs(RUN)
        for entry in entries:
            _see_through(entry, f"/proc/self/fd/{behind}/{entry.name}")
    finally:
        os.close(behind)
    PRIVATE.mkdir(mode=0o700)


def name_hosts(hosts: Sequence[LabHost]) -> None:
    """Lets the names of ``hosts`` mean their addresses."""
    lines = [f"{host.address} {host.name}\n" for host in hosts]
    lines += [f"{host.address6} {host.name6}\n" for host in hosts]
    known = Path("/etc/hosts")
    cover(known, "".join(lines) + known.read_text(encoding="utf-8", errors="replace"), mode=0o644)


def cover(path: Path, text: str, *, mode: int) -> None:
    """Shows ``text`` in place of the file at ``path``, to the processes of this lab only."""
    own = write(f"cover-{path.name}", text, mode=mode)
    bind_mount(str(own), str(path))


def write(name: str, text: str, *, mode: int) -> Path:
    """Writes a file of this lab's own, and returns its path."""
    path = PRIVATE / name
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def _tmpfs(path: Path) -> None:
    result = subprocess.run(
        ["mount", "-n", "-t", "tmpfs", "-o", "mode=0755,nosuid,nodev", "howdah-lab", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise HowdahError(f"cannot mount a tmpfs on {path}: {result.stderr.strip()}")


def _see_through(entry: "os.DirEntry[str]", behind: str) -> None:
    here = RUN / entry.name
    if entry.is_symlink():
        here.symlink_to(Path(behind).readlink())
    elif entry.is_dir(follow_symlinks=False):
        here.mkdir()
        bind_mount(behind, str(here))
    else:
        here.touch()
        bind_mount(behind, str(here))
