"""What keeps an archive small: old records go on request, leavings go, small files of traces are joined."""

import re
import time
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec

from howdah import HowdahError
from howdah.archive import traces
from howdah.archive.inbox import Inbox
from howdah.archive.store import Part, Store, size_bytes
from howdah.archive.taking import take
from howdah.values.record import id_time

_LEFT_BEHIND_S = 86400
"""What nobody has written to for so long is of a copy that was killed; others may be of one at work."""

_SMALL_BYTES = 64 * 1024 * 1024
_JOINED_BYTES = 256 * 1024 * 1024
"""Joined at a time: others wait meanwhile."""

_PARQUET = re.compile(r"\.?([0-9a-f]{16}\.parquet)(\.part)?")
_TEMPORARY = re.compile(r"\.\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}\.\d+")


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, or would be."""

    ids: list[str]
    """Of the runs, oldest first."""
    size_bytes: int
    """A trace counts with its share of the file that it is in."""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What was tidied up."""

    leavings: int
    """Files that belonged to no record."""
    joined: int
    """Files of traces that were joined, or rewritten without runs that are gone."""
    freed_bytes: int


def prune(inbox: Inbox, *, older_than_s: float, keep: int, dry_run: bool = False) -> Pruned:
    """Removes what is older and not among the newest ``keep`` records, digests included.

    Raises HowdahError when a file cannot be removed.
    """
    until = id_time(datetime.now(UTC) - timedelta(seconds=older_than_s))
    with Store(inbox.root) as store:
        broken = {each.id: each.file for each in take(inbox, store)}
        sizes = {each: size_bytes(file) for each, file in broken.items()} | store.sizes()
        ordered = sorted(sizes)
        ids = [each for each in ordered[: max(0, len(ordered) - keep)] if each < until]
        kept_digests = {file.stem: file for file in inbox.files("b3sum")}
        stray = [each for each in _stray_digests(inbox, sizes) if each.stem < until]
        digests = [kept_digests[each] for each in ids if each in kept_digests] + stray
        freed_bytes = sum(sizes[each] for each in ids) + sum(map(size_bytes, digests))
        if not dry_run:
            store.remove([each for each in ids if each not in broken])
            _remove([*(broken[each] for each in ids if each in broken), *digests])
            _rewrite(store, join_small=False)
    return Pruned(ids=sorted({*ids, *(each.stem for each in stray)}), size_bytes=freed_bytes)


def collect(inbox: Inbox) -> Collected:
    """Removes what belongs to no record, joins small files of traces, and gives room in SQLite back.

    Raises HowdahError when a file cannot be removed.
    """
    with Store(inbox.root) as store:
        broken = take(inbox, store)
        before = _whole_size(inbox.root)
        with store.writing():
            leavings = _forgotten_parts(store)
            leavings += _stray_digests(inbox, {*store.ids(""), *(each.id for each in broken)})
            leavings += _half_written(inbox)
            _remove(leavings)
        joined = _rewrite(store, join_small=True)
        store.vacuum()
        freed_bytes = before - _whole_size(inbox.root)
    return Collected(leavings=len(leavings), joined=joined, freed_bytes=max(0, freed_bytes))


def _forgotten_parts(store: Store) -> list[Path]:
    """Parquet that no transaction names; to be asked inside one, when nobody else is writing any."""
    named = {store.traces / part.file for part in store.parts()}
    found = []
    for file in store.traces.glob("year=*/month=*/*"):
        name = _PARQUET.fullmatch(file.name)
        if name and file.with_name(name[1]) not in named:
            found.append(file)
    return found


def _stray_digests(inbox: Inbox, recorded: Collection[str]) -> list[Path]:
    return [file for file in inbox.files("b3sum") if file.stem not in recorded and _left_behind(file)]


def _half_written(inbox: Inbox) -> list[Path]:
    found = inbox.root.glob("[0-9]*/[0-9]*/.*")
    return [file for file in found if _TEMPORARY.fullmatch(file.name) and _left_behind(file)]


def _left_behind(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime > _LEFT_BEHIND_S
    except FileNotFoundError:
        return False


def _rewrite(store: Store, *, join_small: bool) -> int:
    """Writes files of traces anew that hold runs which are gone, and joins small ones; how many."""
    store.finish()
    rewritten = 0
    for month in sorted({Path(part.file).parent for part in store.parts()}):
        while True:
            with store.writing():
                parts = _worth_rewriting(store, month, join_small=join_small)
                if parts:
                    _join(store, month, parts)
            store.finish()
            rewritten += len(parts)
            if not parts:
                break
    return rewritten


def _worth_rewriting(store: Store, month: Path, *, join_small: bool) -> list[Part]:
    live = store.live_samples()
    here = [part for part in store.parts() if Path(part.file).parent == month and part.state == "here"]
    with_dead = [part for part in here if live.get(part.part, 0) < part.samples]
    if with_dead or not join_small:
        return with_dead
    small, together_bytes = [], 0
    for part in here:
        found_bytes = size_bytes(store.traces / part.file)
        if found_bytes < _SMALL_BYTES and together_bytes + found_bytes < _JOINED_BYTES:
            small.append(part)
            together_bytes += found_bytes
    return small if len(small) > 1 else []


def _join(store: Store, month: Path, parts: list[Part]) -> None:
    """Inside a transaction: one file in place of several."""
    ids = store.ids_of_parts([part.part for part in parts])
    new = None
    if ids:
        files = [store.traces / part.file for part in parts]
        new = store.new_part(month, partial(traces.join, parts=files, ids=ids))
    store.replace_parts([part.part for part in parts], new)


def _whole_size(root: Path) -> int:
    return sum(size_bytes(file) for file in root.rglob("*") if file.is_file())


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise HowdahError(f"cannot remove {file}: {error.strerror}; check its permissions") from None
