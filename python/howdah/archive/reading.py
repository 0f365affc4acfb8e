"""Reading an archive. Whatever lies in its inbox is taken into the store first."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

from howdah import HowdahError
from howdah.archive.inbox import Inbox, Unreadable
from howdah.archive.ingest import ingest, record
from howdah.archive.samples import unpack
from howdah.archive.store import Selection, Store, size_bytes
from howdah.values.record import Record

if TYPE_CHECKING:
    from howdah.archive.runs import Runs
    from howdah.archive.traces import Trace

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
    from howdah.archive.traces import trace  # noqa: PLC0415

    with Store(inbox.root) as store:
        # An analysis asks for one cell after the other.
        if not store.has_all(ids):
            ingest(inbox, store)
        return {run: trace(unpack(blob)) for run, blob in store.traces(ids).items()}
