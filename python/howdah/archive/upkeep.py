"""Keeping an archive small: old records are removed on request, leavings always."""

import re
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from howdah import HowdahError, private
from howdah.archive import Inbox
from howdah.archive.reading import ingest
from howdah.archive.store import NoRoom, Store, size_bytes
from howdah.values.record import id_time

_LEFT_BEHIND_S = 86400
"""A file that nobody holds or has written to for so long is of a copy that was killed."""

_PARQUET = re.compile(r"\.?[0-9a-f]{16}\.parquet(\.part)?")
_TEMPORARY = re.compile(r"\.\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}\.\d+")


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that were removed, or would be."""

    ids: list[str]
    """The runs, oldest first."""
    size_bytes: int


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The leavings that were removed."""

    leavings: int
    """Files that belonged to no record."""
    freed_bytes: int


def prune(inbox: Inbox, *, older_than_s: float, keep: int, dry_run: bool = False) -> Pruned:
    """Removes what is older and not among the newest ``keep`` records, digests included.

    Raises HowdahError when a file cannot be removed.
    """
    until = id_time(datetime.now(UTC) - timedelta(seconds=older_than_s))
    with Store(inbox.root, to_change=not dry_run) as store:
        _take_in(inbox, store)
        # The inbox first: what another process takes in meanwhile is then found in the store.
        waiting = {file.stem: file for file in inbox.files()}
        sizes = {each: size_bytes(file) for each, file in waiting.items()} | store.sizes()
        ordered = sorted(sizes)
        ids = [each for each in ordered[: max(0, len(ordered) - keep)] if each < until]
        kept_digests = {file.stem: file for file in inbox.files("b3sum")}
        stray = [each for each in _stray_digests(inbox, sizes) if each.stem < until]
        digests = [kept_digests[each] for each in ids if each in kept_digests] + stray
        freed_bytes = sum(sizes[each] for each in ids) + sum(map(size_bytes, digests))
        if not dry_run:
            # Files need no room to go, and on a full disk they leave some for SQLite's journal.
            _remove([*(waiting[each] for each in ids if each in waiting), *digests])
            store.remove(ids)
    return Pruned(ids=sorted({*ids, *(each.stem for each in stray)}), size_bytes=freed_bytes)


def collect(inbox: Inbox) -> Collected:
    """Removes what belongs to no record, and gives the room in SQLite that is not used back.

    Raises HowdahError when a file cannot be removed.
    """
    with Store(inbox.root, to_change=True) as store:
        _take_in(inbox, store)
        before = _whole_size(inbox.root)
        with store.writing():
            leavings = _parquet_of_an_older_layout(inbox)
            # The inbox first, as above.
            recorded = {file.stem for file in inbox.files()}
            leavings += _stray_digests(inbox, recorded.union(store.ids("")))
            leavings += _half_written(inbox)
            _remove(leavings)
        store.vacuum()
        freed_bytes = before - _whole_size(inbox.root)
    return Collected(leavings=len(leavings), freed_bytes=max(0, freed_bytes))


def _take_in(inbox: Inbox, store: Store) -> None:
    """Takes records in as far as there is room; who calls makes some."""
    with suppress(NoRoom):
        ingest(inbox, store)


def _parquet_of_an_older_layout(inbox: Inbox) -> list[Path]:
    """Traces that are in the database now; a process was killed before it could remove them."""
    return [file for file in inbox.root.glob("traces/year=*/month=*/*") if _PARQUET.fullmatch(file.name)]


def _stray_digests(inbox: Inbox, recorded: Collection[str]) -> list[Path]:
    return [file for file in inbox.files("b3sum") if file.stem not in recorded and _left_behind(file)]


def _half_written(inbox: Inbox) -> list[Path]:
    found = inbox.root.glob("[0-9]*/[0-9]*/.*")
    return [file for file in found if _TEMPORARY.fullmatch(file.name) and _left_behind(file)]


def _left_behind(file: Path) -> bool:
    try:
        # A copy that is paused writes nothing.
        return time.time() - file.stat().st_mtime > _LEFT_BEHIND_S and not private.is_held(file)
    except OSError:
        return False


def _whole_size(root: Path) -> int:
    return sum(size_bytes(file) for file in root.rglob("*") if file.is_file())


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise HowdahError(f"cannot remove {file}: {error.strerror}; check its permissions") from None
