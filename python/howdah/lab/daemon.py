"""Labs that outlive a command: up and down, and their maker, ``python -m howdah.lab.daemon FD``.

FD is a socket: a MakerRequest comes in, LabReady or LabFailed goes out. A lab with a name then stays until it
is ended; it has a JSON file, which is dropped when the lab is found dead. One without a name ends when the
other side closes the socket, or sends LabFailed once more when it breaks.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from howdah import decoding
from howdah._native import HowdahError
from howdah.arguments import BadArgument, literal
from howdah.lab import messages
from howdah.lab.messages import LabFailed, LabReady, LabSetup
from howdah.lab.processes import Identity, wait_gone
from howdah.lab.settings import RUNTIME, Settings
from howdah.lab.topology import PAIR, Topology
from howdah.lab.tree import LabBroken, LabInterrupted, Tree
from howdah.values.link import LinkSpec, LinkStats

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
            raise HowdahError(
                "labs with a name need XDG_RUNTIME_DIR without root; set it to a folder of your own that "
                "others cannot enter, as /run/user/1000; or use: howdah lab run"
            )
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
            noted = decoding.from_json(path.read_bytes(), LabEntry)
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
            entry = decoding.from_json(path.read_bytes(), LabEntry)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise HowdahError(f"cannot read {path}: {error}; remove it") from None
        if entry.broken is not None or entry.lab.alive():
            return entry
        self.remove(entry)
        return None


_ANSWER_S = 60.0


class MakerRequest(msgspec.Struct, frozen=True):
    """The lab to make, and whether it stays under a name."""

    setup: LabSetup
    name: str | None = None


def start(request: MakerRequest) -> tuple[LabReady, "subprocess.Popen[bytes]", socket.socket]:
    """Starts a maker; returns the lab, the maker and the socket. Raises HowdahError with the reason."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        # -P: a file in the working directory must not stand in for a module.
        maker = subprocess.Popen(
            [sys.executable, "-P", "-m", "howdah.lab.daemon", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        ours.settimeout(_ANSWER_S)
        ours.send(msgspec.json.encode(request))
        answer = ours.recv(messages.PACKET_BYTES_MAX)
        message = (
            decoding.from_json(answer, LabReady | LabFailed)
            if answer
            else LabFailed("the process that made it has ended")
        )
        if isinstance(message, LabFailed):
            raise HowdahError(message.why)
    except BaseException as error:
        ours.close()
        maker.terminate()
        maker.wait()
        if isinstance(error, OSError):
            raise HowdahError(
                f"cannot make the lab: {error.strerror or 'its maker does not answer'}"
            ) from None
        raise
    return message, maker, ours


def end(maker: "subprocess.Popen[bytes]", link: socket.socket) -> None:
    """Ends a lab without a name by its maker and socket. Raises HowdahError when it had ended before."""
    with link:
        link.shutdown(socket.SHUT_WR)
        maker.wait()
        try:
            last = link.recv(messages.PACKET_BYTES_MAX)
        except ConnectionResetError:
            last = b""
    if last:
        raise HowdahError(decoding.from_json(last, LabFailed).why)


def main(descriptor: int) -> None:
    """Makes the lab that the request describes and waits for its end."""
    with socket.socket(fileno=descriptor) as asker:
        request = decoding.from_json(asker.recv(messages.PACKET_BYTES_MAX), MakerRequest)
        try:
            registry = Registry() if request.name else None
            tree = Tree(request.setup, [] if request.name else [asker])
            _serve(request, tree, asker, registry)
        except HowdahError as error:
            messages.send(asker, LabFailed(str(error)))
        except LabInterrupted as interrupted:
            sys.exit(interrupted.exit_code)
        except Exception as error:
            # The standard error of this process goes nowhere.
            messages.send(asker, LabFailed(f"a bug in howdah, {error!r}"))
            raise


def _serve(request: MakerRequest, tree: Tree, asker: socket.socket, registry: Registry | None) -> None:
    entry = None
    try:
        ready = tree.wait_ready()
        if request.name and registry:
            entry = _entry(request.name, request.setup, tree, ready)
            registry.add(entry)
        messages.send(asker, ready)
        tree.wait()
    except LabBroken as broken:
        if entry and registry:
            registry.remove(entry)
            registry.add(msgspec.structs.replace(entry, broken=str(broken)))
            entry = None
        raise
    finally:
        tree.end()
        if entry and registry:
            registry.remove(entry)


def _entry(name: str, setup: LabSetup, tree: Tree, ready: LabReady) -> LabEntry:
    own = Identity.of(os.getpid())
    if own is None or tree.identity is None:
        raise HowdahError("the lab was killed")
    return LabEntry(name, datetime.now(UTC), tree.identity, own, ready, setup.link, setup.topology)


_GONE_S = 5.0


def up(name: str, setup: LabSetup) -> LabReady:
    """Brings up a lab that stays. Raises HowdahError with the reason when it cannot."""
    Registry().check_free(name)
    ready, _, asking = start(MakerRequest(setup, name))
    asking.close()
    return ready


def living() -> list[LabEntry]:
    """Lists the labs that are up, and clears away what killed ones left."""
    if os.geteuid() == 0:
        Settings().prune()
    return list(Registry().entries())


def down(name: str) -> LinkStats | None:
    """Ends a lab and returns when all of it is gone, with its last statistics if it still gave any."""
    registry = Registry()
    entry = registry.find(name)
    try:
        last = messages.ask(entry.ready.pid, "stop")
    except HowdahError:
        last = None
    for process in (entry.lab, entry.maker):
        _end(process, patient=last is not None)
    registry.remove(entry)
    if os.geteuid() == 0:
        Settings().prune()
    return last


def _end(process: Identity, *, patient: bool) -> None:
    """Waits until ``process`` ends, and kills it if it does not."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if not process.alive() or (patient and wait_gone(pidfd, _GONE_S)):
            return
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if not wait_gone(pidfd, _GONE_S):
            raise HowdahError(f"process {process.pid} of the lab does not end; see: ps {process.pid}")
    finally:
        os.close(pidfd)


if __name__ == "__main__":
    main(int(sys.argv[1]))
