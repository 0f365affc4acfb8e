"""Files read again at the target: ``cp --verify`` and ``--manifest``, and ``howdah verify`` at a far host."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from copying import SLACK_S, STOP_S, Copier, alive

from howdah.lab import Lab
from howdah.values.record import Record
from howdah.values.verification import Verification

pytestmark = [pytest.mark.lab, pytest.mark.beside]

ODD = ["new\nline", "back\\slash", "below/ lead", "\udcff"]

WRONG_DISK = """\
import mmap, sys
image, part = sys.argv[1], bytes.fromhex(sys.argv[2])
with open(image, "r+b") as stream, mmap.mmap(stream.fileno(), 0) as disk:
    at = disk.find(part)
    assert at >= 0
    disk[at] ^= 1
"""


@pytest.fixture
def copier(wan: Lab, tmp_path: Path) -> Iterator[Copier]:
    copier = Copier(wan, tmp_path)
    yield copier
    copier.forget_logins()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "run42"
    for name in (*ODD, "large"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.urandom(5_000_000 if name == "large" else 5000))
    return folder


def verify(copier: Copier, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "howdah", "verify", *map(str, words)]
    env: dict[str, Any] = {"env": copier.env}
    return copier.lab.run("near", argv, **env, capture_output=True, text=True, timeout=60)


def result(copier: Copier, *words: str | Path) -> Verification:
    return msgspec.json.decode(verify(copier, "--json", *words).stdout, type=Verification)


def test_a_copy_is_verified_listed_and_checked_later(copier: Copier, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    manifest = tmp_path / "42.sha256"
    record = copier.good("--manifest", manifest, tree, f"far:{tmp_path}/to/")
    assert record.verification is not None
    assert record.verification.agrees
    assert (record.verification.counts.files, record.verification.host) == (5, "far")
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", manifest], cwd=tmp_path / "to", check=False
    )
    assert done.returncode == 0
    assert len(manifest.read_bytes().splitlines()) == 5
    # Later, at the far host: by the record, by the list, and with more there than was copied.
    assert result(copier, "last", f"far:{tmp_path}/to").agrees
    assert result(copier, "--extra", manifest, f"far:{tmp_path}/to/").agrees
    copied = tmp_path / "to/run42"
    (copied / ODD[0]).write_bytes(b"else")
    (copied / ODD[3]).unlink()
    (copied / "more").touch()
    done = verify(copier, "--quiet", "--extra", manifest, f"far:{tmp_path}/to")
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == [
        "differs: run42/new\\nline",
        "extra: run42/more",
        "missing: run42/\\xff",
    ]
    # Back again, into a folder that is new, with BLAKE3, which needs no other read.
    record = copier.good("--manifest", tmp_path / "back.b3sum", f"far:{copied}/.", tmp_path / "back")
    assert record.verification is None
    assert result(copier, tmp_path / "back.b3sum", tmp_path / "back").counts.files == 5
    refused = copier.refused("--manifest", manifest, tree, f"far:{tmp_path}/to/")
    assert "exists already" in refused


def test_one_file_of_another_name_is_verified_either_way(copier: Copier, tree: Path, tmp_path: Path) -> None:
    pushed = copier.good("--verify", tree / "large", f"far:{tmp_path}/pushed.h5")
    pulled = copier.good("--verify", f"far:{tree}/large", tmp_path / "pulled.h5")
    for record, host in ((pushed, "far"), (pulled, None)):
        assert record.verification is not None
        assert (record.verification.agrees, record.verification.host) == (True, host)
        assert record.verification.counts.bytes == 5_000_000
    again = copier.good("--verify", tree / "large", f"far:{tmp_path}/pushed.h5")
    assert again.verification is not None
    assert (again.verification.counts.files, again.verification.skipped) == (0, 1), "nothing was moved"


def test_what_was_there_already_is_counted_and_said_not_to_be_read(
    copier: Copier, tree: Path, tmp_path: Path
) -> None:
    given = ("--verify", tree, f"far:{tmp_path}/to/")
    first = copier.good(*given)
    assert first.verification is not None
    assert (first.verification.counts.files, first.verification.skipped) == (5, 0)
    rotten = tmp_path / "to/run42/large"
    times = rotten.stat()
    with rotten.open("r+b") as stream:
        stream.write(bytes([(tree / "large").read_bytes()[0] ^ 1]))
    os.utime(rotten, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = copier(*given)
    assert done.returncode == 0
    assert "Verified: " not in done.stdout
    told = "files were there already and were not read again; to compare them too, add --checksum"
    assert f"5 {told}" in done.stdout.splitlines()
    (tree / "new").write_bytes(b"new")
    done = copier(*given)
    assert "Verified: 1 file in far:" in done.stdout
    assert f"5 {told}" in done.stdout.splitlines()
    # As that says: what differs is sent, and then read from the disk.
    mended = copier.good("--checksum", *given)
    assert mended.verification is not None
    assert (mended.verification.counts.files, mended.verification.skipped) == (1, 5)
    assert rotten.read_bytes() == (tree / "large").read_bytes()
    # Nothing is left of what was rotten, though copies came between that moved nothing.
    assert "6 files were skipped and not read again" in copier("--checksum", *given).stdout.splitlines()
    assert result(copier, "last", f"far:{tmp_path}/to").counts.files == 1


def test_a_list_of_a_copy_that_moved_nothing_is_not_left(copier: Copier, tree: Path, tmp_path: Path) -> None:
    copier.good(tree, f"far:{tmp_path}/to/")
    for name in ("again.b3sum", "again.sha256"):
        given = ("--manifest", tmp_path / name, tree, f"far:{tmp_path}/to/")
        # The same command twice, as a script runs it.
        for _ in range(2):
            done = copier(*given)
            assert done.returncode == 0
            assert done.stderr == f"howdah: no file was moved, so {tmp_path}/{name} was not written\n"
            assert not list(tmp_path.glob("*again*"))
    (tree / "new").write_bytes(b"new")
    copier.good(*given)
    assert result(copier, tmp_path / name, f"far:{tmp_path}/to").counts.files == 1


def test_a_disk_that_gives_back_something_else_is_found(copier: Copier, tree: Path, tmp_path: Path) -> None:
    image, mount, lie = tmp_path / "image", tmp_path / "disk", tmp_path / "lie.py"
    with image.open("wb") as stream:
        stream.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mount.mkdir()
    copier.lab.run("far", ["mount", "-o", "loop", str(image), str(mount)], check=True)
    try:
        # The disk goes wrong after the copy is durable, before it is read again.
        lie.write_text(WRONG_DISK)
        part = (tree / "large").read_bytes()[2_000_000:2_000_032].hex()
        wrapper = tmp_path / "howdah"
        wrapper.write_text(
            f'#!/bin/sh\n[ "$1" != reread ] || {sys.executable} {lie} {image} {part}\nexec howdah "$@"\n'
        )
        wrapper.chmod(0o755)
        given = ("--far-howdah", wrapper, tree, f"far:{mount}/")
        done = copier("--verify", "--json", "--manifest", tmp_path / "42.md5", *given)
        record = msgspec.json.decode(done.stdout, type=Record)
        assert done.returncode == 1
        assert record.verification is not None
        assert [(each.name, each.what) for each in record.verification.findings] == [
            ("run42/large", "differs")
        ]
        assert record.error is not None
        assert record.error.startswith(
            "1 file, read again from the target's disk, is not what was sent: run42/large (differs); remove"
        )
        assert record.error in done.stderr
        # The list has what agrees; the page cache still holds what was written.
        listed = (tmp_path / "42.md5").read_bytes().splitlines()
        assert len(listed) == 4
        assert not [line for line in listed if b"large" in line]
        digest = hashlib.sha256((tree / "large").read_bytes()).hexdigest()
        cached = copier.lab.run(
            "far", ["sha256sum", str(mount / "run42/large")], capture_output=True, text=True
        )
        assert cached.stdout.startswith(digest)
        # The flip is in the disk for good: turned back, all agrees.
        subprocess.run([sys.executable, lie, image, flipped(part)], check=True)
        assert result(copier, "last", f"far:{mount}").agrees
    finally:
        copier.forget_logins()
        copier.lab.run("far", ["umount", str(mount)], check=True)


def flipped(part: str) -> str:
    first, *rest = bytes.fromhex(part)
    return bytes([first ^ 1, *rest]).hex()


def test_a_check_over_ssh_that_is_stopped_leaves_nothing(copier: Copier, tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as stream:
        stream.truncate(2 << 40)
    (tmp_path / "slow.md5").write_text(f"{'0' * 32}  hole\n")
    argv = [sys.executable, "-m", "howdah", "verify", str(tmp_path / "slow.md5"), f"far:{tmp_path}"]
    started = copier.lab.popen("near", argv, env=copier.env, stderr=subprocess.PIPE, text=True)
    with alive(started):
        until = time.monotonic() + 20
        while not any("howdah reread" in args for args in copier.processes().values()):
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.3)
        (pid,) = (pid for pid, args in copier.processes().items() if "howdah verify" in args)
        copier.lab.run("near", ["kill", "-INT", str(pid)], check=True)
        assert started.wait(STOP_S + SLACK_S + 5) == 130
    copier.wait_for_nothing_left()


def test_refusals_name_what_is_wrong(copier: Copier, tree: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "list.md5"
    manifest.write_text(f"{'0' * 32}  a\n")
    done = verify(copier, manifest, "far:/no/such")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "howdah: far: cannot read /no/such: No such file or directory\n"
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho \"howdah: No such command 'reread'\" >&2\nexit 2\n")
    old.chmod(0o755)
    done = verify(copier, "--far-howdah", old, manifest, "far:")
    assert (done.returncode, done.stdout) == (1, "")
    assert "howdah on far is older and cannot verify; install the same version" in done.stderr
    old.write_text(f'#!/bin/sh\n[ "$1" = reread ] || exec howdah "$@"\n{old.read_text()}')
    said = copier.refused("--verify", "--far-howdah", old, tree, f"far:{tmp_path}/x")
    assert "howdah on far is older and cannot verify; install the same version" in said
    assert not (tmp_path / "x").exists()
    assert "give it a name that ends in" in copier.refused("--manifest", "list", tree, f"far:{tmp_path}/x")
    assert "--memory moves no files" in copier.refused("--verify", "--memory", "1MiB", "far:")
    assert not (tmp_path / "x").exists()
