"""The place where records live: ``$XDG_DATA_HOME/howdah/records``.

A record is written as one JSON file (``inbox``), which needs no lock and no library. Whoever reads the
archive takes such files into SQLite first (``ingest``, ``store``). docs/archive.md describes the layout.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from howdah.archive.inbox import Inbox, Unreadable
from howdah.arguments import typed
from howdah.values.record import Record

if TYPE_CHECKING:
    from howdah.archive.runs import Runs
    from howdah.archive.store import Selection
    from howdah.archive.traces import Trace

__all__ = ["Archive", "Unreadable", "default_root"]


def default_root() -> Path:
    """``$XDG_DATA_HOME/howdah/records``, by default ``~/.local/share/howdah/records``."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    base = Path(data) if data.startswith("/") else Path.home() / ".local/share"
    return base / "howdah" / "records"


class Archive:
    """The records under one folder. Whatever cannot be read or written raises HowdahError.

    A copy writes one record and reads none, so what reads is imported only when asked to.
    """

    @typed
    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = default_root() if root is None else Path(root)
        self.inbox = Inbox(self.root)

    def save(self, record: Record) -> Path:
        """Adds a record and returns its file."""
        return self.inbox.save(record)

    def new_digests(self, record_id: str) -> Path | None:
        """An empty file for the digests of what a run moves; None when it cannot be made."""
        return self.inbox.new_digests(record_id)

    def newest(self, selection: "Selection | None" = None) -> Iterator[Record | Unreadable]:
        """The records selected, without their samples, newest first, and among them what cannot be read."""
        from howdah.archive import reading  # noqa: PLC0415

        return reading.newest(self.inbox, selection) if selection else reading.newest(self.inbox)

    def load(self, name: str) -> Record:
        """The whole record of this id, of the only id that begins so, or the newest one for ``last``."""
        from howdah.archive import reading  # noqa: PLC0415

        return reading.load(self.inbox, name)

    def newest_with_digests(self) -> str | None:
        """The id of the newest record that has digests of what was moved; None: none has."""
        from howdah.archive import reading  # noqa: PLC0415

        return reading.newest_with_digests(self.inbox)

    def runs(self) -> "Runs":
        """Every run that moved something, as columns."""
        from howdah.archive import reading  # noqa: PLC0415

        return reading.runs(self.inbox)

    def traces(self, ids: Sequence[str]) -> "Mapping[str, Trace]":
        """The samples of these runs, by id; a run without any is not in it."""
        from howdah.archive import reading  # noqa: PLC0415

        return reading.traces(self.inbox, ids)
