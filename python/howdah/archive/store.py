"""The store: one SQLite file for the runs, their records and their traces, in the folder of the archive.

Each run comes and goes in one transaction, so a process killed at any moment leaves nothing half-done. The
rollback journal, unlike a write-ahead log, also works on a network file system.

An archive that this user may only read, such as a mounted snapshot, is read where it lies. What would change
it for reading, records of the inbox or an older layout, is done to a copy that goes with the process.
"""

import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from howdah import HowdahError, private
from howdah.archive.columns import NAMES, Value
from howdah.archive.layout import FILE, is_present, open_to_read, prepare
from howdah.text import no_room

_WAIT_S = 60
"""The wait for another process that writes. It locks the database for one batch, some seconds at most."""
_PAGE = 500
_FEWER = 8
"""The factor by which a transaction is made smaller, where there is too little room for its journal."""


class NoRoom(HowdahError):
    """The file system of the archive is full."""


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
    """The runs that have been taken in. Use it as a context; one that is not there yet is empty.

    With ``to_change``, one that may only be read is refused.
    """

    def __init__(self, root: Path, *, to_change: bool = False) -> None:
        self.root = root
        self.file = root / FILE
        self._to_change = to_change

    def __enter__(self) -> Self:
        with self._spoken():
            found = self.root.is_dir()
            if not found and self.root.exists():
                raise HowdahError(f"{self.root} is no folder, so it is not an archive; give its folder")
            self.is_read_only = found and not _may_write(self.root, self.file)
            self._is_copy = not found
            if self.is_read_only and self._to_change:
                raise HowdahError(
                    f"cannot change the archive {self.root}: {_why_read_only(self.root)}; "
                    f"take its records over into one that you may change: howdah archive merge {self.root}"
                )
            self.database = self._opened() if found else _connected(":memory:")
        try:
            with self._spoken():
                if self.is_read_only and not is_present(self.database, self.file):
                    self._copy()
                leavings = prepare(self.database, self.file)
        except BaseException:
            self.database.close()
            raise
        if not self.is_read_only:
            # What is left behind by a death here is removed by ``howdah archive gc``.
            for each in leavings:
                with suppress(OSError):
                    each.unlink(missing_ok=True)
        return self

    def _opened(self) -> sqlite3.Connection:
        if self.is_read_only:
            if self.file.exists():
                return open_to_read(self.file, _WAIT_S)
            self._is_copy = True
            return _connected(":memory:")
        private.close_to_others(self.root)
        # SQLite gives its journal the same rights.
        private.create(self.file)
        return _connected(self.file)

    def _copy(self) -> None:
        """Goes on with a copy of the database, which SQLite keeps in memory or in a file without a name."""
        if self._is_copy:
            return
        kept, self.database = self.database, _connected("")
        try:
            kept.backup(self.database)
        finally:
            kept.close()
        self._is_copy = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.database.close()

    def ask(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query gives, all of them: an open one would make writers wait."""
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
        if self.is_read_only:
            with self._spoken():
                self._copy()
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

    def has_all(self, ids: Sequence[str]) -> bool:
        """Whether all of these runs are there."""
        ((found,),) = self.ask(f"SELECT count(*) FROM runs WHERE id IN {_THESE}", (json.dumps(list(ids)),))
        return bool(found == len({*ids}))

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
        """Removes these runs, and gives their room back to the file system.

        A transaction needs room for its journal. Where there is little, it is done in many small ones.
        """
        # Debian's SQLite overwrites what goes, and for that it keeps all of it in the journal.
        self.ask("PRAGMA secure_delete = FAST")
        done = 0
        while done < len(ids):
            left = ids[done:]
            done += _as_many_as_fit(len(left), partial(self._delete, left))
            self._shrink()

    def vacuum(self) -> None:
        """Writes the file anew, without any room that is not used; with little room, moves its pages."""
        try:
            self.ask("VACUUM")
        except NoRoom:
            self._shrink()

    def _delete(self, ids: Sequence[str], most: int) -> None:
        with self.writing() as database:
            for table in ("traces", "records", "runs"):
                database.executemany(f"DELETE FROM {table} WHERE id = ?", [(each,) for each in ids[:most]])

    def _shrink(self) -> None:
        unused = self._unused_pages()
        while unused:
            _as_many_as_fit(unused, self._give_back)
            before, unused = unused, self._unused_pages()
            if unused >= before:
                return  # Another process has removed more, or a howdah made it that asked for no room back.

    def _unused_pages(self) -> int:
        ((found,),) = self.ask("PRAGMA freelist_count")
        return int(found)

    def _give_back(self, pages: int) -> None:
        with self._spoken():
            # A script is stepped to its end, where a single statement would free one page.
            self.database.executescript(f"PRAGMA incremental_vacuum({pages})")

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Turns what SQLite and the system say into one line."""
        try:
            yield
        except sqlite3.Error as error:
            raise _in_words(self.file, error) from None
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _no_room(self.file) from None
            raise HowdahError(
                f"cannot open {error.filename}: {error.strerror}; check its permissions"
            ) from None


def _as_many_as_fit(most: int, work: Callable[[int], None]) -> int:
    """Does the work on as many as there is room for, at most ``most``; returns how many they were."""
    while True:
        try:
            work(most)
        except NoRoom:
            if most == 1:
                raise
            most = max(1, most // _FEWER)
        else:
            return most


def _connected(where: str | Path) -> sqlite3.Connection:
    return sqlite3.connect(where, timeout=_WAIT_S, isolation_level=None)


def _may_write(root: Path, file: Path) -> bool:
    """Whether this user may change the database. SQLite makes its journal beside it."""
    may = os.access(root, os.W_OK | os.X_OK, effective_ids=True)
    return may and (not file.exists() or os.access(file, os.W_OK, effective_ids=True))


def _why_read_only(root: Path) -> str:
    if os.statvfs(root).f_flag & os.ST_RDONLY:
        return "its file system is read-only"
    return "this user may read it and not write there"


def _no_room(file: Path) -> NoRoom:
    return NoRoom(no_room(file, "free 1 MB there, then remove old records: howdah archive prune"))


def _in_words(file: Path, error: sqlite3.Error) -> HowdahError:
    """What an error of SQLite means, and what to do."""
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return _no_room(file)
    copy = "move it away and import a copy: howdah archive merge"
    said = {
        sqlite3.SQLITE_BUSY: f"cannot use {file}: another process has been writing to it for {_WAIT_S} s; "
        "wait for it, or end it",
        sqlite3.SQLITE_READONLY: f"cannot write {file}: it may only be read; check its permissions, "
        "and that its file system is writable",
        sqlite3.SQLITE_CANTOPEN: f"cannot open {file}: {error}; "
        "check its permissions, and those of its folder",
        sqlite3.SQLITE_IOERR: f"cannot read or write {file}: {error}; check its disk, and the room there",
        sqlite3.SQLITE_CORRUPT: f"{file} is damaged: {error}; {copy}",
        sqlite3.SQLITE_NOTADB: f"{file} is damaged or not a database: {error}; {copy}",
    }
    said[sqlite3.SQLITE_LOCKED] = said[sqlite3.SQLITE_BUSY]
    said[sqlite3.SQLITE_PERM] = said[sqlite3.SQLITE_CANTOPEN]
    if extended == sqlite3.SQLITE_READONLY_ROLLBACK:
        return HowdahError(
            f"cannot read {file}: a process died while it wrote there, and this user may not put that right; "
            "copy the folder, and read the copy"
        )
    return HowdahError(
        said.get(code, f"cannot use {file}: {error}; it is damaged or not from howdah: {copy}")
    )


def size_bytes(file: Path) -> int:
    """The size of a file; 0 when another process has removed it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _distinct(entries: Iterable[Entry]) -> list[Entry]:
    """The entries with one of each id, sorted."""
    return sorted({entry.id: entry for entry in entries}.values(), key=lambda entry: entry.id)
