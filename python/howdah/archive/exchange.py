"""Archives that travel: exported to a folder and imported from one, or merged as they are.

An exported folder holds ``runs.parquet``, a row a run with the columns of the table of runs and the record
without its samples as ``json``; ``traces/year=YYYY/month=MM/samples.parquet``; and ``digests/ID.b3sum``: all
that the archive knows of the runs.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec

from howdah import HowdahError, private
from howdah.archive import parquet, traces
from howdah.archive.inbox import Inbox
from howdah.archive.schema import Row
from howdah.archive.store import FILE, Entry, Selection, Store, month
from howdah.archive.taking import batches, entry, take, without_samples


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    folder: str
    runs: int
    size_bytes: int


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken over."""

    new: int
    known: int
    """Runs that were here already."""
    unreadable: list[str]
    """Why each of the others could not be read; they stay where they are."""


def export(inbox: Inbox, selection: Selection, destination: Path) -> Exported:
    """Writes the runs selected to a new folder, which appears whole. Raises HowdahError."""
    if destination.exists():
        raise HowdahError(f"{destination} exists; export to a folder that is not there yet")
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}")
    with Store(inbox.root) as store, _files():
        take(inbox, store)
        ids = [run for run, _ in store.weighed(selection)]
        private.folder(temporary)
        try:
            _write_runs(store, ids, temporary / "runs.parquet")
            for folder, of_month in groupby(ids, month):
                with store.files_of(together := list(of_month)) as files:
                    if files:
                        private.folder(temporary / "traces" / folder)
                        traces.join(temporary / "traces" / folder / "samples.parquet", files, together)
            private.folder(temporary / "digests")
            _copy_digests(ids, inbox.digests, lambda each: temporary / "digests" / f"{each}.b3sum")
            temporary.rename(destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    size_bytes = sum(file.stat().st_size for file in destination.rglob("*") if file.is_file())
    return Exported(folder=str(destination), runs=len(ids), size_bytes=size_bytes)


def import_(inbox: Inbox, folder: Path) -> Received:
    """Takes over what ``export`` wrote. Runs that are here already stay as they are. Raises HowdahError."""
    if not (folder / "runs.parquet").is_file():
        hint = "; it is an archive, merge it" if (folder / FILE).exists() else ""
        raise HowdahError(f"{folder} has no runs.parquet, so it is no exported folder{hint}")
    return _receive(inbox, _exported(folder), lambda each: folder / "digests" / f"{each}.b3sum")


def merge(inbox: Inbox, other: Path) -> Received:
    """Takes over the runs of another archive, which stays as it is. Raises HowdahError."""
    theirs = Inbox(other)
    if not (other / FILE).is_file() and not theirs.files():
        hint = "; it is an exported folder, import it" if (other / "runs.parquet").exists() else ""
        raise HowdahError(f"{other} holds no records, so it is no archive{hint}")
    if inbox.root.exists() and inbox.root.samefile(other):
        raise HowdahError(f"{other} is this archive itself; name another")
    return _receive(inbox, _archived(theirs), theirs.digests)


_Found = Entry | HowdahError


def _receive(inbox: Inbox, found: Iterator[_Found], digests: Callable[[str], Path]) -> Received:
    new, known, unreadable = 0, 0, []
    private.folder(inbox.root)
    with Store(inbox.root) as store, _files():
        take(inbox, store)
        for batch in batches((each, each.samples_count if isinstance(each, Entry) else 0) for each in found):
            entries = [each for each in batch if isinstance(each, Entry)]
            unreadable += [str(each) for each in batch if not isinstance(each, Entry)]
            _copy_digests([each.row.id for each in entries], digests, inbox.digests)
            added = store.add(entries)
            new, known = new + added, known + len(entries) - added
    return Received(new=new, known=known, unreadable=unreadable)


def _archived(inbox: Inbox) -> Iterator[_Found]:
    # The inbox first: what another process takes in meanwhile is then found in the store.
    for file in inbox.files():
        try:
            yield entry(file.read_bytes(), str(file))
        except FileNotFoundError:
            continue
        except HowdahError as error:
            yield error
    if not (inbox.root / FILE).exists():
        return
    with Store(inbox.root) as store:
        for ids in batches(store.weighed(Selection())):
            for found in store.entries(ids):
                yield _readable(found.json, store.name(found.row.id), found.samples)


def _exported(exported: Path) -> Iterator[_Found]:
    file = exported / "runs.parquet"
    with parquet.engine() as engine:
        table = f"FROM read_parquet({parquet.text(file)}) ORDER BY id"
        weighed: list[tuple[str, int]] = engine.execute(f"SELECT id, samples {table}").fetchall()
        texts = dict(engine.execute(f"SELECT id, json {table}").fetchall())
    for folder, of_month in groupby(weighed, lambda pair: month(pair[0])):
        files = sorted((exported / "traces" / folder).glob("*.parquet"))
        for ids in batches(of_month):
            samples = traces.read(files, ids)
            for each in ids:
                yield _readable(texts[each], f"{each} in {file}", samples.get(each))


def _readable(json: str, where: str, samples: traces.Columns | None) -> _Found:
    try:
        return without_samples(json, where, samples)
    except HowdahError as error:
        return error


def _write_runs(store: Store, ids: Sequence[str], file: Path) -> None:
    rows = store.rows(ids)
    hints = {**get_type_hints(Row), "samples": int, "json": str}
    values = zip(*rows, strict=True) if rows else [()] * len(hints)
    table = {
        name: traces.column(column, get_args(hint)[0] if get_args(hint) else hint)
        for (name, hint), column in zip(hints.items(), values, strict=True)
    }
    private.create(file)
    with parquet.engine({"runs": table}) as engine:
        engine.execute(f"COPY (SELECT * FROM runs) TO {parquet.text(file)} {parquet.OPTIONS}")


def _copy_digests(ids: Sequence[str], source: Callable[[str], Path], target: Callable[[str], Path]) -> None:
    for each in ids:
        if source(each).is_file() and not target(each).exists():
            private.folder(target(each).parent)
            private.create(target(each))
            shutil.copyfile(source(each), target(each))


@contextmanager
def _files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HowdahError(
            f"cannot read or write {error.filename}: {error.strerror}; check its permissions and room"
        ) from None
