"""Records as they are written: one JSON file each, ``ROOT/YYYY/MM/ID.json``, until the store takes them in.

Beside it ``ID.b3sum``, the digests of the files that were moved; those stay, there may be millions.
A record appears whole or not at all (written beside its place, then renamed), and ids are unique,
so writers need no lock between them.
"""

import os
from pathlib import Path
from typing import NamedTuple

from howdah import HowdahError, private
from howdah.values.record import Record, dumps, is_id


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
        temporary = target.with_name(f".{record.id}.{os.getpid()}")
        try:
            self._make_folder(target)
            try:
                with open(temporary, "xb", opener=private.opener) as stream:
                    stream.write(dumps(record))
                    stream.flush()
                    os.fsync(stream.fileno())
                temporary.rename(target)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise HowdahError(
                f"cannot keep the record in {target.parent}: {error.strerror}; "
                "make room there, or set XDG_DATA_HOME to a folder you can write"
            ) from None
        return target

    def _make_folder(self, file: Path) -> None:
        private.folder(file.parent)
        private.close_to_others(self.root)

    def files(self, suffix: str = "json") -> list[Path]:
        """Files of records, or with this suffix, the oldest first."""
        found = (file for file in self.root.glob(f"[0-9]*/[0-9]*/*.{suffix}") if is_id(file.stem))
        return sorted(found, key=lambda file: file.stem)
