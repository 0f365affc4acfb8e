"""The store: SQLite for runs, Parquet for their traces, below the folder of the archive.

SQLite decides what is so. A Parquet file is written hidden, then one transaction names it beside its
runs as ``coming``, then it gets its name and is ``here``; one that is no longer wanted is ``going`` until it
is removed. A process killed in between leaves a state that the next one finishes, so nothing is lost or
double. Its rollback journal, unlike a write-ahead log, also works on a network file system.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from howdah import HowdahError, private
from howdah.archive import parquet, traces
from howdah.archive.schema import Row, migrate

FILE = "runs.sqlite"
_WAIT_S = 60
"""For another process that writes: it holds the database for one batch, some seconds at most."""
_PAGE = 500


class Entry(NamedTuple):
    """A record as the store takes it."""

    row: Row
    json: str
    """The record without its samples."""
    samples: traces.Columns | None
    """None: it has none."""

    @property
    def samples_count(self) -> int:
        """How many samples."""
        return 0 if self.samples is None else len(self.samples["sample"])


class Selection(NamedTuple):
    """Which runs; null: any."""

    kind: str | None = None
    sweep: str | None = None
    since: str | None = None
    """The least id."""


class Part(NamedTuple):
    """One Parquet file."""

    part: int
    file: str
    samples: int
    state: str


_INSERT_RUN = (
    f"INSERT INTO runs ({', '.join((*Row._fields, 'samples', 'part'))}) "
    f"VALUES ({', '.join('?' * (len(Row._fields) + 2))})"
)
_ROWS = f"""
    SELECT {", ".join(Row._fields)}, samples, json FROM runs JOIN records USING (id)
    WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""
_SELECTED = """
    (:kind IS NULL OR kind = :kind) AND (:sweep IS NULL OR sweep = :sweep)
    AND (:since IS NULL OR id >= :since)
"""
_WEIGHED = f"SELECT id, samples FROM runs WHERE {_SELECTED} ORDER BY id"
_NEWEST = f"""
    SELECT id, json FROM records JOIN runs USING (id) WHERE {_SELECTED} AND id < :before
    ORDER BY id DESC LIMIT {_PAGE}
"""
_PARTS_OF_RUNS = """
    SELECT DISTINCT file, state FROM runs JOIN parts USING (part)
    WHERE id IN (SELECT value FROM json_each(?)) ORDER BY file
"""


class Store:
    """The runs that have been taken in. Use it as a context; one that is not there yet is empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / FILE
        self.traces = root / "traces"

    def __enter__(self) -> Self:
        where = self.file if self.root.is_dir() else ":memory:"
        with self._spoken():
            if self.root.is_dir():
                private.close_to_others(self.root)
                # SQLite gives its journal the same rights.
                private.create(self.file)
            self.database = sqlite3.connect(where, timeout=_WAIT_S, isolation_level=None)
        try:
            with self._spoken():
                self.database.execute("PRAGMA foreign_keys = ON")
                migrate(self.database, str(self.file))
                self.finish()
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
        """One transaction, with no other writer beside it."""
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
        """Takes records in; one whose id is there already is there already. How many were new."""
        with self.writing() as database:
            fresh = [entry for entry in _distinct(entries) if not self.has(entry.row.id)]
            for folder, of_month in groupby(fresh, lambda entry: month(entry.row.id)):
                together = list(of_month)
                traced = [(entry.row.id, entry.samples) for entry in together if entry.samples is not None]
                part = None
                if traced:
                    part = self.new_part(folder, partial(traces.write, runs=traced))
                database.executemany(_INSERT_RUN, [_values(entry, part) for entry in together])
            database.executemany(
                "INSERT INTO records (id, json) VALUES (?, ?)", [(e.row.id, e.json) for e in fresh]
            )
        self.finish()
        return len(fresh)

    def new_part(self, folder: Path, write: Callable[[Path], int]) -> int:
        """Inside a transaction: a file for traces in the folder of a month, hidden until it is over."""
        file = folder / f"{os.urandom(8).hex()}.parquet"
        hidden = _hidden(self.traces / file)
        private.folder(hidden.parent)
        try:
            samples = write(hidden)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        made = self.database.execute(
            "INSERT INTO parts (file, samples, state) VALUES (?, ?, 'coming') RETURNING part",
            (str(file), samples),
        )
        return int(made.fetchone()[0])

    def has(self, record_id: str) -> bool:
        """True when this run has been taken in."""
        return bool(self.ask("SELECT 1 FROM runs WHERE id = ?", (record_id,)))

    def ids(self, beginning: str) -> list[str]:
        """Those that begin so, sorted."""
        rows = self.ask(
            "SELECT id FROM runs WHERE id >= ? AND id < ? ORDER BY id", (beginning, f"{beginning}~")
        )
        return [run for (run,) in rows]

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """What was taken in under these ids, sorted by id, samples and all."""
        rows = self.rows(ids)
        samples = self.samples([row[0] for row in rows if row[-2]])
        return [Entry(Row(*row[:-2]), row[-1], samples.get(row[0])) for row in rows]

    def rows(self, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """The columns of Row, the number of samples, and the record without them; sorted by id."""
        return self.ask(_ROWS, (json.dumps(list(ids)),))

    def weighed(self, selection: Selection) -> list[tuple[str, int]]:
        """The ids selected and how many samples each has, sorted by id."""
        return [(run, samples) for run, samples in self.ask(_WEIGHED, selection._asdict())]

    def name(self, record_id: str) -> str:
        """What a person is told where a record is."""
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

    def samples(self, ids: Sequence[str]) -> dict[str, traces.Columns]:
        """The samples of these runs by id; of those that have any."""
        if not ids:
            return {}
        with self.files_of(ids) as files:
            return traces.read(files, ids)

    @contextmanager
    def files_of(self, ids: Sequence[str]) -> Iterator[list[Path]]:
        """The Parquet files that hold samples of these runs; inside, no other process takes them away."""
        with self._spoken():
            while True:
                self.finish()
                self.database.execute("BEGIN")
                found = self.database.execute(_PARTS_OF_RUNS, (json.dumps(list(ids)),)).fetchall()
                if all(state == "here" for _, state in found):
                    break
                self.database.execute("COMMIT")
            try:
                yield [self.traces / file for file, _ in found]
            finally:
                self.database.execute("COMMIT")

    def parts(self) -> list[Part]:
        """All Parquet files."""
        return [Part(*row) for row in self.ask("SELECT part, file, samples, state FROM parts ORDER BY file")]

    def sizes(self) -> dict[str, int]:
        """Bytes of each run, by id: its record, and its share of the file that holds its trace."""
        rows = self.ask(
            "SELECT id, length(CAST(json AS BLOB)), file, runs.samples * 1.0 / parts.samples "
            "FROM runs JOIN records USING (id) LEFT JOIN parts USING (part)"
        )
        files = {part.file: size_bytes(self.traces / part.file) for part in self.parts()}
        return {run: text + round(files[file] * share if file else 0) for run, text, file, share in rows}

    def live_samples(self) -> dict[int, int]:
        """How many samples in each part are of runs that are still there."""
        return dict(self.ask("SELECT part, sum(samples) FROM runs WHERE part IS NOT NULL GROUP BY part"))

    def ids_of_parts(self, parts: Sequence[int]) -> list[str]:
        """The runs whose traces they hold."""
        rows = self.ask(
            "SELECT id FROM runs WHERE part IN (SELECT value FROM json_each(?)) ORDER BY id",
            (json.dumps(list(parts)),),
        )
        return [run for (run,) in rows]

    def replace_parts(self, parts: Sequence[int], new: int | None) -> None:
        """Inside a transaction: what was in ``parts`` is in ``new``, and they go."""
        for part in parts:
            self.ask("UPDATE runs SET part = ? WHERE part = ?", (new, part))
            self.ask("UPDATE parts SET state = 'going' WHERE part = ?", (part,))

    def remove(self, ids: Sequence[str]) -> None:
        """Forgets these runs; their samples stay in the files until those are rewritten."""
        with self.writing() as database:
            for table in ("records", "runs"):
                database.executemany(f"DELETE FROM {table} WHERE id = ?", [(each,) for each in ids])

    def vacuum(self) -> None:
        """Gives the room of what was removed back."""
        self.ask("VACUUM")

    def finish(self) -> None:
        """Does what a transaction said would be done: names for files that come, an end to those that go."""
        waiting = [Part(*row) for row in self.ask("SELECT * FROM parts WHERE state != 'here'")]
        if not waiting:
            return
        with self._spoken():
            for part in waiting:
                if part.state == "going":
                    (self.traces / part.file).unlink(missing_ok=True)
            for part in waiting:
                if part.state == "coming":
                    _show(self.traces / part.file)
        with self.writing() as database:
            database.executemany(
                "UPDATE parts SET state = 'here' WHERE part = ? AND state = 'coming'",
                [(part.part,) for part in waiting],
            )
            database.executemany(
                "DELETE FROM parts WHERE part = ? AND state = 'going'", [(part.part,) for part in waiting]
            )

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Turns what SQLite and the system say into one line."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise HowdahError(
                f"cannot use {self.file}: {error}; check its permissions and room, "
                "and that no other howdah holds it"
            ) from None
        except sqlite3.DatabaseError as error:
            raise HowdahError(
                f"{self.file} is damaged: {error}; move it away and take in a copy: howdah archive merge"
            ) from None
        except OSError as error:
            raise HowdahError(
                f"cannot write {error.filename}: {error.strerror}; check its permissions and room"
            ) from None


def size_bytes(file: Path) -> int:
    """Of a file; 0 when another process has removed it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _distinct(entries: Iterable[Entry]) -> list[Entry]:
    """One of each id, sorted."""
    return sorted({entry.row.id: entry for entry in entries}.values(), key=lambda entry: entry.row.id)


def month(record_id: str) -> Path:
    """The folder of a run's trace."""
    return Path(f"year={record_id[:4]}") / f"month={record_id[4:6]}"


def _values(entry: Entry, part: int | None) -> tuple[Any, ...]:
    return (*entry.row, entry.samples_count, part if entry.samples_count else None)


def _hidden(file: Path) -> Path:
    return file.with_name(f".{file.name}.part")


def _show(file: Path) -> None:
    with suppress(FileNotFoundError):  # Another process has done it.
        _hidden(file).rename(file)
    with suppress(FileNotFoundError):
        parquet.flush(file)
