"""The layout of ``runs.sqlite``, as the steps that lead to it; docs/archive.md describes the tables.

A step is never changed once released: a new layout is a new step at the end. ``PRAGMA user_version`` is
the number of steps that an archive has been through.
"""

import sqlite3
from typing import NamedTuple

from howdah import HowdahError, __version__

_FIRST = (
    """
    CREATE TABLE parts (
        part INTEGER PRIMARY KEY AUTOINCREMENT,
        file TEXT NOT NULL UNIQUE,
        samples INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('coming', 'here', 'going'))
    ) STRICT
    """,
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        sweep TEXT,
        repeat INTEGER,
        path TEXT,
        congestion_control TEXT,
        program INTEGER,
        streams INTEGER,
        buffer_bytes INTEGER,
        rtt_s REAL,
        rtt_emulated INTEGER,
        capacity_bps REAL,
        loss REAL,
        rate_bps REAL,
        elapsed_s REAL,
        bytes INTEGER,
        retransmissions INTEGER,
        late INTEGER NOT NULL,
        encrypted INTEGER,
        memory INTEGER,
        samples INTEGER NOT NULL,
        part INTEGER REFERENCES parts
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX runs_of_part ON runs (part)",
    "CREATE TABLE records (id TEXT PRIMARY KEY REFERENCES runs, json TEXT NOT NULL) STRICT",
    "CREATE TABLE columns (name TEXT PRIMARY KEY, type TEXT NOT NULL, data BLOB NOT NULL) STRICT",
    *(
        f"CREATE TRIGGER columns_after_{what} AFTER {what} ON runs BEGIN DELETE FROM columns; END"
        for what in ("insert", "update", "delete")
    ),
)

_CHANGED = (
    "ALTER TABLE runs ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
    # What a newer version had written was kept, but had no column.
    """
    UPDATE runs SET changed = 1 WHERE id IN (
        SELECT records.id FROM records, json_each(records.json, '$.outcome.changes') AS change
        WHERE change.value ->> '$.refused' IS NULL
    )
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _CHANGED)


class Row(NamedTuple):
    """The columns of ``runs`` but for those of its trace, in their order; null where unknown."""

    id: str
    kind: str
    sweep: str | None
    repeat: int | None
    path: str | None
    congestion_control: str | None
    program: bool | None
    streams: int | None
    buffer_bytes: int | None
    rtt_s: float | None
    rtt_emulated: bool | None
    capacity_bps: float | None
    loss: float | None
    rate_bps: float | None
    elapsed_s: float | None
    bytes: int | None
    retransmissions: int | None
    late: bool
    encrypted: bool | None
    memory: bool | None
    changed: bool


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Brings the database to the layout of this version; two processes may do so at once.

    Raises HowdahError when a newer version made it.
    """
    if _steps_done(connection, where) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[_steps_done(connection, where) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _steps_done(connection: sqlite3.Connection, where: str) -> int:
    (done,) = connection.execute("PRAGMA user_version").fetchone()
    if done > len(MIGRATIONS):
        raise HowdahError(
            f"{where} has layout {done}, howdah {__version__} reads up to {len(MIGRATIONS)}; "
            "upgrade: pip install --upgrade howdah"
        )
    return int(done)
