"""Taking in: nothing is lost or double, whoever is killed and however many do it at once."""

import itertools
import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import howdah, record, run, sample

from howdah import HowdahError
from howdah.archive import Archive, Unreadable, layout, parquet
from howdah.archive import columns as columns_table
from howdah.archive.columns import Column, row
from howdah.archive.layout import FILE, columns, unpack
from howdah.archive.reading import batches, entry
from howdah.archive.reading import record as readable
from howdah.archive.runs import Trace
from howdah.archive.store import Selection, Store
from howdah.archive.upkeep import collect, prune
from howdah.values.link import symmetric
from howdah.values.listened import HeardThen, Listened
from howdah.values.memory import Carried
from howdah.values.outcome import Change, Sample
from howdah.values.record import Record, Swept, dumps

FAR_APART_S = 40 * 86400
MOVED = Change(t_s=5.0, congestion_control="bbr", streams=1, why="")
COUNTS = st.integers(0, 2**63 - 1)
TIMES = st.floats(0, 1e6)
SAMPLES = st.builds(
    Sample,
    t_s=TIMES,
    stream=COUNTS,
    bytes_acked=COUNTS,
    cwnd=COUNTS,
    ssthresh=st.none() | COUNTS,
    rtt_s=TIMES,
    min_rtt_s=TIMES,
    retransmissions=COUNTS,
    delivery_rate_bps=TIMES,
    pacing_rate_bps=st.none() | TIMES,
    notsent_bytes=COUNTS,
)


def traced(after_s: float, samples: int = 5) -> Record:
    return run(after_s, samples=[sample(t / 10, t % 2) for t in range(samples)])


def whole(archive: Archive) -> list[Record]:
    """Every record with its samples, oldest first."""
    ids = [each.id for each in archive.newest()]
    with Store(archive.root) as store:
        return [readable(entry.json, entry.id, entry.trace) for entry in store.entries(ids)]


def traces(archive: Archive) -> list[tuple[str, int]]:
    """What another reader of the database finds: the id of each trace and how many samples it has."""
    with sqlite3.connect(archive.root / FILE) as database:
        found = database.execute("SELECT id, trace FROM traces ORDER BY id").fetchall()
    database.close()
    return [(each, len(json.loads(zlib.decompress(blob))["t_s"])) for each, blob in found]


def expected_traces(records: list[Record]) -> list[tuple[str, int]]:
    counts = [(each.id, len(each.outcome.samples) if each.outcome else 0) for each in records]
    return sorted((each, count) for each, count in counts if count)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(SAMPLES, max_size=4), max_size=4))
def test_what_is_taken_in_comes_back_whole(
    tmp_path_factory: pytest.TempPathFactory, samples: list[list[Sample]]
) -> None:
    archive = Archive(tmp_path_factory.mktemp("archive"))
    records = [run(i * FAR_APART_S, samples=each) for i, each in enumerate(samples)]
    for each in records:
        archive.save(each)
    assert [archive.load(each.id) for each in records] == records
    if records:
        assert traces(archive) == expected_traces(records)
    assert archive.inbox.files() == []


def test_every_key_of_a_sample_has_a_column() -> None:
    assert set(Trace._fields) == set(Sample.__struct_fields__)
    assert set(columns([sample(0, 0)])) == set(Sample.__struct_fields__)


def test_keys_of_a_newer_version_are_kept(tmp_path: Path) -> None:
    archive, made = Archive(tmp_path), traced(0)
    file = archive.save(made)
    document = msgspec.json.decode(file.read_bytes())
    document |= {"novel": {"x": [1, None]}}
    document["outcome"]["odd"] = 0.5
    file.write_bytes(msgspec.json.encode(document))
    assert archive.load("last") == made
    del document["outcome"]["samples"]
    with Store(tmp_path) as store:
        (entry,) = store.entries([made.id])
    assert msgspec.json.decode(entry.json) == document


def test_a_number_that_no_column_holds_stays_in_the_inbox(tmp_path: Path) -> None:
    archive, good = Archive(tmp_path), record(9)
    big = [run(0, samples=[sample(0, 0, bytes_acked=2**63)]), run(1, rate_bps=8e19)]
    for each in (*big, good):
        archive.save(each)
    found, *problems = archive.newest()
    assert found == good
    for problem in problems:
        assert isinstance(problem, Unreadable)
        assert "beyond 64 bits" in problem.problem
    assert [file.stem for file in archive.inbox.files()] == [each.id for each in big]


KILLED_AT = """
import os, signal, sys
from pathlib import Path
import duckdb, numpy
from howdah.archive import Archive, layout, parquet, reading, runs, store, upkeep

STEPS = {"execute", "executemany", "register", "rename", "unlink", "fsync", "mkdir"}

def job(root):
    inbox = Archive(root).inbox
    reading.runs(inbox) if sys.argv[1] == "take" else upkeep.collect(inbox)

def dying_at(step):
    seen = 0
    def watch(frame, event, function):
        nonlocal seen
        if event == "c_call" and function.__name__ in STEPS:
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
    return watch

for step, root in enumerate(map(str.strip, sys.stdin), start=1):
    child = os.fork()
    if not child:
        sys.setprofile(dying_at(step))
        job(Path(root))
        sys.setprofile(None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
"""Does the job on one archive after the other, in a child that is killed before the next step each time."""


def killed_everywhere(template: Archive, job: str, records: list[Record], tmp_path: Path) -> int:
    """At how many steps the job was killed; each time the archive must hold the records, once."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_AT, job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for killed in itertools.count():
            archive = Archive(tmp_path / str(killed))
            shutil.copytree(template.root, archive.root)
            child.stdin.write(f"{archive.root}\n")
            child.stdin.flush()
            code = int(child.stdout.readline())
            archive.runs()
            assert whole(archive) == records
            assert traces(archive) == expected_traces(records)
            assert archive.inbox.files() == []
            if code == 0:
                child.stdin.close()
                return killed
            assert code == -9
    raise AssertionError


def test_killed_at_any_step_of_taking_in_nothing_is_lost_or_double(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "template")
    first, *more = records = [traced(-9), traced(0), record(1), traced(FAR_APART_S)]
    archive.save(first)
    assert len(archive.runs()) == 1
    for each in more:
        archive.save(each)
    assert killed_everywhere(archive, "take", records, tmp_path) > 15


def test_killed_at_any_step_of_tidying_up_nothing_is_lost_or_double(tmp_path: Path) -> None:
    archive, records = Archive(tmp_path / "template"), [traced(0), traced(1), traced(2)]
    for number, each in enumerate(records, start=1):
        archive.save(each)
        assert len(archive.runs()) == number
    assert killed_everywhere(archive, "collect", records, tmp_path) >= 5


OLD_LAYOUT = """
    CREATE TABLE parts (
        part INTEGER PRIMARY KEY AUTOINCREMENT, file TEXT NOT NULL UNIQUE, samples INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('coming', 'here', 'going'))
    ) STRICT;
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, sweep TEXT, repeat INTEGER, path TEXT,
        congestion_control TEXT, program INTEGER, streams INTEGER, buffer_bytes INTEGER,
        rtt_s REAL, rtt_emulated INTEGER,
        capacity_bps REAL, loss REAL, rate_bps REAL, elapsed_s REAL, bytes INTEGER, retransmissions INTEGER,
        late INTEGER NOT NULL, encrypted INTEGER, memory INTEGER, samples INTEGER NOT NULL,
        part INTEGER REFERENCES parts
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX runs_of_part ON runs (part);
    CREATE TABLE records (id TEXT PRIMARY KEY REFERENCES runs, json TEXT NOT NULL) STRICT;
    CREATE TABLE columns (name TEXT PRIMARY KEY, type TEXT NOT NULL, data BLOB NOT NULL) STRICT;
    CREATE TRIGGER columns_after_insert AFTER INSERT ON runs BEGIN DELETE FROM columns; END;
    CREATE TRIGGER columns_after_update AFTER UPDATE ON runs BEGIN DELETE FROM columns; END;
    CREATE TRIGGER columns_after_delete AFTER DELETE ON runs BEGIN DELETE FROM columns; END;
"""
"""The first layout, as it was; the second has the column ``changed`` as well."""
OLD_COLUMNS = (
    *("id", "kind", "sweep", "repeat", "path", "congestion_control", "program", "streams", "buffer_bytes"),
    *("rtt_s", "rtt_emulated", "capacity_bps", "loss", "rate_bps", "elapsed_s", "bytes", "retransmissions"),
    *("late", "encrypted", "memory"),
)


def of_old_layout(root: Path, records: list[Record], layout: int) -> Archive:
    """An archive as it was when Parquet held the traces; one of its files was hidden, another was to go."""
    (month := root / "traces" / "year=2026" / "month=01").mkdir(parents=True)
    taken = [entry(dumps(each), each.id) for each in records]
    packed = [(each.id, unpack(each.trace)) for each in taken if each.trace is not None]
    for file, traced in (("here", packed[:1]), ("coming", packed[1:]), ("going", packed[:1])):
        name = {"here": "0", "coming": "1", "going": "2"}[file] * 16 + ".parquet"
        parquet.write(month / (f".{name}.part" if file == "coming" else name), traced)
    with sqlite3.connect(root / FILE) as database:
        database.executescript(OLD_LAYOUT)
        names = list(OLD_COLUMNS)
        if layout == 2:
            database.execute("ALTER TABLE runs ADD COLUMN changed INTEGER NOT NULL DEFAULT 0")
            names.append("changed")
        for number, state in enumerate(("here", "coming", "going")):
            where = f"year=2026/month=01/{str(number) * 16}.parquet"
            database.execute("INSERT INTO parts VALUES (?, ?, 5, ?)", (number + 1, where, state))
        parts = {run: 1 if number == 0 else 2 for number, (run, _) in enumerate(packed)}
        for each in taken:
            values = (*(each.row[name] for name in names), each.samples, parts.get(each.id))
            named = ", ".join((*names, "samples", "part"))
            places = ", ".join("?" * len(values))
            database.execute(f"INSERT INTO runs ({named}) VALUES ({places})", values)  # noqa: S608
            database.execute("INSERT INTO records VALUES (?, ?)", (each.id, each.json))
        database.execute(f"PRAGMA user_version = {layout}")
    database.close()
    return Archive(root)


@pytest.mark.parametrize("layout", [1, 2])
def test_an_archive_with_traces_in_parquet_is_taken_over(tmp_path: Path, layout: int) -> None:
    changed = msgspec.structs.replace(
        traced(1), outcome=msgspec.structs.replace(traced(1).outcome, changes=[MOVED])
    )
    records = [traced(0), changed, record(2), traced(3, samples=9)]
    archive = of_old_layout(tmp_path, records, layout)
    assert archive.runs().id.tolist() == [records[0].id, records[3].id]
    assert whole(archive) == records
    assert traces(archive) == expected_traces(records)
    assert not list(tmp_path.rglob("*.parquet*"))


def test_killed_at_any_step_of_taking_an_old_layout_over_nothing_is_lost(tmp_path: Path) -> None:
    records = [traced(0), traced(1), record(2)]
    archive = of_old_layout(tmp_path / "template", records, 2)
    assert killed_everywhere(archive, "take", records, tmp_path) > 15


WRITES_AND_TAKES = """
import sys
import zlib
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_archive_store import traced
from howdah.archive import Archive, upkeep
archive = Archive(Path(sys.argv[1]))
for after_s in range(12):
    archive.save(traced(after_s))
    archive.runs() if after_s % 4 else upkeep.collect(archive.inbox)
"""


def test_two_that_write_take_in_and_tidy_up_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WRITES_AND_TAKES, str(tmp_path), str(Path(__file__).parent)]
    both = [subprocess.Popen(argv) for _ in range(2)]
    assert [each.wait(120) for each in both] == [0, 0]
    archive = Archive(tmp_path)
    records = whole(archive)
    assert len(records) == 24
    assert all(each.outcome is not None and len(each.outcome.samples) == 5 for each in records)
    assert traces(archive) == expected_traces(records)


@given(st.lists(st.integers(0, 9), max_size=2000), st.integers(1, 3000))
def test_batches_hold_all_in_order_and_are_as_large_as_may_be(weights: list[int], most: int) -> None:
    found = list(batches(enumerate(weights), most))
    assert [each for batch in found for each in batch] == list(range(len(weights)))
    sums = [sum(weights[each] for each in batch) for batch in found]
    for batch, together in zip(found, sums, strict=True):
        assert len(batch) == 1 or (together <= most and len(batch) <= 500)
    for batch, together, after in zip(found, sums, found[1:], strict=False):
        assert len(batch) == 500 or together + weights[after[0]] > most


FULL = """
import resource, signal, sys
from howdah.__main__ import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv = ["howdah", "archive", "ls"]
main()
"""


@pytest.mark.parametrize("room_bytes", [0, 40_000, 120_000])
def test_without_room_nothing_is_lost_and_it_says_so(tmp_path: Path, room_bytes: int) -> None:
    archive = Archive(tmp_path / "howdah" / "records")
    # Sines, because they do not compress.
    made = run(0, samples=[sample(t / 10, 0, rtt_s=abs(math.sin(t))) for t in range(20_000)])
    archive.save(made)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(room_bytes)],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("howdah: cannot ")
    assert done.stderr.count("\n") == 1
    assert archive.inbox.files() == [archive.inbox.file(made.id)]
    assert whole(archive) == [made]
    assert traces(archive) == expected_traces([made])


def test_a_selection_is_by_sweep(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    swept = [
        run(i, sweep=Swept(id=f"{name} 1", name=name, cell="", repeat=0)) for i, name in enumerate("aba")
    ]
    for each in (*swept, run(7)):
        archive.save(each)
    assert list(archive.newest(Selection(sweep="a"))) == [swept[2], swept[0]]


def test_a_selection_is_by_kind_and_time(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    links = [msgspec.structs.replace(record(10 * i), kind="link") for i in range(3)]
    for each in (*links, run(5)):
        archive.save(each)
    assert list(archive.newest(Selection(kind="link"))) == links[::-1]
    assert list(archive.newest(Selection(kind="link", since=links[1].id))) == links[:0:-1]


def test_pruning_takes_the_samples_as_well(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    records = [traced(i - 5, samples=2000) for i in range(4)]
    for each in records:
        archive.save(each)
    assert len(archive.runs()) == 4
    before = (tmp_path / FILE).stat().st_size
    pruned = prune(archive.inbox, older_than_s=0, keep=1)
    assert pruned.ids == [each.id for each in records[:3]]
    assert before - (tmp_path / FILE).stat().st_size >= 0.7 * pruned.size_bytes
    assert whole(archive) == records[3:]
    assert traces(archive) == expected_traces(records[3:])


def test_leavings_go_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    archive, made = Archive(tmp_path), traced(0)
    archive.save(made)
    assert len(archive.runs()) == 1
    month = tmp_path / "traces" / "year=2026" / "month=01"
    month.mkdir(parents=True)
    leavings = [month / ("0" * 16 + ".parquet"), month / ("." + "1" * 16 + ".parquet.part")]
    for each in leavings:
        each.write_bytes(bytes(1000))
    notes = month / "notes.txt"
    notes.write_text("mine")
    collected = collect(archive.inbox)
    assert collected.leavings == 2
    assert collected.freed_bytes >= 2000
    assert notes.exists()
    assert not any(each.exists() for each in leavings)
    assert whole(archive) == [made]


def test_an_archive_of_a_newer_layout_is_refused_and_still_written_to(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "howdah" / "records")
    archive.save(record(0))
    assert len(list(archive.newest())) == 1
    with sqlite3.connect(archive.root / "runs.sqlite") as database:
        database.execute("PRAGMA user_version = 99999")
    database.close()
    file = archive.save(record(1))
    done = howdah("archive", "ls", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "has layout 99999" in done.stderr
    assert done.stderr.count("\n") == 1
    assert file.exists()


def test_a_new_column_is_filled_from_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, made = Archive(tmp_path), traced(0)
    archive.save(made)
    assert len(archive.runs()) == 1
    novel = Column("block_bytes", int, "plan.block_bytes")
    more = (*columns_table.COLUMNS, novel)
    for module in (columns_table, layout):
        monkeypatch.setattr(module, "COLUMNS", more)
    monkeypatch.setattr(layout, "LAYOUT", layout.LAYOUT + 1)
    assert made.plan is not None
    with Store(tmp_path) as store:
        assert store.ask("SELECT block_bytes FROM runs") == [(made.plan.block_bytes,)]
        assert store.ask("PRAGMA user_version") == [(layout.LAYOUT,)]
    assert whole(archive) == [made]
    broken = Column("other", int, "plan.block_bytes) VALUES (")
    monkeypatch.setattr(layout, "COLUMNS", (*more, broken._replace(name="no SQL")))
    monkeypatch.setattr(layout, "LAYOUT", layout.LAYOUT + 1)
    with pytest.raises(HowdahError, match="cannot use"), Store(tmp_path):
        pass
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (layout.LAYOUT - 1,)
        assert "no SQL" not in str(database.execute("SELECT sql FROM sqlite_schema").fetchall())
    database.close()


def test_every_column_is_found_in_a_whole_record() -> None:
    link = symmetric(10**9, 10**8)
    heard = HeardThen(t_s=1.0, background="1 bbr", probability=0.9)
    made = msgspec.structs.replace(
        run(0, buffer_bytes=4096, link=link, sweep=Swept(id="a 1", name="a", cell="", repeat=0)),
        address="192.0.2.7",
        near_host="dtn1",
        carried=Carried(rate_bps=1e9, held_by="path"),
        listened=Listened(by="icmp", fairness=0.5, heard=[heard]),
    )
    assert {name for name, value in row(made).items() if value is None} == set()


@pytest.mark.parametrize("what", ["garbage", "folder"])
def test_a_damaged_database_is_one_line(tmp_path: Path, what: str) -> None:
    root = tmp_path / "howdah" / "records"
    root.mkdir(parents=True)
    database = root / "runs.sqlite"
    database.mkdir() if what == "folder" else database.write_bytes(b"nothing that SQLite wrote" * 100)
    done = howdah("archive", "ls", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert str(database) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_record_with_another_keys_value_is_named_where_it_lies(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    made = record(0)
    archive.save(made)
    assert len(list(archive.newest())) == 1
    newer = dumps(made).replace(b'"schema": 1', b'"schema": 2', 1).decode()
    with sqlite3.connect(tmp_path / "runs.sqlite") as database:
        database.execute("UPDATE records SET json = ?", (newer,))
    database.close()
    (found,) = archive.newest()
    assert isinstance(found, Unreadable)
    assert f"{made.id} in {tmp_path / 'runs.sqlite'} is a record of schema 2" in found.problem
