"""The store: one SQLite file for the runs, their records and their traces, in the folder of the archive.

Each run comes and goes in one transaction, so a process killed at any moment leaves nothing half-done. The
rollback journal, unlike a write-ahead log, also works on a network file system.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from howdah import HowdahError, private
from howdah.archive.columns import NAMES, Value
from howdah.archive.layout import FILE, prepare

_WAIT_S = 60
"""The wait for another process that writes. It locks the database for one batch, some seconds at most."""
_PAGE = 500


class Entry(NamedTuple):
    """A record as the store takes it."""

    row: Mapping[str, Value]
    """The columns of the table of runs."""
    json: str
    """The record without its samples."""
    samples: int
    """How many samples the trace has."""
    trace: bytes | None
    """The samples, packed (``samples.py``); null where there are none."""

    @property
    def id(self) -> str:
        """The id of the record."""
        return str(self.row["id"])


class Selection(NamedTuple):
    """The runs to choose; null: any."""

    kind: str | None = None
    sweep: str | None = None
    since: str | None = None
    """The least id."""


_INSERT_RUN = (
    f"INSERT INTO runs ({', '.join((*NAMES, 'samples'))}) VALUES ({', '.join('?' * (len(NAMES) + 1))})"
)
_THESE = "(SELECT value FROM json_each(?))"
_SELECTED = """
    (:kind IS NULL OR kind = :kind) AND (:sweep IS NULL OR sweep = :sweep)
    AND (:since IS NULL OR id >= :since)
"""
_NEWEST = f"""
    SELECT id, json FROM records JOIN runs USING (id) WHERE {_SELECTED} AND id < :before
    ORDER BY id DESC LIMIT {_PAGE}
"""
_ENTRIES = f"""
    SELECT {", ".join(NAMES)}, json, samples, trace
    FROM runs JOIN records USING (id) LEFT JOIN traces USING (id) WHERE id IN {_THESE} ORDER BY id
"""


class Store:
    """The runs that have been taken in. Use it as a context; one that is not there yet is empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / FILE

    def __enter__(self) -> Self:
        with self._spoken():
            where = self.file if self.root.is_dir() else ":memory:"
            if where == self.file:
                private.close_to_others(self.root)
                # SQLite gives its journal the same rights.
                private.create(self.file)
            self.database = sqlite3.connect(where, timeout=_WAIT_S, isolation_level=None)
        try:
            with self._spoken():
                prepare(self.database, self.file)
        except BaseException:
            self.database.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.database.close()

    def ask(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query gives, all of them: an open one would hold writers up."""
        with self._spoken():
            return self.database.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Opens one transaction, with no other writer beside it."""
        with self._spoken():
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield self.database
                self.database.execute("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                raise

    def add(self, entries: Sequence[Entry]) -> int:
        """Takes records in and returns how many were new; one whose id is there already stays as it is."""
        with self.writing() as database:
            fresh = [entry for entry in _distinct(entries) if not self.has(entry.id)]
            database.executemany(
                _INSERT_RUN, [(*(entry.row[name] for name in NAMES), entry.samples) for entry in fresh]
            )
            database.executemany(
                "INSERT INTO records VALUES (?, ?)", [(each.id, each.json) for each in fresh]
            )
            traced = [(each.id, each.trace) for each in fresh if each.trace is not None]
            database.executemany("INSERT INTO traces VALUES (?, ?)", traced)
        return len(fresh)

    def has(self, record_id: str) -> bool:
        """Whether this run is there."""
        return bool(self.ask("SELECT 1 FROM runs WHERE id = ?", (record_id,)))

    def ids(self, beginning: str) -> list[str]:
        """The ids that begin so, sorted."""
        rows = self.ask(
            "SELECT id FROM runs WHERE id >= ? AND id < ? ORDER BY id", (beginning, f"{beginning}~")
        )
        return [run for (run,) in rows]

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """The entries with these ids, sorted by id."""
        rows = self.ask(_ENTRIES, (json.dumps(list(ids)),))
        return [Entry(dict(zip(NAMES, row, strict=False)), *row[len(NAMES) :]) for row in rows]

    def weighed(self, selection: Selection) -> list[tuple[str, int]]:
        """The ids selected and how many samples each has, sorted by id."""
        found = self.ask(f"SELECT id, samples FROM runs WHERE {_SELECTED} ORDER BY id", selection._asdict())
        return [(run, samples) for run, samples in found]

    def name(self, record_id: str) -> str:
        """The place of a record as people are told it."""
        return f"{record_id} in {self.file}"

    def newest(self, selection: Selection) -> Iterator[tuple[str, str]]:
        """Id and JSON of each record without its samples, the newest first."""
        before = "~"
        while True:
            page = self.ask(_NEWEST, {**selection._asdict(), "before": before})
            yield from page
            if len(page) < _PAGE:
                return
            before = page[-1][0]

    def traces(self, ids: Sequence[str]) -> dict[str, bytes]:
        """The packed samples of these runs, by id; a run without any is not in it."""
        return dict(self.ask(f"SELECT id, trace FROM traces WHERE id IN {_THESE}", (json.dumps(list(ids)),)))

    def sizes(self) -> dict[str, int]:
        """Bytes of each run, by id: its record and its trace."""
        return dict(
            self.ask(
                "SELECT id, length(CAST(json AS BLOB)) + ifnull(length(trace), 0) "
                "FROM records LEFT JOIN traces USING (id)"
            )
        )

    def remove(self, ids: Sequence[str]) -> None:
        """Removes these runs, and gives their room back to the file system."""
        with self.writing() as database:
            for table in ("traces", "records", "runs"):
                database.executemany(f"DELETE FROM {table} WHERE id = ?", [(each,) for each in ids])
        with self._spoken():
            # A script is stepped to its end, where a single statement would free one page.
            self.database.executescript("PRAGMA incremental_vacuum")

    def vacuum(self) -> None:
        """Writes the file anew, without any room that is not used."""
        self.ask("VACUUM")

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Turns what SQLite and the system say into one line."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise HowdahError(
                f"cannot use {self.file}: {error}; check its permissions and room, "
                "and that no other howdah has it open"
            ) from None
        except sqlite3.DatabaseError as error:
            raise HowdahError(
                f"{self.file} is damaged: {error}; move it away and import a copy: howdah archive merge"
            ) from None
        except OSError as error:
            raise HowdahError(
                f"cannot write {error.filename}: {error.strerror}; check its permissions and room"
            ) from None


def size_bytes(file: Path) -> int:
    """The size of a file; 0 when another process has removed it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _distinct(entries: Iterable[Entry]) -> list[Entry]:
    """The entries with one of each id, sorted."""
    return sorted({entry.id: entry for entry in entries}.values(), key=lambda entry: entry.id)
