"""Labs that stay, by name: one JSON file each, dropped when its lab is found dead."""

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from howdah._native import HowdahError
from howdah.arguments import BadArgument, literal
from howdah.lab.messages import LabReady
from howdah.lab.processes import Identity
from howdah.lab.settings import RUNTIME
from howdah.lab.topology import PAIR, Topology
from howdah.values.link import LinkSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


class LabEntry(msgspec.Struct, frozen=True):
    """One named lab."""

    name: str
    made_at: datetime
    lab: Identity
    """The lab's first process."""
    maker: Identity
    ready: LabReady
    link: LinkSpec
    topology: Topology = PAIR
    broken: str | None = None
    """The reason why the lab ended by itself; kept until someone looks for it, or its name is given again."""


class Registry:
    """The registry of this user's labs."""

    def __init__(self) -> None:
        """Makes the folder if it is missing, open to nobody else. Raises HowdahError when it cannot.

        A maker must do so before it enters a user namespace, where everybody is root.
        """
        if os.geteuid() == 0:
            runtime = RUNTIME
        elif text := os.environ.get("XDG_RUNTIME_DIR"):
            runtime = Path(text) / "howdah"
        else:
            raise HowdahError("labs with a name need XDG_RUNTIME_DIR to be set; or use: howdah lab run")
        self._folder = runtime / "labs"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise HowdahError(f"cannot make {self._folder}: {error.strerror}") from None

    def entries(self) -> Iterator[LabEntry]:
        """All living labs, in the order of their names."""
        for path in sorted(self._folder.glob("*.json")):
            entry = self._read(path)
            if entry is not None and entry.broken is None:
                yield entry

    def find(self, name: str) -> LabEntry:
        """The living lab ``name``. Raises HowdahError when there is none; why one broke is told once."""
        entry = self._read(self._path(name))
        if entry is None:
            raise HowdahError(f"no lab is called {name}; see: howdah lab list")
        if entry.broken is not None:
            self.remove(entry)
            raise HowdahError(f"{name} is down: {entry.broken}")
        return entry

    def check_free(self, name: str) -> None:
        """Raises HowdahError when ``name`` cannot be given to a new lab."""
        entry = self._read(self._path(name))
        if entry is not None and entry.broken is not None:
            self.remove(entry)
        elif entry is not None:
            raise HowdahError(
                f"a lab called {name} is up already; take another name, or: howdah lab down {name}"
            )

    def add(self, entry: LabEntry) -> None:
        """Notes a lab. Raises HowdahError when its name has been taken."""
        path = self._path(entry.name)
        beside = path.with_suffix(f".{os.getpid()}")
        try:
            beside.write_bytes(msgspec.json.encode(entry))
            path.hardlink_to(beside)
        except FileExistsError:
            self.check_free(entry.name)
            raise HowdahError(f"a lab called {entry.name} is just ending; try again") from None
        except OSError as error:
            raise HowdahError(f"cannot write {path}: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)

    def remove(self, entry: LabEntry) -> None:
        """Forgets a lab, unless its name is another's by now."""
        path = self._path(entry.name)
        try:
            noted = msgspec.json.decode(path.read_bytes(), type=LabEntry)
        except (FileNotFoundError, msgspec.DecodeError):
            return
        if noted.lab == entry.lab:
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise BadArgument(
                f"{literal(repr(name))} is not a lab name; give 1 to 32 letters, digits, dots, dashes"
            )
        return self._folder / f"{name}.json"

    def _read(self, path: Path) -> LabEntry | None:
        """The lab noted at ``path`` if it lives or broke; the file of one that died is removed."""
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=LabEntry)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise HowdahError(f"cannot read {path}: {error}; remove it") from None
        if entry.broken is not None or entry.lab.alive():
            return entry
        self.remove(entry)
        return None
