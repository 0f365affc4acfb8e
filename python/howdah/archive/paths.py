"""Paths: what the archive remembers of each, by one query.

A copy asks while ssh logs in. It must not wait for other processes, so it only reads: the database, and those
files of the inbox that are the newest. No samples are decoded.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from howdah import HowdahError, decoding
from howdah.archive import Inbox
from howdah.archive.columns import AMONG, Value, path_of, row
from howdah.archive.layout import FILE, LAYOUT, open_to_read
from howdah.values.carried import least_moving_s
from howdah.values.link import LinkSpec
from howdah.values.memory import Direction, PastCopy, PathMemory, recall
from howdah.values.outcome import Outcome
from howdah.values.record import SCHEMA, Record, id_instant

MOST = 100
"""The most copies of a path that are looked at, the newest ones."""

INBOX_MOST = 16
"""The most files of the inbox that a copy looks at, the newest ones."""

_WAIT_S = 0.02
"""The wait of a copy for a process that writes; then it goes without what the database has."""

_NEEDED = (
    *("id", "rtt_s", "rate_bps", "bytes", "late", "through_ssh", "limited", "failed"),
    *("carried_bps", "carried_by_path", "others", "address", "near_host"),
)
_COPIES = "kind = 'transfer' AND sweep IS NULL AND rate_bps IS NOT NULL"
_NEWEST = f"SELECT {', '.join(_NEEDED)} FROM runs WHERE {_COPIES} AND direction = :direction AND"
_OF_ONE = f"""
    SELECT * FROM ({_NEWEST} path = :path ORDER BY id DESC LIMIT {MOST})
    UNION ALL SELECT * FROM (
        {_NEWEST} path > :path || '{AMONG}' AND path < :path || '{AMONG}~' ORDER BY id DESC LIMIT {MOST}
    ) ORDER BY id DESC LIMIT {MOST}
"""
"""Rows of the path itself, and of the same one with others on it."""
_PATHS = f"""
    SELECT DISTINCT path, direction FROM runs WHERE {_COPIES} AND path IS NOT NULL AND direction IS NOT NULL
"""


class _Unsampled(Outcome, frozen=True, kw_only=True):
    samples: msgspec.Raw = msgspec.Raw(b"[]")  # type: ignore[assignment]


class _Brief(Record, frozen=True, kw_only=True):
    """A record whose samples are passed over: most of its bytes are theirs."""

    outcome: _Unsampled | None = None


def named(host: str, origin: str | None, link: dict[str, Any] | None) -> str | None:
    """The name of a path before the first byte; None in a lab whose link this version does not know."""
    try:
        return path_of(host, origin, None if link is None else decoding.from_plain(link, LinkSpec))
    except msgspec.ValidationError:
        return None


def copies(inbox: Inbox, path: str, direction: Direction, now: datetime | None = None) -> list[PastCopy]:
    """What the newest copies on a path carried, the newest first, as far as it can be had without waiting."""
    now = now or datetime.now(UTC)
    rows = {str(each["id"]): each for each in _from_database(inbox.root / FILE, path, direction)}
    for record in _from_inbox(inbox):
        made = row(record)
        plain = made["path"] is not None and str(made["path"]).partition(AMONG)[0] == path
        copied = made["kind"] == "transfer" and made["sweep"] is None and made["rate_bps"] is not None
        if plain and copied and made["direction"] == direction:
            rows[record.id] = made
    return list(_past((rows[each] for each in sorted(rows, reverse=True)), now))[:MOST]


def remembered(inbox: Inbox, now: datetime | None = None) -> list[PathMemory]:
    """What is remembered of each path, all of its routes together as that of its newest copy; by path."""
    from howdah.archive.reading import ingest  # noqa: PLC0415, what only reads does without
    from howdah.archive.store import Store  # noqa: PLC0415

    now = now or datetime.now(UTC)
    with Store(inbox.root) as store:
        ingest(inbox, store)
        found = []
        for path, direction in store.ask(_PATHS):
            values = {"path": path, "direction": direction}
            rows = [dict(zip(_NEEDED, each, strict=True)) for each in store.ask(_OF_ONE, values)]
            past = list(_past(rows, now))
            if past and (memory := recall(path, direction, past, past[0].rtt_s, past[0].address)):
                found.append(memory)
    return sorted(found, key=lambda each: (each.path, each.direction))


def take_in(inbox: Inbox) -> None:
    """Takes the inbox into the database where copies would soon look past some of it.

    So it does where the database is of an older layout, in which copies find nothing. Raises HowdahError.
    """
    if len(inbox.files()) > INBOX_MOST // 2 or _layout(inbox.root / FILE) not in {None, LAYOUT}:
        from howdah.archive.reading import ingest  # noqa: PLC0415
        from howdah.archive.store import Store  # noqa: PLC0415

        with Store(inbox.root, to_change=True) as store:
            ingest(inbox, store)


def _layout(file: Path) -> int | None:
    with suppress(sqlite3.Error), closing(open_to_read(file, _WAIT_S)) as database:
        (found,) = database.execute("PRAGMA user_version").fetchone()
        return int(found)
    return None


def _from_database(file: Path, path: str, direction: Direction) -> list[Mapping[str, Value]]:
    """The rows; none where there is no database, another layout's, a damaged one or one that is locked."""
    with suppress(sqlite3.Error), closing(open_to_read(file, _WAIT_S)) as database:
        if database.execute("PRAGMA user_version").fetchone() == (LAYOUT,):
            found = database.execute(_OF_ONE, {"path": path, "direction": direction}).fetchall()
            return [dict(zip(_NEEDED, each, strict=True)) for each in found]
    return []


def _from_inbox(inbox: Inbox) -> Iterator[Record]:
    """The newest records that are not in the database yet; what cannot be read is passed over."""
    for file in inbox.files()[-INBOX_MOST:]:
        with suppress(OSError, msgspec.MsgspecError, HowdahError):
            record = decoding.from_json(file.read_bytes(), _Brief)
            if record.schema == SCHEMA:
                yield record


def _past(rows: Iterable[Mapping[str, Any]], now: datetime) -> Iterator[PastCopy]:
    """Those of the copies that were whole, long enough and limited by nothing that the record names.

    Copies of another host, whose archive was merged, went another way.
    """
    here = os.uname().nodename
    for each in rows:
        rtt_s, rate_bps = each["rtt_s"], each["rate_bps"]
        if each["near_host"] not in (None, here):
            continue
        spoilt = each["failed"] or each["late"] or each["through_ssh"] or each["limited"]
        if spoilt or rtt_s is None or each["bytes"] * 8 / rate_bps < least_moving_s(rtt_s):
            continue
        yield PastCopy(
            age_s=max(0.0, (now - id_instant(each["id"])).total_seconds()),
            rtt_s=rtt_s,
            rate_bps=each["carried_bps"] or rate_bps,
            by_path=each["carried_by_path"] in (None, 1),
            others=None if each["others"] is None else bool(each["others"]),
            address=each["address"],
        )
