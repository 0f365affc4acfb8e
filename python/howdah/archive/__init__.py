"""Where records live: one JSON file each, ``$XDG_DATA_HOME/howdah/records/YYYY/MM/ID.json``, and beside
it ``ID.b3sum``, the digests of the files that were moved: there may be millions.

A record appears whole or not at all (written beside its place, then renamed), and ids are unique,
so writers need no lock between them. A file that cannot be read is reported and never stops a list.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from howdah import HowdahError
from howdah.record import Record, dumps, id_time, is_id, loads

_LEFT_BEHIND_S = 86400
"""Digests without a record that nobody has written to for so long are of a copy that was killed;
others may be of one at work."""


class Unreadable(NamedTuple):
    """A file in the archive that is no record this version can read."""

    file: Path
    problem: str


def default_root() -> Path:
    """``$XDG_DATA_HOME/howdah/records``, by default ``~/.local/share/howdah/records``."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    base = Path(data) if data.startswith("/") else Path.home() / ".local/share"
    return base / "howdah" / "records"


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, or would be."""

    ids: list[str]
    """Of the runs, oldest first."""
    size_bytes: int


class Archive:
    """The records under one folder."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root

    def file(self, record_id: str) -> Path:
        """Where the record of this id belongs."""
        return self.root / record_id[:4] / record_id[4:6] / f"{record_id}.json"

    def digests(self, record_id: str) -> Path:
        """Where the digests of a record's files belong."""
        return self.file(record_id).with_suffix(".b3sum")

    def new_digests(self, record_id: str) -> Path | None:
        """The same as an empty file; None when it cannot be made, of which ``save`` will say why."""
        file = self.digests(record_id)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError:
            return None
        return file

    def save(self, record: Record) -> Path:
        """Adds a record and returns its file. Raises HowdahError when the archive cannot be written."""
        target = self.file(record.id)
        temporary = target.with_name(f".{record.id}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("xb") as stream:
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

    def newest(self) -> Iterator[Record | Unreadable]:
        """Every record, newest first, read as they are asked for."""
        for file in self._files():
            try:
                yield loads(file.read_bytes(), str(file))
            except FileNotFoundError:
                continue
            except OSError as error:
                yield Unreadable(file, f"{file} cannot be read: {error.strerror}")
            except HowdahError as error:
                yield Unreadable(file, str(error))

    def load(self, name: str) -> Record:
        """The record of this id, of the only id that begins so, or the newest one for ``last``."""
        files = [file for file in self._files() if name == "last" or file.name.startswith(name)]
        if name == "last":
            files = files[:1]
        if not files:
            what = "no record yet" if name == "last" else f"no record {name}"
            raise HowdahError(f"{what} in {self.root}; list them with: howdah archive ls")
        if len(files) > 1:
            raise HowdahError(
                f"{len(files)} records begin with {name} ({files[-1].stem} to {files[0].stem}); "
                "give more of the id"
            )
        try:
            return loads(files[0].read_bytes(), str(files[0]))
        except OSError as error:
            raise HowdahError(f"cannot read {files[0]}: {error.strerror}; check its permissions") from None

    def prune(self, *, older_than_s: float, keep: int, dry_run: bool = False) -> Pruned:
        """Removes what is older and not among the newest ``keep`` records, digests included.

        Raises HowdahError when a file cannot be removed.
        """
        now = datetime.now(UTC)
        until = id_time(now - timedelta(seconds=older_than_s))
        spared = {file.stem for file in self._files()[:keep]}
        recorded = {file.stem for file in self._files()}
        ids, size_bytes = set(), 0
        for file in self._files("json", "b3sum"):
            if file.stem >= until or file.stem in spared:
                continue
            try:
                found = file.stat()
                if file.stem not in recorded and now.timestamp() - found.st_mtime < _LEFT_BEHIND_S:
                    continue
                if not dry_run:
                    file.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise HowdahError(f"cannot remove {file}: {error.strerror}; check its permissions") from None
            ids.add(file.stem)
            size_bytes += found.st_size
        return Pruned(ids=sorted(ids), size_bytes=size_bytes)

    def _files(self, *suffixes: str) -> list[Path]:
        """Files of records, or with these suffixes, the newest first."""
        found = (file for end in suffixes or ("json",) for file in self.root.glob(f"[0-9]*/[0-9]*/*.{end}"))
        return sorted((file for file in found if is_id(file.stem)), key=lambda file: file.stem, reverse=True)
