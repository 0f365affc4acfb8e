"""Reading an archive: records go from the inbox into the store first, and then their files go."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from howdah import HowdahError, decoding
from howdah.archive import Inbox, Unreadable
from howdah.archive.columns import Value, row
from howdah.archive.layout import columns, pack, samples, unpack
from howdah.archive.store import Entry, Selection, Store, size_bytes
from howdah.arguments import BadArgument
from howdah.values.record import Record, loads

if TYPE_CHECKING:
    from howdah.archive.runs import Runs, Trace


_BATCH = 500
_BATCH_BYTES = 64 * 1024 * 1024
_BATCH_SAMPLES = 1_000_000
"""The most records, JSON and samples in one transaction: they bound the memory and how long others wait."""

T = TypeVar("T")


def ingest(inbox: Inbox, store: Store) -> list[Unreadable]:
    """Takes in all that can be read. What cannot stays and is named, the oldest first.

    Files of an archive that may only be read stay, too.
    """
    unreadable: list[Unreadable] = []
    for batch in batches(((file, size_bytes(file)) for file in inbox.files()), _BATCH_BYTES):
        entries: list[tuple[Path, Entry]] = []
        for file in batch:
            try:
                entries.append((file, entry(file.read_bytes(), str(file))))
            except FileNotFoundError:  # Another process has taken it.
                continue
            except OSError as error:
                unreadable.append(Unreadable(file.stem, file, f"{file} cannot be read: {error.strerror}"))
            except HowdahError as error:
                unreadable.append(Unreadable(file.stem, file, str(error)))
        if entries:
            store.add([each for _, each in entries])
        if not store.is_read_only:
            for file, _ in entries:
                file.unlink(missing_ok=True)
    return unreadable


def batches(weighed: Iterable[tuple[T, int]], most: int = _BATCH_SAMPLES) -> Iterator[list[T]]:
    """Groups items into lists of ``_BATCH`` at most that weigh ``most`` at most, or are one item."""
    batch: list[T] = []
    together = 0
    for each, weight in weighed:
        if batch and (len(batch) == _BATCH or together + weight > most):
            yield batch
            batch, together = [], 0
        batch.append(each)
        together += weight
    if batch:
        yield batch


def entry(text: bytes, where: str) -> Entry:
    """The record in ``text`` for the store; keys that this version does not know are kept.

    Raises HowdahError naming ``where`` when it is no record, or holds a number that no column does.
    """
    found = loads(text, where)
    whole = decoding.from_json(text, dict[str, msgspec.Raw])
    taken = found.outcome.samples if found.outcome else []
    if taken:
        outcome = decoding.from_json(whole["outcome"], dict[str, msgspec.Raw])
        del outcome["samples"]
        whole["outcome"] = msgspec.Raw(msgspec.json.encode(outcome))
    json = msgspec.json.format(msgspec.json.encode(whole), indent=-1).decode()
    try:
        trace = pack(columns(taken)) if taken else None
    except OverflowError:
        raise _too_big(where) from None
    return Entry(_row(found, where), json, len(taken), trace)


def kept_apart(json: str, where: str, count: int, trace: bytes | None) -> Entry:
    """An entry whose samples are packed already. Raises HowdahError as ``entry`` does."""
    return Entry(_row(loads(json.encode(), where), where), json, count, trace)


def record(json: str, where: str, trace: bytes | None = None) -> Record:
    """The record that an entry was made of. Raises HowdahError when this version cannot read it."""
    found = loads(json.encode(), where)
    if trace is None or found.outcome is None:
        return found
    outcome = msgspec.structs.replace(found.outcome, samples=samples(trace))
    return msgspec.structs.replace(found, outcome=outcome)


def _row(found: Record, where: str) -> Mapping[str, Value]:
    made = row(found)
    if any(isinstance(number, int) and number >= 2**63 for number in made.values()):
        raise _too_big(where)
    return made


def _too_big(where: str) -> HowdahError:
    return HowdahError(f"{where} holds a number beyond 64 bits; move it out of the archive")


_ANY = Selection()


def newest(inbox: Inbox, selection: Selection = _ANY) -> Iterator[Record | Unreadable]:
    """The records selected, without their samples, newest first, and among them what cannot be read."""
    with Store(inbox.root) as store:
        broken = reversed(ingest(inbox, store))
        kept = (_readable(store, *pair) for pair in store.newest(selection))
        yield from merge(broken, kept, key=attrgetter("id"), reverse=True)


def _readable(store: Store, record_id: str, json: str) -> Record | Unreadable:
    try:
        return record(json, store.name(record_id))
    except HowdahError as error:
        return Unreadable(record_id, store.file, str(error))


def load(inbox: Inbox, name: str) -> Record:
    """The whole record of this id, of the only id that begins so, or the newest one for ``last``."""
    if not name:
        raise BadArgument("{name} is empty; give an id or its beginning, or last")
    with Store(inbox.root) as store:
        broken = {each.id: each for each in ingest(inbox, store)}
        beginning = "" if name == "last" else name
        ids = sorted({*store.ids(beginning), *(each for each in broken if each.startswith(beginning))})
        if not ids:
            what = "no record yet" if name == "last" else f"no record {name}"
            raise HowdahError(f"{what} in {inbox.root}; list them with: howdah archive ls")
        if name == "last":
            ids = ids[-1:]
        if len(ids) > 1:
            raise HowdahError(
                f"{len(ids)} records begin with {name} ({ids[0]} to {ids[-1]}); give more of the id"
            )
        (found,) = ids
        if found in broken:
            raise HowdahError(broken[found].problem)
        (entry,) = store.entries(ids)
        return record(entry.json, store.name(found), entry.trace)


def newest_with_digests(inbox: Inbox) -> str | None:
    """The id of the newest record that has digests; None: none has."""
    with Store(inbox.root) as store:
        ingest(inbox, store)
        # A copy that has not ended has digests and no record yet.
        kept = (file.stem for file in reversed(inbox.files("b3sum")) if size_bytes(file))
        return next(filter(store.has, kept), None)


def runs(inbox: Inbox) -> "Runs":
    """Every run of one configuration that moved something, as columns."""
    # Analyses alone need arrays.
    from howdah.archive.runs import load as load_runs  # noqa: PLC0415

    with Store(inbox.root) as store:
        ingest(inbox, store)
        return load_runs(store, partial(traces, inbox))


def traces(inbox: Inbox, ids: Sequence[str]) -> "Mapping[str, Trace]":
    """The samples of these runs, by id; a run without any is not in it."""
    from howdah.archive.runs import trace  # noqa: PLC0415

    with Store(inbox.root) as store:
        # An analysis asks for one cell after the other.
        if not store.has_all(ids):
            ingest(inbox, store)
        return {run: trace(unpack(blob)) for run, blob in store.traces(ids).items()}
