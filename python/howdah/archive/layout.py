"""The layout of ``runs.sqlite`` and how an older one is brought to it; docs/archive.md describes the tables.

``PRAGMA user_version`` numbers it: a thousand for each step of the tables, one for each column of runs.
Layouts 1 and 2 kept traces as Parquet beside the database; before 4000 no index led from a path to its runs.

The samples of one run are one compressed blob: their columns as a JSON object of equally long lists,
compressed by zlib. Columns compress far better than rows, and anybody can read them without howdah. Eight
streams sampled for 60 s take some 29 B a sample; binary columns with their bytes transposed took 30.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from howdah import HowdahError, __version__, decoding
from howdah.archive.columns import COLUMNS, NAMES, row
from howdah.text import INSTALL
from howdah.values.outcome import Sample
from howdah.values.record import loads

Columns = Mapping[str, Sequence[Any]]
"""The keys of a Sample, each with its values in the order in which they were taken; null where unknown."""


def columns(samples: Sequence[Sample]) -> Columns:
    """The samples of one run, at least one, by column."""
    values = zip(*map(msgspec.structs.astuple, samples), strict=True)
    return dict(zip(Sample.__struct_fields__, values, strict=True))


def pack(columns: Columns) -> bytes:
    """The blob of these columns. Raises OverflowError when a count is beyond 64 bits."""
    for values in columns.values():
        if any(isinstance(value, int) and value >= 2**63 for value in values):
            raise OverflowError
    return zlib.compress(msgspec.json.encode(columns))


def unpack(blob: bytes) -> Columns:
    """The columns in a blob."""
    return decoding.from_json(zlib.decompress(blob), dict[str, list[Any]])


def samples(blob: bytes) -> list[Sample]:
    """The samples in a blob."""
    found = unpack(blob)
    rows = zip(*found.values(), strict=True)
    return decoding.from_plain([dict(zip(found, row, strict=True)) for row in rows], list[Sample])


FILE = "runs.sqlite"

LAYOUT = 4000 + len(COLUMNS)
_BESIDE_PARQUET = 2
_INDEXED = 4000
_BATCH = 500

_INDEX = (
    "CREATE INDEX runs_by_path ON runs (path, direction, id) "
    "WHERE kind = 'transfer' AND sweep IS NULL AND rate_bps IS NOT NULL"
)
_TABLES = (
    f"CREATE TABLE runs ({', '.join(each.sql for each in COLUMNS)}, samples INTEGER NOT NULL, "
    "PRIMARY KEY (id)) STRICT, WITHOUT ROWID",
    "CREATE TABLE records (id TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT",
    "CREATE TABLE traces (id TEXT PRIMARY KEY, trace BLOB NOT NULL) STRICT",
    "CREATE TABLE columns (name TEXT PRIMARY KEY, type TEXT NOT NULL, data BLOB NOT NULL) STRICT",
    *(
        f"CREATE TRIGGER columns_after_{what} AFTER {what} ON runs BEGIN DELETE FROM columns; END"
        for what in ("insert", "update", "delete")
    ),
)


def open_to_read(file: Path, wait_s: float) -> sqlite3.Connection:
    """The database, which is not written to; other processes that write are waited for as long as this."""
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=ro", timeout=wait_s, isolation_level=None, uri=True
    )


def is_present(database: sqlite3.Connection, file: Path) -> bool:
    """Whether the database has the layout of this version. Raises HowdahError when a newer one made it."""
    return _layout(database, file) == LAYOUT


def prepare(database: sqlite3.Connection, file: Path) -> list[Path]:
    """Brings the database to the layout of this version; two processes may do so at once.

    Returns the files that are not needed any more. Raises HowdahError when a newer version made it.
    """
    if is_present(database, file):
        return []
    # Only an empty database can still be told how it gives room back.
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("BEGIN IMMEDIATE")
    try:
        layout = _layout(database, file)
        parquet: list[Path] = []
        if layout == 0:
            if database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
                raise HowdahError(f"{file} is not from howdah; move it away")
            _make(database)
        elif layout <= _BESIDE_PARQUET:
            parquet = _from_parquet(database, file.parent / "traces")
        _add_columns(database)
        if layout < _INDEXED:
            database.execute(_INDEX)
        database.execute(f"PRAGMA user_version = {LAYOUT}")
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    return parquet


def _layout(database: sqlite3.Connection, file: Path) -> int:
    (found,) = database.execute("PRAGMA user_version").fetchone()
    if found > LAYOUT:
        raise HowdahError(
            f"{file} has layout {found}, howdah {__version__} reads up to {LAYOUT}; "
            f"install a newer one {INSTALL}"
        )
    return int(found)


def _make(database: sqlite3.Connection) -> None:
    for statement in _TABLES:
        database.execute(statement)


def _add_columns(database: sqlite3.Connection) -> None:
    """Adds what the table of runs lacks, from the records."""
    there = {name for _, name, *_ in database.execute("PRAGMA table_info(runs)")}
    missing = [column for column in COLUMNS if column.name not in there]
    for column in missing:
        database.execute(f"ALTER TABLE runs ADD COLUMN {column.sql}")
    _fill(database, [column.name for column in missing])


def _fill(database: sqlite3.Connection, names: list[str]) -> None:
    if not names:
        return
    update = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in names)} WHERE id = ?"
    for run, text in database.execute("SELECT id, json FROM records").fetchall():
        # A record of a newer schema keeps what it has.
        with suppress(HowdahError):
            values = row(loads(text.encode(), run))
            database.execute(update, (*(values[name] for name in names), run))


def _from_parquet(database: sqlite3.Connection, folder: Path) -> list[Path]:
    """Takes layouts 1 and 2 over; returns their files of traces, which are not needed any more."""
    from howdah.archive import parquet  # noqa: PLC0415

    # A part that is going has been written anew as another; its samples would be there twice.
    parts = database.execute("SELECT file, state FROM parts").fetchall()
    files = [_there(folder / file) for file, state in parts if state != "going"]
    there = {name for _, name, *_ in database.execute("PRAGMA table_info(runs)")}
    kept = [name for name in (*NAMES, "samples") if name in there]
    for trigger in ("insert", "update", "delete"):
        database.execute(f"DROP TRIGGER columns_after_{trigger}")
    database.execute("DROP TABLE columns")
    for table in ("runs", "records"):
        database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    _make(database)
    database.execute(f"INSERT INTO runs ({', '.join(kept)}) SELECT {', '.join(kept)} FROM old_runs")
    database.execute("INSERT INTO records SELECT id, json FROM old_records")
    _fill(database, [name for name in NAMES if name not in there])
    traced = [run for (run,) in database.execute("SELECT id FROM runs WHERE samples > 0 ORDER BY id")]
    for ids in _batches(traced):
        for run, columns in parquet.read(files, ids).items():
            database.execute("INSERT INTO traces VALUES (?, ?)", (run, pack(columns)))
    for table in ("old_records", "old_runs", "parts"):
        database.execute(f"DROP TABLE {table}")
    return [*files, *(folder / file for file, _ in parts)]


def _there(file: Path) -> Path:
    """A file of traces, which is hidden until its transaction is known to be over."""
    return file if file.exists() else file.with_name(f".{file.name}.part")


def _batches(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _BATCH):
        yield ids[start : start + _BATCH]
