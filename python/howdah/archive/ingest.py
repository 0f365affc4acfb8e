"""Ingest: records go from the inbox into the store first, and then their files go."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from howdah import HowdahError
from howdah.archive.columns import Value, row
from howdah.archive.inbox import Inbox, Unreadable
from howdah.archive.samples import columns, pack, samples
from howdah.archive.store import Entry, Store, size_bytes
from howdah.values.record import Record, loads

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
    whole = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    taken = found.outcome.samples if found.outcome else []
    if taken:
        outcome = msgspec.json.decode(whole["outcome"], type=dict[str, msgspec.Raw])
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
