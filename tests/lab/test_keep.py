"""What is kept of files, over real ssh and by a far end that is confined as far ends are: beside rsync."""

import fcntl
import os
import random
import re
import socket
import stat
import struct
import subprocess
from pathlib import Path

import pytest
from copying import Copier
from requirement import missing

pytestmark = [pytest.mark.lab, pytest.mark.beside]

OPTIONS = "-aHAXS"
SOURCE_S = 1_000_000_000
"""When the files of a tree were changed last, in seconds since 1970."""


def access_list(user: int) -> bytes:
    """What ``setfacl -m u:USER:rwx`` makes of mode 750 (linux/posix_acl_xattr.h)."""
    none = 0xFFFFFFFF
    entries = [(0x01, 7, none), (0x02, 7, user), (0x04, 5, none), (0x10, 7, none), (0x20, 0, none)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


# FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_NODUMP_FL and FS_NOATIME_FL of linux/fs.h.
GET_FLAGS, SET_FLAGS, NODUMP, NOATIME = 0x80086601, 0x40086602, 0x40, 0x80


def flags(path: Path) -> int:
    """What chattr has set of a file, of the flags that all file systems treat alike."""
    with path.open("rb") as file:
        (there,) = struct.unpack("I", fcntl.ioctl(file, GET_FLAGS, bytes(4)))
    return there & (NODUMP | NOATIME)


def set_flags(path: Path, wanted: int) -> None:
    """As ``chattr =dA`` or ``chattr =``."""
    with path.open("rb") as file:
        (there,) = struct.unpack("I", fcntl.ioctl(file, GET_FLAGS, bytes(4)))
        fcntl.ioctl(file, SET_FLAGS, struct.pack("I", there & ~(NODUMP | NOATIME) | wanted))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree of root with one of everything that is kept."""
    if os.geteuid() != 0:
        missing("only root gives files to others; run as root")
    top = tmp_path / "src"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "plain").write_text("plain")
    (top / "big").write_bytes(os.urandom(3_000_001))
    os.link(top / "big", top / "deep" / "er" / "again")
    with (top / "holed").open("wb") as holed:
        holed.truncate(20 << 20)
    for name, user, group, mode in (("setuid", 1, 7, 0o4755), ("setgid", 4711, 1, 0o2711)):
        (top / name).write_text(name)
        os.chown(top / name, user, group)
        (top / name).chmod(mode)
    os.setxattr(top / "plain", "user.origin", b"run 42")
    os.setxattr(top / "plain", "trusted.told", b"root")
    set_flags(top / "plain", NODUMP | NOATIME)
    # May bind to low ports (linux/capability.h, revision 2).
    os.setxattr(top / "setgid", "security.capability", struct.pack("<5I", 0x02000000, 1 << 10, 0, 0, 0))
    os.setxattr(top / "big", "system.posix_acl_access", access_list(4711))
    os.setxattr(top / "deep", "system.posix_acl_default", access_list(4711))
    os.chown(top / "deep", 4712, 1)
    (top / "deep").chmod(0o2770)
    (top / "link").symlink_to("plain")
    os.chown(top / "link", 1, 4713, follow_symlinks=False)
    os.mkfifo(top / "fifo")
    os.chown(top / "fifo", 1, 1)
    (top / "fifo").chmod(0o622)
    os.mknod(top / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as named:
        named.bind(str(top / "socket"))
    # Neither can be opened. Linux gives them no attributes of users.
    for name in ("link", "fifo", "null", "socket"):
        os.setxattr(top / name, "trusted.told", b"root", follow_symlinks=False)
    os.setxattr(top / "fifo", "system.posix_acl_access", access_list(4711))
    return top


def fill_with_names(top: Path, drawn: random.Random, first_size: int) -> None:
    """Some of six files, of which some are names of one file. No two files have the same size."""
    (top / "d").mkdir(parents=True)
    names = [top / name for name in drawn.sample(["a", "b", "c", "d/a", "d/b", "e"], 5)]
    for number, path in enumerate(names):
        if number and drawn.random() < 0.6:
            path.hardlink_to(drawn.choice(names[:number]))
        else:
            path.write_bytes(bytes(first_size + number))
            changed_s = SOURCE_S + drawn.choice([0, 10, 20])
            os.utime(path, (changed_s, changed_s))


def sizes_and_names(top: Path) -> tuple[dict[str, int], set[frozenset[str]]]:
    """The size of each file, and which names are of one file."""
    found = {str(path.relative_to(top)): path.stat() for path in top.rglob("*") if path.is_file()}
    inodes = {each.st_ino for each in found.values()}
    names = {frozenset(name for name in found if found[name].st_ino == inode) for inode in inodes}
    return {name: each.st_size for name, each in found.items()}, names


def left_to_do(source: Path, target: Path) -> str:
    """What rsync would do to make the target what the source is, a line each."""
    done = subprocess.run(
        ["rsync", f"{OPTIONS}ni", "--checksum", f"{source}/", f"{target}/"],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_rsync_finds_nothing_to_do(cp: Copier, source: Path, tmp_path: Path, direction: str) -> None:
    target = tmp_path / "dst"
    names = (f"{source}/.", f"far:{target}/") if direction == "push" else (f"far:{source}/.", f"{target}/")
    target.mkdir()
    assert left_to_do(source, target)
    record = cp.good(OPTIONS, *names)
    assert record.outcome is not None
    assert (record.outcome.left_out, record.outcome.warnings) == ([], [])
    assert left_to_do(source, target) == ""
    assert (target / "holed").stat().st_blocks == 0
    assert record.outcome.hole_bytes == 20 << 20, "its zeros do not travel"
    assert record.outcome.bytes < 4_000_000
    assert flags(target / "plain") == NODUMP | NOATIME
    # What is there and skipped gets its owner and mode again.
    os.chown(target / "setuid", 0, 0)
    (target / "plain").chmod(0o600)
    os.setxattr(target / "plain", "user.origin", b"another")
    set_flags(target / "plain", 0)
    for name in ("link", "fifo"):
        os.setxattr(target / name, "trusted.told", b"another", follow_symlinks=False)
    os.removexattr(target / "fifo", "system.posix_acl_access")
    assert left_to_do(source, target)
    assert cp.good(OPTIONS, *names).outcome.bytes == 0
    assert left_to_do(source, target) == ""
    assert flags(target / "plain") == NODUMP | NOATIME


def test_without_options_nothing_of_it_is_kept(cp: Copier, source: Path, tmp_path: Path) -> None:
    record = cp.good(f"{source}/.", f"far:{tmp_path}/dst/")
    kept = (tmp_path / "dst" / "setuid").stat()
    assert (kept.st_uid, kept.st_gid, kept.st_mode & 0o7777) == (0, 0, 0o755)
    assert record.outcome is not None
    assert len(record.outcome.warnings) == 3


def modes_and_times(top: Path) -> dict[str, tuple[int, bool]]:
    """The mode of each name below a folder, and whether its time is that of ``SOURCE_S``."""
    found = ((path, path.stat()) for path in (top, *top.rglob("*")))
    return {
        str(path.relative_to(top)): (stat.S_IMODE(it.st_mode), it.st_mtime == SOURCE_S) for path, it in found
    }


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_modes_and_times_are_left_out_as_by_rsync(cp: Copier, tmp_path: Path, direction: str) -> None:
    source, target, by_rsync = (tmp_path / name for name in ("src", "dst", "rsync"))
    (source / "sub").mkdir(parents=True)
    for name in ("there", "new", "sub/new", "sub"):
        if name != "sub":
            (source / name).write_text("from the source")
        (source / name).chmod(0o777)
        os.utime(source / name, (SOURCE_S, SOURCE_S))
    for folder in (target, by_rsync):
        folder.mkdir()
        (folder / "there").write_text("before")
        (folder / "there").chmod(0o604)
    names = (f"{source}/.", f"far:{target}/") if direction == "push" else (f"far:{source}/.", f"{target}/")
    options = ("-aO", "--no-p")
    subprocess.run(["rsync", *options, f"{source}/", f"{by_rsync}/"], check=True)
    cp.good(*options, *names)
    seen = modes_and_times(target)
    assert seen == modes_and_times(by_rsync)
    assert seen["there"] == (0o604, True)
    assert seen["sub/new"][0] != 0o777
    assert not seen["sub"][1]
    done = cp("-a", "--no-times", *names)
    assert (done.returncode, "note: without times" in done.stderr) == (0, True), done.stderr
    # They have the times of their source already, so nothing is sent and nothing is changed.
    assert modes_and_times(target)["sub/new"] == (0o777, True)


@pytest.mark.parametrize("seed", range(12))
def test_names_that_are_newer_stay_and_others_are_as_with_rsync(
    cp: Copier, tmp_path: Path, seed: int
) -> None:
    drawn = random.Random(seed)  # noqa: S311
    source, ours, theirs, before = (tmp_path / name for name in ("src", "ours", "rsync", "before"))
    fill_with_names(source, drawn, first_size=10)
    fill_with_names(before, drawn, first_size=20)
    for target in (ours, theirs):
        subprocess.run(["rsync", "-aH", f"{before}/", f"{target}/"], check=True)
    subprocess.run(["rsync", "-aHu", f"{source}/", f"{theirs}/"], check=True)
    done = cp("-aHu", f"{source}/.", f"far:{ours}/")
    left_out = {
        str(Path(name).relative_to(ours)) for name in re.findall(r"cannot link (\S+) to", done.stderr)
    }
    assert (done.returncode == 0) == (not left_out), done.stderr
    (sizes, names), (expected, expected_names) = sizes_and_names(ours), sizes_and_names(theirs)
    kept, _ = sizes_and_names(before)
    newer = {
        name
        for name in kept.keys() & sizes_and_names(source)[0].keys()
        if (before / name).stat().st_mtime > (source / name).stat().st_mtime
    }
    assert not left_out & newer
    for name in left_out:
        (own,) = (group for group in sizes_and_names(source)[1] if name in group)
        assert own & newer, "only a file whose first name is newer is not sent"
    # These are the differences (docs/rsync.md).
    for name in newer | left_out:
        assert sizes.pop(name, None) == kept.get(name)
        del expected[name]
    assert sizes == expected
    if not newer:
        assert names == expected_names
