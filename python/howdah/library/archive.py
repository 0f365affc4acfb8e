"""The records of all runs as a person keeps them: listed, pruned, exported, taken over."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args, get_type_hints

from howdah.archive import Archive, Unreadable, exchange, upkeep
from howdah.archive.exchange import Exported, Received
from howdah.archive.paths import remembered
from howdah.archive.store import Selection
from howdah.archive.upkeep import Collected, Pruned
from howdah.arguments import BadArgument, check_one_of, check_within, typed
from howdah.bounds import Bounds
from howdah.library.ended import Name
from howdah.values.memory import PathMemory
from howdah.values.record import Record, id_time

__all__ = ["Received", "collect", "export", "import_", "merge", "paths", "prune", "records"]

_YEAR_S = 365.25 * 86_400
_AGE_S = Bounds(0, 100 * _YEAR_S, show=lambda age_s: f"{age_s / _YEAR_S:g} years")


@typed
def records(
    *,
    kind: str | None = None,
    sweep: str | None = None,
    newer_than_s: float | None = None,
    archive: Archive | None = None,
) -> Iterator[Record | Unreadable]:
    """The records of a kind, of a sweep, or of the last seconds, newest first and without their samples.

    Among them is whatever cannot be read, with the reason. Raises HowdahError for a kind that there is not.

    >>> from howdah.library import archive
    >>> copies = [each for each in archive.records(kind="transfer", newer_than_s=86400)]
    """
    return (archive or Archive()).newest(_selection(kind, sweep, newer_than_s))


@typed
def paths(archive: Archive | None = None) -> list[PathMemory]:
    """What is remembered of each path: what copies there carried, when, and how many they were.

    >>> from howdah.library import archive
    >>> rates = {(each.path, each.direction): each.rate_mid_bps for each in archive.paths()}
    """
    return remembered((archive or Archive()).inbox)


@typed
def prune(
    *,
    older_than_s: float | None = None,
    keep: int | None = None,
    dry_run: bool = False,
    archive: Archive | None = None,
) -> Pruned:
    """Removes the records older than so many seconds that are not among the newest ``keep``.

    Raises HowdahError where neither is given, and when a file cannot be removed.
    """
    if older_than_s is None and keep is None:
        raise BadArgument("choose the records to remove; give {older_than_s}, {keep}, or both")
    check_within("older_than_s", older_than_s, _AGE_S, mend="give for example 90 days")
    check_within("keep", keep, Bounds(0), mend="give how many records stay")
    inbox = (archive or Archive()).inbox
    return upkeep.prune(inbox, older_than_s=older_than_s or 0.0, keep=keep or 0, dry_run=dry_run)


@typed
def collect(archive: Archive | None = None) -> Collected:
    """Removes what belongs to no record. Raises HowdahError when a file cannot be removed."""
    return upkeep.collect((archive or Archive()).inbox)


@typed
def export(
    folder: Name,
    *,
    kind: str | None = None,
    sweep: str | None = None,
    newer_than_s: float | None = None,
    archive: Archive | None = None,
) -> Exported:
    """Writes the runs that ``records`` would list to a new folder of Parquet, which appears whole.

    Raises HowdahError as ``records`` does, and where the folder exists or cannot be written.
    """
    chosen = _selection(kind, sweep, newer_than_s)
    return exchange.export((archive or Archive()).inbox, chosen, Path(folder))


@typed
def import_(folder: Name, archive: Archive | None = None) -> Received:
    """Takes over the runs that ``export`` wrote; those that are here stay. Raises HowdahError."""
    return exchange.import_((archive or Archive()).inbox, Path(folder))


@typed
def merge(folder: Name, archive: Archive | None = None) -> Received:
    """Takes over the runs of another archive, which stays as it is. Raises HowdahError."""
    return exchange.merge((archive or Archive()).inbox, Path(folder))


def _selection(kind: str | None, sweep: str | None, newer_than_s: float | None) -> Selection:
    check_one_of("kind", kind, get_args(get_type_hints(Record)["kind"]), "a kind of record")
    check_within("newer_than_s", newer_than_s, _AGE_S, mend="leave it out for all")
    since = None if newer_than_s is None else id_time(datetime.now(UTC) - timedelta(seconds=newer_than_s))
    return Selection(kind=kind, sweep=sweep, since=since)
