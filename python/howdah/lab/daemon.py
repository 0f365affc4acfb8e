"""Labs that outlive a command: up and down, and their maker, ``python -m howdah.lab.daemon FD``.

FD is a socket: a MakerRequest comes in, LabReady or LabFailed goes out. A lab with a name then stays until it
is ended. One without a name ends when the other side closes the socket, or sends LabFailed once more when it
breaks.
"""

import os
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime

import msgspec

from howdah._native import HowdahError
from howdah.lab import messages
from howdah.lab.messages import LabFailed, LabReady, LabSetup
from howdah.lab.processes import Identity, wait_gone
from howdah.lab.registry import LabEntry, Registry
from howdah.lab.settings import Settings
from howdah.lab.tree import LabBroken, LabInterrupted, Tree
from howdah.values.link import LinkStats

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
            msgspec.json.decode(answer, type=LabReady | LabFailed)
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
        raise HowdahError(msgspec.json.decode(last, type=LabFailed).why)


def main(descriptor: int) -> None:
    """Makes the lab that the request describes and waits for its end."""
    with socket.socket(fileno=descriptor) as asker:
        request = msgspec.json.decode(asker.recv(messages.PACKET_BYTES_MAX), type=MakerRequest)
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
