"""Settings of the first network namespace that labs need: shared while they live, then put back.

Some of what a lab needs cannot be set in its own namespaces. A file of claims holds what was there
before and which living process needs what. In effect is the most that any claim asks for; whoever is
last restores what was there. Claims of processes that were killed are dropped by whoever comes next.

A setting that somebody else has changed in the meantime is theirs: it is left alone.

A small process beside a lab of root, its Keeper, puts the settings back however the lab ends. It is a session
of its own, so that neither Ctrl-C nor a closed terminal reaches it. It waits for the end of a pipe of which
only the lab's first process has the other side: the kernel closes that side even on ``kill -9``.
"""

import contextlib
import fcntl
import itertools
import mmap
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import msgspec

from howdah import decoding
from howdah._native import HowdahError
from howdah.lab.processes import Identity, boot_id

RUNTIME = Path("/run/howdah")
ROOT = Path("/")
"""The folder that names of settings are relative to."""

CONGESTION_CONTROLS = "proc/sys/net/ipv4/tcp_allowed_congestion_control"
"""A namespace takes as its default only a congestion control that is allowed here."""
_AVAILABLE = "proc/sys/net/ipv4/tcp_available_congestion_control"
BUFFERS = ("proc/sys/net/core/rmem_max", "proc/sys/net/core/wmem_max")
"""The most SO_RCVBUF and SO_SNDBUF give, in every namespace; tools under test set them."""

MEMORY = "proc/sys/net/ipv4/tcp_mem"
"""Pages for all of TCP: at rest, under pressure, at most. Beyond, a receiver throws away what has come."""
HOSTS_BUFFERS = 4
"""Full buffers that both hosts may have in all: what lies in the path lies in both, with overhead."""

PAGE_REPORTING = "sys/module/page_reporting/parameters/page_reporting_order"
"""The kernel of some virtual machines gives free blocks of 2^order pages back to the hypervisor. Each page
taken again then costs a fault there, several times what the whole path costs (mm/page_reporting.c)."""
NO_PAGE_REPORTING = "11"
"""An order that no block has, so none is given back."""
OPTIONAL = {PAGE_REPORTING}
"""Settings that not every host has, and that are not needed where they are missing."""

Values = dict[str, str]


def needed(congestion_control: str, buffer_bytes: int) -> Values:
    """The settings that a lab needs: for its default congestion control, and socket buffers of
    ``buffer_bytes``."""
    memory_pages = min(HOSTS_BUFFERS * buffer_bytes // mmap.PAGESIZE, os.sysconf("SC_PHYS_PAGES") // 2)
    return {
        CONGESTION_CONTROLS: congestion_control,
        **dict.fromkeys(BUFFERS, str(buffer_bytes)),
        MEMORY: " ".join(str(memory_pages * share // 4) for share in (2, 3, 4)),
        PAGE_REPORTING: NO_PAGE_REPORTING,
    }


class _SettingsClaim(msgspec.Struct):
    owner: Identity
    values: Values


class _Ledger(msgspec.Struct):
    boot_id: str
    originals: Values = {}
    """The values before the first living claim."""
    written: Values = {}
    """The values that we last wrote."""
    claims: list[_SettingsClaim] = []


class Settings:
    """The claims file under ``runtime`` and the settings under ``root``."""

    def __init__(self, runtime: Path = RUNTIME, root: Path = ROOT) -> None:
        self._file = runtime / "claims.json"
        self._runtime = runtime
        self._root = root

    def claim(self, owner: Identity, values: Values) -> list[str]:
        """Keeps ``values`` in effect while ``owner`` lives; returns what could not be set, a line each."""
        with self._ledger() as ledger:
            ledger.claims.append(_SettingsClaim(owner, values))
            return self._apply(ledger)

    def release(self, owner: Identity) -> None:
        """Ends the claim of ``owner``, if it still has one."""
        with self._ledger() as ledger:
            ledger.claims = [claim for claim in ledger.claims if claim.owner != owner]
            self._apply(ledger)

    def prune(self) -> None:
        """Ends the claims of processes that are gone."""
        if self._file.exists():
            with self._ledger() as ledger:
                self._apply(ledger)

    @contextmanager
    def _ledger(self) -> Iterator[_Ledger]:
        """The claims of living processes, locked against all others, written back at the end."""
        try:
            self._runtime.mkdir(mode=0o755, parents=True, exist_ok=True)
            lock = os.open(self._runtime, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise HowdahError(f"host settings: {self._runtime}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ledger = self._read()
            ledger.claims = [claim for claim in ledger.claims if claim.owner.alive()]
            yield ledger
        except OSError as error:
            raise HowdahError(f"host settings: {error.filename or self._file}: {error.strerror}") from None
        finally:
            os.close(lock)

    def _read(self) -> _Ledger:
        try:
            ledger = decoding.from_json(self._file.read_bytes(), _Ledger)
        except FileNotFoundError:
            return _Ledger(boot_id())
        except msgspec.DecodeError as error:
            raise HowdahError(f"{self._file} is damaged ({error}); remove it") from None
        # The settings of an earlier boot went with it.
        return ledger if ledger.boot_id == boot_id() else _Ledger(boot_id())

    def _apply(self, ledger: _Ledger) -> list[str]:
        """Brings the settings to what the claims ask for, noting each change before making it."""
        problems = []
        wanted: dict[str, list[str]] = {}
        for claim in ledger.claims:
            for name, value in claim.values.items():
                wanted.setdefault(name, []).append(value)
        for name in sorted(wanted.keys() | ledger.originals.keys()):
            try:
                self._apply_one(ledger, name, wanted.get(name, []))
            except OSError as error:
                problems.append(f"/{name} could not be set: {error.strerror}")
        if ledger.claims or ledger.originals:
            self._write(ledger)
        else:
            self._file.unlink(missing_ok=True)
        return problems

    def _apply_one(self, ledger: _Ledger, name: str, values: list[str]) -> None:
        path = self._root / name
        if name in OPTIONAL and not path.exists():
            return
        current = path.read_text(encoding="ascii").strip()
        if name in ledger.written:
            ledger.written[name] = self._there(name, ledger.written[name])
        if not values:
            if name in ledger.written and _same(current, ledger.written[name]):
                path.write_text(self._there(name, ledger.originals[name]), encoding="ascii")
            del ledger.originals[name]
            ledger.written.pop(name, None)
            return
        original = ledger.originals.get(name, current)
        target = self._there(name, _most(name, [original, *values]))
        if name in ledger.written and not _same(current, ledger.written[name]):
            return
        ledger.originals.setdefault(name, original)
        if not _same(current, target):
            ledger.written[name] = target
            self._write(ledger)
            path.write_text(target, encoding="ascii")

    def _there(self, name: str, value: str) -> str:
        """``value`` without congestion controls that were unloaded since: the kernel forgets their names."""
        available = self._root / _AVAILABLE
        if name != CONGESTION_CONTROLS or not available.exists():
            return value
        known = available.read_text(encoding="ascii").split()
        return " ".join(word for word in value.split() if word in known)

    def _write(self, ledger: _Ledger) -> None:
        beside = self._file.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(ledger))
        beside.replace(self._file)


def _most(name: str, values: list[str]) -> str:
    words = [value.split() for value in values]
    if name == CONGESTION_CONTROLS:
        return " ".join(dict.fromkeys(itertools.chain(*words)))
    return " ".join(str(max(map(int, numbers))) for numbers in zip(*words, strict=True))


def _same(left: str, right: str) -> bool:
    return sorted(left.split()) == sorted(right.split())


class Keeper:
    """Releases the claim of this process once it has ended."""

    def __init__(self, settings: Settings, owner: Identity) -> None:
        """Needs a single thread. Raises OSError when there is no room for a process."""
        self._settings = settings
        self._owner = owner
        reading, self._writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _put_back_after(reading, settings, owner)
        os.close(reading)

    def forget(self) -> None:
        """Lets go of the pipe in a child of the holder, so that only the holder's end counts."""
        os.close(self._writing)

    def release(self) -> None:
        """Puts the settings back now and returns when it is done."""
        os.close(self._writing)
        os.waitpid(self._pid, 0)
        # The keeper may have been killed; what cannot be put back now will be by whoever comes next.
        with contextlib.suppress(HowdahError):
            self._settings.release(self._owner)


def _put_back_after(ended: int, settings: Settings, owner: Identity) -> NoReturn:
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        ended = os.dup2(ended, 3) if ended != 3 else ended
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        os.close(null)
        os.chdir("/")
        os.read(ended, 1)
        settings.release(owner)
    except (OSError, HowdahError):
        os._exit(1)
    finally:
        os._exit(0)
