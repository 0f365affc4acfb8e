"""The place where records live: ``$XDG_DATA_HOME/howdah/records``.

A record is written as one JSON file, ``ROOT/YYYY/MM/ID.json``, which needs no lock and no library: it appears
whole or not at all (written beside its place, then renamed), and ids are unique. Beside it is ``ID.b3sum``,
the digests of the files that were moved; those stay, there may be millions. Whoever reads the archive takes
the records into SQLite first (``reading``, ``store``). docs/archive.md describes the layout.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from howdah import HowdahError, private
from howdah.arguments import typed
from howdah.values.record import Record, dumps, is_id

if TYPE_CHECKING:
    from howdah.archive.runs import Runs, Trace
    from howdah.archive.store import Selection

_RECORD_BYTES = 16_384
"""The size of the record of a short copy."""


class Unreadable(NamedTuple):
    """A record in the archive that this version cannot read."""

    id: str
    file: Path
    problem: str


class Inbox:
    """The JSON files of records and the digests below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, record_id: str) -> Path:
        """The file where the record of this id is written."""
        return self.root / record_id[:4] / record_id[4:6] / f"{record_id}.json"

    def digests(self, record_id: str) -> Path:
        """The file where the digests of a record's files belong."""
        return self.file(record_id).with_suffix(".b3sum")

    def new_digests(self, record_id: str) -> Path | None:
        """The same as an empty file; None when it cannot be made, of which ``save`` will say why."""
        file = self.digests(record_id)
        try:
            self._make_folder(file)
            private.create(file)
        except OSError:
            return None
        return file

    def save(self, record: Record) -> Path:
        """Adds a record and returns its file. Raises HowdahError when the archive cannot be written."""
        target = self.file(record.id)
        with self._beside(target) as (temporary, stream):
            stream.write(dumps(record))
            stream.flush()
            os.fsync(stream.fileno())
            temporary.rename(target)
        return target

    def check_room(self, record_id: str) -> None:
        """Raises HowdahError when the archive cannot take a record of this id now."""
        with self._beside(self.file(record_id)) as (_, stream):
            stream.write(bytes(_RECORD_BYTES))

    @contextmanager
    def _beside(self, target: Path) -> Iterator[tuple[Path, BinaryIO]]:
        """A new file beside ``target``, which is removed unless it was renamed."""
        temporary = target.with_name(f".{target.stem}.{os.getpid()}")
        try:
            self._make_folder(target)
            try:
                with open(temporary, "xb", opener=private.opener) as stream:
                    yield temporary, stream
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise HowdahError(
                f"cannot keep the record in {target.parent}: {error.strerror}; "
                "make room there, or set XDG_DATA_HOME to a folder you can write"
            ) from None

    def _make_folder(self, file: Path) -> None:
        private.folder(file.parent)
        private.close_to_others(self.root)

    def files(self, suffix: str = "json") -> list[Path]:
        """Files of records, or with this suffix, the oldest first."""
        found = (file for file in self.root.glob(f"[0-9]*/[0-9]*/*.{suffix}") if is_id(file.stem))
        return sorted(found, key=lambda file: file.stem)


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

    def check_room(self, record_id: str) -> None:
        """Raises HowdahError when a record of this id cannot be added now."""
        self.inbox.check_room(record_id)

    def new_digests(self, record_id: str) -> Path | None:
        """An empty file for the digests of what a run moves; None when it cannot be made."""
        return self.inbox.new_digests(record_id)

    def newest(self, selection: "Selection | None" = None) -> Iterator[Record | Unreadable]:
        """The records selected, without their samples, newest first, and among them what cannot be read."""
        from howdah.archive import reading  # noqa: PLC0415

        return reading.newest(self.inbox, selection) if selection else reading.newest(self.inbox)

    @typed
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
