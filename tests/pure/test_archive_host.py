"""Archives on file systems that are read-only or full, and databases that no howdah made."""

import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from samples import howdah, run, sample

from howdah import HowdahError
from howdah.archive import Archive
from howdah.archive.layout import FILE
from howdah.archive.store import Store
from howdah.archive.upkeep import prune

ON = ("unshare", "--mount", "--map-root-user", "sh", "-ec")
"""A shell with mounts of its own."""
READ_ONLY = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec "$@"'
FULL = """
mount -t tmpfs -o size=1m none "$1"
cp -a "$2/." "$1"
dd if=/dev/zero of="$1/full" bs=4096 2>/dev/null || :
truncate -s "-$3" "$1/full"
place=$1; shift 3
"$@" && test "$(stat -c %s "$place/howdah/records/runs.sqlite")" -lt 100000
"""


def archive_of(root: Path, count: int = 3, samples: int = 5) -> Archive:
    archive = Archive(root / "howdah" / "records")
    for number in range(count):
        # Sines, because they do not compress.
        values = [sample(t / 10, 0, rtt_s=abs(math.sin(t))) for t in range(samples)]
        archive.save(run(number, samples=values))
    assert len(archive.runs()) == count
    return archive


def told(*command: str | Path, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, "XDG_DATA_HOME": str(data)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def read_only(root: Path, *words: str | Path, data: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What howdah says while this folder is read-only."""
    return told(*ON, READ_ONLY, "sh", root, sys.executable, "-m", "howdah", *words, data=data or root)


@pytest.mark.parametrize("waiting", [0, 1])
def test_an_archive_on_a_read_only_file_system_is_read(tmp_path: Path, waiting: int) -> None:
    archive = archive_of(tmp_path / "snapshot")
    for number in range(waiting):
        archive.save(run(10 + number, samples=[sample(0, 0)]))
    files = {each: each.stat() for each in archive.root.rglob("*")}
    place, runs = tmp_path / "snapshot", 3 + waiting
    listed = read_only(place, "archive", "ls")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.count("transfer") == runs
    for words in (("archive", "show", "last"), ("archive", "paths"), ("profile",)):
        done = read_only(place, *words)
        assert (done.returncode, done.stderr) == (0, "")
    exported = read_only(place, "archive", "export", tmp_path / "out")
    assert exported.stdout.startswith(f"Exported {runs} runs")
    merged = read_only(place, "archive", "merge", archive.root, data=tmp_path / "mine")
    assert merged.stdout.startswith(f"Imported {runs} runs")
    assert {each: each.stat() for each in archive.root.rglob("*")}.keys() == files.keys()
    assert [*Archive(tmp_path / "mine/howdah/records").newest()] == [*archive.newest()]


def test_an_older_layout_on_a_read_only_file_system_is_read(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    with sqlite3.connect(archive.root / FILE) as database:
        database.execute("DROP INDEX runs_by_path")
        database.execute("PRAGMA user_version = 3000")
    database.close()
    assert read_only(tmp_path, "archive", "ls").stdout.count("transfer") == 3
    with sqlite3.connect(archive.root / FILE) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (3000,)
    database.close()


@pytest.mark.parametrize("words", [("gc",), ("prune", "--keep", "1")])
def test_what_would_change_a_read_only_archive_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    archive_of(tmp_path)
    done = read_only(tmp_path, "archive", *words)
    assert done.returncode == 1
    assert "cannot change the archive" in done.stderr
    assert "its file system is read-only" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_transaction_that_died_in_a_read_only_archive_is_not_passed_over(tmp_path: Path) -> None:
    archive = archive_of(tmp_path)
    dying = (
        "import os, sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('PRAGMA cache_size = 1'); "
        "d.execute('PRAGMA cache_spill = 1'); "
        'd.executescript("BEGIN; UPDATE records SET json = hex(randomblob(200000))"); os._exit(0)'
    )
    subprocess.run([sys.executable, "-c", dying, archive.root / FILE], check=True)
    assert (archive.root / f"{FILE}-journal").stat().st_size
    done = read_only(tmp_path, "archive", "ls")
    assert done.returncode == 1
    assert "a process died while it wrote there" in done.stderr
    assert "copy the folder, and read the copy" in done.stderr


def full(root: Path, room_bytes: int, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What howdah says on a full file system that holds a copy of this folder."""
    place.mkdir()
    command = (sys.executable, "-m", "howdah", *words)
    return told(*ON, FULL, "sh", place, root, str(room_bytes), *command, data=place)


@pytest.mark.parametrize("words", [("archive", "prune", "--keep", "0"), ("archive", "gc")])
def test_a_nearly_full_disk_is_relieved(tmp_path: Path, words: tuple[str, ...]) -> None:
    archive = archive_of(tmp_path / "kept", count=12, samples=2000)
    if words[1] == "gc":
        with Store(archive.root) as store, store.writing() as database:
            database.execute("DELETE FROM traces")
    assert (archive.root / FILE).stat().st_size > 300_000
    done = full(tmp_path / "kept", 65_536, tmp_path / "disk", *words)
    assert done.stderr == ""
    assert done.returncode == 0


def test_on_a_full_disk_what_needs_no_room_goes_first(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "kept", count=6, samples=2000)
    for each in [*archive.newest()]:
        archive.inbox.digests(each.id).write_bytes(bytes(20_000))
    archive.save(run(20, samples=[sample(t / 10, 0) for t in range(500)]))
    done = full(tmp_path / "kept", 0, tmp_path / "disk", "archive", "prune", "--keep", "0")
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_full_disk_is_called_so(tmp_path: Path) -> None:
    archive_of(tmp_path / "kept")
    done = full(tmp_path / "kept", 0, tmp_path / "disk", "archive", "prune", "--keep", "0")
    assert done.returncode == 1
    assert "no room is left on its file system; free 1 MB there" in done.stderr
    assert "permissions" not in done.stderr


@pytest.mark.parametrize("room_bytes", [0, 8192])
def test_an_export_to_a_full_disk_says_so(tmp_path: Path, room_bytes: int) -> None:
    archive_of(tmp_path / "kept", samples=2000)
    place = tmp_path / "disk"
    done = full(tmp_path / "kept", room_bytes, place, "archive", "export", str(place / "out"))
    assert done.returncode == 1
    assert "no room is left on its file system; free some there" in done.stderr
    assert "exception" not in done.stderr


def test_a_database_that_is_held_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path)
    monkeypatch.setattr("howdah.archive.store._WAIT_S", 0)
    holder = sqlite3.connect(archive.root / FILE, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(HowdahError, match="another process has been writing to it"):
        prune(archive.inbox, older_than_s=0, keep=0)
    holder.close()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("PRAGMA user_version = 1", "it is damaged or not from howdah"),
        ("DROP TABLE records", "it is damaged or not from howdah"),
    ],
)
def test_a_database_without_its_tables_is_called_damaged(tmp_path: Path, sql: str, said: str) -> None:
    archive = archive_of(tmp_path)
    with sqlite3.connect(archive.root / FILE) as database:
        database.execute(sql)
    database.close()
    done = howdah("archive", "ls", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert said in done.stderr
    assert "permissions" not in done.stderr


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("CREATE TABLE songs (title TEXT)")
    database.close()
    with pytest.raises(HowdahError, match=r"runs.sqlite is not from howdah"):
        list(Archive(tmp_path).newest())
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("SELECT name FROM sqlite_schema").fetchall() == [("songs",)]
    database.close()


def test_a_merge_that_finds_no_room_leaves_no_part_of_a_list(tmp_path: Path) -> None:
    theirs = archive_of(tmp_path / "theirs", count=1)
    (only,) = theirs.newest()
    theirs.inbox.digests(only.id).write_bytes(b"ab  name\n" * 300_000)
    (tmp_path / "mine").mkdir()
    script = (
        'mount -t tmpfs -o size=1m none "$1"; place=$1; shift; "$@" || find "$place" -type f -printf "%f\\n"'
    )
    command = (sys.executable, "-m", "howdah", "archive", "merge", theirs.root)
    done = told(*ON, script, "sh", tmp_path / "mine", *command, data=tmp_path / "mine")
    assert "no room is left" in done.stderr
    assert done.stdout.split() == [FILE]
