"""A copy and its archive: one without room fails no copy, and one that is tidied up keeps what is in use."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from copying import Copier, alive, tree, wait_until

from howdah.values.record import Record

pytestmark = [pytest.mark.lab, pytest.mark.beside]

LARGE_BYTES = 60_000_000
FILES = 2000
UNKEPT = "howdah: warning: cannot keep the record in "


@pytest.fixture
def room(cp: Copier, tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB for the archive, seen in the lab only."""
    mount = tmp_path / "room"
    mount.mkdir()
    cp.lab.run("near", ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(mount)], check=True)
    yield mount
    cp.forget_logins()
    cp.lab.run("near", ["umount", str(mount)], check=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    made.mkdir()
    for number in range(FILES):
        (made / f"one-of-many-small-files-{number}").write_bytes(b"x")
    return made


def fill(cp: Copier, room: Path, size: str = "1M") -> None:
    """Takes so much of it, or all of it."""
    cp.lab.run("near", ["sh", "-c", f"head -c {size} /dev/zero > {room}/filled"], capture_output=True)


def written(folder: Path) -> int:
    """The bytes of the files in a folder that have room on its disk."""
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir()) if folder.exists() else 0


def test_a_full_disk_is_said_before_the_first_byte_and_fails_no_copy(
    cp: Copier, room: Path, source: Path, tmp_path: Path
) -> None:
    fill(cp, room)
    done = cp(source, f"far:{tmp_path}/target", XDG_DATA_HOME=str(room))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line.startswith(UNKEPT) for line in lines].count(True) == 2, (
        "before the first byte, and at the end"
    )
    assert lines[0].startswith(UNKEPT)
    assert "howdah archive show" not in done.stdout
    assert tree(tmp_path / "target") == tree(source)
    assert cp(source, f"far:{tmp_path}/target", "--dry-run", XDG_DATA_HOME=str(room)).stderr == ""


@pytest.mark.parametrize("options", [["--verify"], ["--manifest", "list.b3sum"]])
def test_what_needs_the_digests_is_refused_before_the_first_byte(
    cp: Copier, room: Path, source: Path, tmp_path: Path, options: list[str]
) -> None:
    fill(cp, room)
    said = cp.refused(source, f"far:{tmp_path}/target", *options, XDG_DATA_HOME=str(room))
    assert said.startswith("howdah: cannot keep the record in "), said
    assert not (tmp_path / "target").exists()


def test_digests_that_find_no_room_are_no_damage(
    cp: Copier, room: Path, source: Path, tmp_path: Path
) -> None:
    fill(cp, room, "400K")
    record = cp.good(source, f"far:{tmp_path}/target", XDG_DATA_HOME=str(room))
    assert record.outcome is not None
    assert record.outcome.warnings == ["the digests could not all be kept: No space left on device"]
    assert record.outcome.files == FILES
    assert tree(tmp_path / "target") == tree(source)


def test_the_list_of_a_paused_copy_is_in_use(cp: Copier, source: Path, tmp_path: Path) -> None:
    def howdah(*words: str) -> str:
        argv = [*cp.argv()[:-1], *words]
        done = cp.lab.run("near", argv, env=cp.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (source / "z-large").write_bytes(os.urandom(1 << 20))
    argv = cp.argv(source, f"far:{tmp_path}/target", "--limit", "1Mbit", "--json")
    with alive(cp.lab.popen("near", argv, env=cp.env, stdout=-1, stderr=-1)) as process:
        lists = (tmp_path / "data/howdah/records").glob("*/*/*.b3sum")
        wait_until(lambda: '"state":"moving"' in howdah("jobs", "--json").replace(" ", ""), 10)
        (job,) = msgspec.json.decode(howdah("jobs", "--json"))
        howdah("pause", job["job"])
        (kept,) = lists
        time.sleep(1)  # What was on its way has arrived.
        os.utime(kept, (0, 0))
        howdah("archive", "gc")
        assert kept.exists()
        howdah("limit", job["job"], "none")
        howdah("continue", job["job"])
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert len(kept.read_bytes().splitlines()) == FILES + 1


@pytest.mark.usefixtures("nothing_kept")
def test_digests_that_cannot_be_joined_after_a_restart_are_no_failure(
    cp: Copier, room: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    # There is room for the list of the second session, and none for a second one.
    for number in range(3500):
        (source / f"a-small-one-{number}").write_bytes(b"x")
    (source / "z-large").write_bytes(os.urandom(LARGE_BYTES))
    argv = cp.argv(source, f"far:{target}", "--streams", "4", "--pace", "15Mbit", "--json")
    env = {**cp.env, "XDG_DATA_HOME": str(room)}
    with alive(cp.lab.popen("near", argv, env=env, stdout=-1, stderr=-1)) as process:
        wait_until(lambda: written(target) > LARGE_BYTES // 4, 20)
        cp.kill_far_end(signal.SIGKILL.name.removeprefix("SIG"))
        out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    outcome = msgspec.json.decode(out, type=Record).outcome
    assert outcome is not None
    assert outcome.restarts == 1
    assert outcome.warnings == ["the digests could not all be kept: No space left on device"]
    assert tree(target) == tree(source)
    kept = cp.lab.run("near", ["find", str(room), "-type", "f"], capture_output=True, text=True).stdout
    assert sorted(Path(name).suffix for name in kept.split()) == [".json"], "no part of a list"
