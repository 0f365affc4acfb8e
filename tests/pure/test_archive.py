import concurrent.futures
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from samples import START, howdah, record, run

from howdah import HowdahError, archive
from howdah.archive import Archive, Unreadable
from howdah.archive.upkeep import Pruned, prune
from howdah.values.record import Record, dumps


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    store, saved = Archive(tmp_path), record()
    file = store.save(saved)
    assert file == tmp_path / "2026" / "01" / f"{saved.id}.json"
    assert store.load(saved.id) == saved
    assert store.load("last") == saved
    assert not file.exists()


def test_newest_first_and_last(tmp_path: Path) -> None:
    store = Archive(tmp_path)
    records = [record(after_s) for after_s in (0, 1, 86400 * 40)]
    for each in records:
        store.save(each)
    assert list(store.newest()) == records[::-1]
    assert store.load("last") == records[-1]
    assert store.load(records[0].id[:-3]) == records[0]


def test_a_beginning_of_several_ids_is_refused(tmp_path: Path) -> None:
    store = Archive(tmp_path)
    store.save(record(0))
    store.save(record(0.5))
    with pytest.raises(HowdahError, match="2 records begin with 2026"):
        store.load("2026")


def test_nothing_there(tmp_path: Path) -> None:
    store = Archive(tmp_path / "none")
    assert list(store.newest()) == []
    with pytest.raises(HowdahError, match="no record yet"):
        store.load("last")
    with pytest.raises(HowdahError, match="no record x"):
        store.load("x")


def test_an_unreadable_record_is_reported_and_the_rest_listed(tmp_path: Path) -> None:
    store, good = Archive(tmp_path), record()
    store.save(good)
    half, newer = record(1), record(2)
    store.save(half).write_bytes(dumps(half)[:100])
    store.save(newer).write_bytes(dumps(newer).replace(b'"schema": 1', b'"schema": 2', 1))
    later, broken, last = store.newest()
    assert isinstance(later, Unreadable)
    assert "schema 2" in later.problem
    assert isinstance(broken, Unreadable)
    assert "not JSON" in broken.problem
    assert str(store.inbox.file(half.id)) in broken.problem
    assert last == good
    assert store.inbox.files() == [store.inbox.file(each.id) for each in (half, newer)]
    with pytest.raises(HowdahError, match="schema 2"):
        store.load("last")


@pytest.mark.parametrize(
    ("field", "number", "said"),
    [
        ("outcome.bytes", -5, "key outcome.bytes: expected int >= 0"),
        (
            "outcome.streams.0.retransmissions",
            -1,
            "key outcome.streams[0].retransmissions: expected int >= 0",
        ),
        ("outcome.elapsed_s", -0.5, "key outcome.elapsed_s: expected float >= 0.0"),
        ("rtt_s", -1e-3, "key rtt_s: expected float >= 0.0"),
    ],
)
def test_a_record_with_a_number_that_cannot_be_is_refused(
    tmp_path: Path, field: str, number: float, said: str
) -> None:
    store, saved = Archive(tmp_path), run(1)
    file = store.save(saved)
    whole = place = msgspec.json.decode(file.read_bytes())
    *steps, last = field.split(".")
    for step in steps:
        place = place[int(step) if step.isdecimal() else step]
    place[last] = number
    file.write_bytes(msgspec.json.encode(whole))
    (refused,) = store.newest()
    assert isinstance(refused, Unreadable)
    assert refused.problem == f"{file} is not a record: {said}; move it out of the archive"
    listed = howdah("archive", "ls", XDG_DATA_HOME=str(tmp_path))
    assert "a bug in howdah" not in listed.stderr


def test_files_that_are_no_records_are_left_alone(tmp_path: Path) -> None:
    store, good = Archive(tmp_path), record()
    folder = store.save(good).parent
    (folder / "notes.json").write_text("{}")
    (folder / f".{good.id}.1").write_text("half")
    assert list(store.newest()) == [good]


def test_an_archive_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HowdahError, match=r"cannot keep the record in .*XDG_DATA_HOME"):
        Archive(tmp_path / "file" / "records").save(record())


def _inbox(store: Archive) -> list[Path]:
    return sorted(file for file in store.root.glob("2*/*/*") if file.is_file())


def _prune(store: Archive, older_than_s: float, keep: int, *, dry_run: bool = False) -> Pruned:
    return prune(store.inbox, older_than_s=older_than_s, keep=keep, dry_run=dry_run)


def test_what_is_pruned_is_older_and_beyond_the_newest(tmp_path: Path) -> None:
    now_s = (datetime.now(UTC) - START).total_seconds()
    days = (200, 100, 80, 1)
    for older_than_s, keep, left in ((90 * 86400, 0, 2), (0, 3, 3), (90 * 86400, 3, 3), (0, 0, 0), (0, 9, 4)):
        store = Archive(tmp_path / f"{older_than_s}-{keep}")
        records = [record(now_s - 86400 * age) for age in days]
        for each in records:
            store.save(each)
            store.inbox.digests(each.id).write_text("12345")
        size_bytes = sum(len(msgspec.json.encode(each)) + 5 for each in records[: 4 - left])
        expected = Pruned(ids=[each.id for each in records[: 4 - left]], size_bytes=size_bytes)
        assert _prune(store, older_than_s, keep, dry_run=True) == expected
        assert list(store.newest()) == records[::-1]
        assert len(_inbox(store)) == 4
        assert _prune(store, older_than_s, keep) == expected
        assert list(store.newest()) == records[: 3 - left : -1] if left < 4 else records[::-1]
        assert _inbox(store) == sorted(store.inbox.digests(each.id) for each in records[4 - left :])


def test_what_cannot_be_read_is_pruned_by_its_age_like_the_rest(tmp_path: Path) -> None:
    store, newer = Archive(tmp_path), record(1)
    store.save(record(0)).write_text("{")
    store.save(newer)
    assert len(_prune(store, 0, 1).ids) == 1
    assert list(store.newest()) == [newer]


def test_digests_without_a_record_are_pruned_once_nobody_writes_to_them(tmp_path: Path) -> None:
    store = Archive(tmp_path)
    at_work, killed = record(0), record(1)
    for each in (at_work, killed):
        digests = store.new_digests(each.id)
        assert digests is not None
    os.utime(digests, (0, 0))
    assert _prune(store, 0, 0).ids == [killed.id]
    assert _inbox(store) == [store.inbox.digests(at_work.id)]


def test_prune_says_what_it_removed_and_refuses_to_guess(tmp_path: Path) -> None:
    store = Archive(tmp_path / "howdah" / "records")
    ids = [store.save(record(after_s)).stem for after_s in (0, 1, 2)]
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    assert "give --older-than, --keep, or both" in howdah("archive", "prune", **environment).stderr
    assert "90" in howdah("archive", "prune", "--older-than", "90", **environment).stderr
    assert len(list(store.newest())) == 3
    would = howdah("archive", "prune", "--keep", "1", "--dry-run", "--json", **environment).stdout
    assert msgspec.json.decode(would, type=Pruned).ids == ids[:2]
    said = howdah("archive", "prune", "--keep", "1", **environment).stdout
    assert said.startswith("Removed 2 records, ")
    assert said.endswith(f", {ids[0]} to {ids[1]}\n")
    assert [each.id for each in store.newest()] == ids[2:]
    assert howdah("archive", "prune", "--older-than", "1d", "--keep", "1", **environment).stdout == (
        "Removed 0 records, 0 B\n"
    )


def _write_many(root: str, count: int) -> list[str]:
    store = Archive(Path(root))
    return [store.save(record()).stem for _ in range(count)]


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ids = [i for each in pool.map(_write_many, [str(tmp_path)] * 2, [100] * 2) for i in each]
    found = list(Archive(tmp_path).newest())
    assert sorted(ids) == sorted(each.id for each in found if isinstance(each, Record))
    assert len(found) == 200
    assert not list(tmp_path.rglob(".*"))


def test_default_root_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert archive.default_root() == tmp_path / "howdah" / "records"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert archive.default_root() == tmp_path / ".local/share/howdah/records"
