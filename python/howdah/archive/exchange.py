"""Archives that travel: exported to a folder and imported from one, or merged as they are.

An exported folder holds ``runs.parquet``, a row a run with the columns of the table of runs and the record
without its samples as ``json``; ``traces/year=YYYY/month=MM/samples-N.parquet``; and ``digests/ID.b3sum``:
all that the archive knows of the runs.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import msgspec

from howdah import HowdahError, private
from howdah.archive import Inbox, parquet
from howdah.archive.columns import COLUMNS, NAMES
from howdah.archive.layout import FILE, Columns, pack, unpack
from howdah.archive.reading import batches, entry, ingest, kept_apart
from howdah.archive.store import Entry, Selection, Store
from howdah.text import count, no_room


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export."""

    folder: str
    runs: int
    size_bytes: int


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import."""

    new: int
    known: int
    """The runs that were here already."""
    unreadable: list[str]
    """The reasons for what was left out. It stays where it is."""


def export(inbox: Inbox, selection: Selection, destination: Path) -> Exported:
    """Writes the runs selected to a new folder, which appears whole. Raises HowdahError."""
    if os.path.lexists(destination):
        raise HowdahError(f"{destination} exists; export to a folder that does not exist yet")
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}")
    with Store(inbox.root) as store, _files():
        ingest(inbox, store)
        weighed = store.weighed(selection)
        if selection.sweep is not None and not weighed:
            raise HowdahError(
                f"no record of the sweep {selection.sweep!r} matches; list them with: howdah archive ls"
            )
        private.folder(temporary)
        try:
            _write(store, weighed, temporary)
            private.folder(temporary / "digests")
            _copy_digests(
                [run for run, _ in weighed],
                inbox.digests,
                lambda each: temporary / "digests" / f"{each}.b3sum",
            )
            temporary.rename(destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    size_bytes = sum(file.stat().st_size for file in destination.rglob("*") if file.is_file())
    return Exported(folder=str(destination), runs=len(weighed), size_bytes=size_bytes)


def import_(inbox: Inbox, folder: Path) -> Received:
    """Takes over what ``export`` wrote. Runs that are here already stay as they are. Raises HowdahError."""
    if not (folder / "runs.parquet").is_file():
        hint = "; it is an archive, merge it" if (folder / FILE).exists() else ""
        raise HowdahError(f"{folder} has no runs.parquet, so it is not an exported folder{hint}")
    return _receive(inbox, _exported(folder), lambda each: folder / "digests" / f"{each}.b3sum")


def merge(inbox: Inbox, other: Path) -> Received:
    """Takes over the runs of another archive, which stays as it is. Raises HowdahError."""
    theirs = Inbox(other)
    with _files():
        if not (other / FILE).is_file() and not theirs.files():
            hint = "; it is an exported folder, import it" if (other / "runs.parquet").exists() else ""
            raise HowdahError(f"{other} has no records, so it is not an archive{hint}")
        if inbox.root.exists() and inbox.root.samefile(other):
            raise HowdahError(f"{other} is this archive itself; name another")
    return _receive(inbox, _archived(theirs), theirs.digests)


_Found = Entry | HowdahError


def _receive(inbox: Inbox, found: Iterator[_Found], digests: Callable[[str], Path]) -> Received:
    new, known, unreadable = 0, 0, []
    with _files():
        private.folder(inbox.root)
    with Store(inbox.root, to_change=True) as store, _files():
        ingest(inbox, store)
        for batch in batches((each, each.samples if isinstance(each, Entry) else 0) for each in found):
            entries = [each for each in batch if isinstance(each, Entry)]
            unreadable += [str(each) for each in batch if not isinstance(each, Entry)]
            _copy_digests([each.id for each in entries], digests, inbox.digests)
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
                yield _readable(found.json, store.name(found.id), found.samples, found.trace)


def _exported(exported: Path) -> Iterator[_Found]:
    file = exported / "runs.parquet"
    runs = parquet.read_runs(file)
    texts = {run: text for run, _, text in runs}
    counts = {run: samples for run, samples, _ in runs}
    for month, of_month in groupby(counts.items(), lambda pair: _month(pair[0])):
        folder = exported / "traces" / month
        for ids in batches(of_month):
            traced = [run for run in ids if counts[run]]
            found: dict[str, Columns] = {}
            damaged = None
            try:
                found = parquet.read(sorted(folder.glob("*.parquet")), traced)
            except HowdahError as error:
                damaged = str(error)
            lacking = [run for run in traced if len(found.get(run, _NONE)["t_s"]) != counts[run]]
            if lacking:
                yield _left_out(lacking, folder, damaged)
            for run in sorted({*ids} - {*lacking}):
                trace = pack(found[run]) if counts[run] else None
                yield _readable(texts[run], f"{run} in {file}", counts[run], trace)


_NONE: Columns = {"t_s": ()}


def _left_out(runs: Sequence[str], folder: Path, damaged: str | None) -> HowdahError:
    """Imported without their samples, these runs would be there already when the samples are found."""
    reason = damaged or f"{folder} lacks samples of theirs; copy the exported folder again"
    return HowdahError(f"left out {count(len(runs), 'run')}, {', '.join(runs)}: {reason}, then import it")


def _readable(json: str, where: str, samples: int, trace: bytes | None) -> _Found:
    try:
        return kept_apart(json, where, samples, trace)
    except HowdahError as error:
        return error


def _write(store: Store, weighed: Sequence[tuple[str, int]], folder: Path) -> None:
    rows = []
    for month, of_month in groupby(weighed, lambda pair: _month(pair[0])):
        for number, ids in enumerate(batches(of_month)):
            entries = store.entries(ids)
            rows += [(*(each.row[name] for name in NAMES), each.samples, each.json) for each in entries]
            traced = [(each.id, unpack(each.trace)) for each in entries if each.trace is not None]
            if traced:
                private.folder(folder / "traces" / month)
                parquet.write(folder / "traces" / month / f"samples-{number}.parquet", traced)
    kinds = {column.name: column.kind for column in COLUMNS}
    parquet.write_runs(folder / "runs.parquet", {**kinds, "samples": int, "json": str}, rows)


def _month(record_id: str) -> Path:
    """The folder of a run's samples."""
    return Path(f"year={record_id[:4]}") / f"month={record_id[4:6]}"


def _copy_digests(ids: Sequence[str], source: Callable[[str], Path], target: Callable[[str], Path]) -> None:
    for each in ids:
        kept = target(each)
        if source(each).is_file() and not kept.exists():
            private.folder(kept.parent)
            temporary = kept.with_name(f".{each}.{os.getpid()}")
            try:
                private.create(temporary)
                shutil.copyfile(source(each), temporary)
                temporary.rename(kept)
            finally:
                temporary.unlink(missing_ok=True)


@contextmanager
def _files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise HowdahError(no_room(error.filename)) from None
        raise HowdahError(
            f"cannot read or write {error.filename}: {error.strerror}; check its permissions and room"
        ) from None
