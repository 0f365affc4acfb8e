"""What is read from an archive; whatever lies in its inbox is taken into the store before."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from operator import attrgetter

from howdah import HowdahError
from howdah.archive import columns
from howdah.archive import traces as tracing
from howdah.archive.inbox import Inbox, Unreadable
from howdah.archive.runs import Runs
from howdah.archive.store import Selection, Store
from howdah.archive.taking import record, take
from howdah.values.record import Record

_ANY = Selection()


def newest(inbox: Inbox, selection: Selection = _ANY) -> Iterator[Record | Unreadable]:
    """The records selected, without their samples, newest first, and among them what cannot be read."""
    with Store(inbox.root) as store:
        broken = reversed(take(inbox, store))
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
        broken = {each.id: each for each in take(inbox, store)}
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
        return record(entry.json, store.name(found), entry.samples)


def runs(inbox: Inbox) -> Runs:
    """Every run of one configuration that moved something, as columns."""
    with Store(inbox.root) as store:
        take(inbox, store)
        return columns.load(store, partial(traces, inbox))


def traces(inbox: Inbox, ids: Sequence[str]) -> Mapping[str, tracing.Trace]:
    """The samples of these runs, by id; a run without any is not in it."""
    with Store(inbox.root) as store:
        take(inbox, store)
        return {run: tracing.trace(found) for run, found in store.samples(ids).items()}
