"""The request of a copy: from where to where, what of it, by which plan, and who may change it on its way."""

import os
import shutil
import stat
import sys
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from howdah import HowdahError
from howdah.remote.bringing import Agree
from howdah.remote.endpoints import Route
from howdah.remote.messages import SAMPLE_EVERY_S, Keep, Skip, Walk
from howdah.remote.ssh import PATIENCE_S
from howdah.text import printable
from howdah.transfer.pilot import Pilot
from howdah.values import plan, record
from howdah.values.limit import Limits
from howdah.values.plan import Plan

if TYPE_CHECKING:
    from howdah.arguments import Spell
    from howdah.steering.policy import Policy


class Kept:
    """A list that came by standard input or a pipe: a file without a name, open as long as this is there."""

    def __init__(self, source: IO[bytes]) -> None:
        import tempfile  # noqa: PLC0415, slow to load, and few copies need it

        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(source, file)
            file.flush()
            self._fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._fd)

    @property
    def path(self) -> bytes:
        """A path that leads to it in this process."""
        return b"/proc/self/fd/%d" % self._fd


class NamesList(NamedTuple):
    """A list of names below the source."""

    path: bytes
    nul_separated: bool
    kept: Kept | None = None
    """The file that ``path`` leads to, where it has no name."""


def listed(name: str | os.PathLike[str], *, nul_separated: bool) -> NamesList:
    """The list of that name; ``-`` is standard input. Raises HowdahError when it cannot be read."""
    path = os.fsencode(name)
    try:
        if path == b"-":
            return _kept(sys.stdin.buffer, nul_separated)
        with Path(name).open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _kept(file, nul_separated)
    except OSError as error:
        raise HowdahError(
            f"cannot read the list of names {printable(path)}: {error.strerror}; check the name"
        ) from None
    return NamesList(path, nul_separated)


def _kept(source: IO[bytes], nul_separated: bool) -> NamesList:
    """Keeps what can be read once: a copy that is begun again reads it again."""
    kept = Kept(source)
    return NamesList(kept.path, nul_separated, kept)


FAIRNESS = 0.5
"""The knob of a copy on a shared path unless it is given: 0, its own rate; 1, fairness to others."""


class Given(NamedTuple):
    """One key of the plan that the user chose."""

    key: str
    value: int | str
    option: str
    words: str


class Delete(NamedTuple):
    """What a copy removes at the target: what is not at the source."""

    excluded: bool = False
    """Whether that is also of what the filters leave out at both ends."""
    most: int | None = None
    """The most that is removed; where there is more, nothing is. None: all is."""


class Request(NamedTuple):
    """A copy as it was asked for."""

    command: list[str]
    route: Route
    memory_bytes: int | None = None
    memory_s: float | None = None
    dry_run: bool = False
    verify: bool = False
    """Whether each file that was sent is read again from the target's disk."""
    filters: tuple[bytes, ...] = ()
    """The rules that say what of the sources is copied, a text each (crates/filter)."""
    keep: Keep = Keep()
    names: NamesList | None = None
    """The list of what is copied below the only source; None: all."""
    walk: Walk = Walk()
    skip: Skip = Skip()
    """What is not sent for what is at the target."""
    delete: Delete | None = None
    """What is removed at the target; None: nothing."""
    manifest: Path | None = None
    """A new file for the digests of what was moved, of the algorithm that its name ends in."""
    encrypt: bool = True
    sync: bool = True
    """Whether all is put on stable storage before the copy is done."""
    path: plan.PathKind = "shared"
    traffic_class: str | None = None
    """The class whose share is asked for, on a guaranteed path."""
    plan: Plan | None = None
    """The plan to carry out as it is; None: read from ``plan_file``, or decided."""
    plan_file: Path | None = None
    given: tuple[Given, ...] = ()
    far_howdah: str | None = None
    agree: Agree | None = None
    """Whether a far end is brought to a host that has no howdah; None: none is."""
    ports: tuple[int, int] | None = None
    """The first and the last port of which the far end opens one; None: what is configured for it."""
    patience_s: float = PATIENCE_S
    """The seconds for which it is tried again when the path or the far host is gone."""
    before_s: float = 0.0
    """Seconds that the command ran before it asked for this; the record's ``connect_s`` counts them."""
    sample_every_s: float = SAMPLE_EVERY_S
    pilot: Pilot | None = None
    """The pilot of the streams; None: the plan's schedule, or the service of its path."""
    fairness: float | None = None
    """The knob by which a copy on a shared path changes its streams beside others; None: it does not."""
    policy: "Policy | None" = None
    """The policy that chooses in place of howdah's own (``howdah.steering``); None: that one."""
    limits: Limits | None = None
    """What all streams may send together; None: what ``config.toml`` has for the far hosts."""
    metrics: str | None = None
    """The file, or the port of this host's loopback, that has the metrics of the copy; None: none has."""
    log_file: Path | None = None
    """The file that lines on what was done are appended to."""
    sweep: record.Swept | None = None
    spell: "Spell | None" = None
    """How whoever asked knows the arguments; None: by their names."""
    keeps_far_end: bool = True
    """Whether a far end is made ready for the next copy; its start would disturb a measurement."""

    @property
    def from_memory(self) -> bool:
        """Whether there are files at neither end."""
        return self.memory_bytes is not None or self.memory_s is not None
