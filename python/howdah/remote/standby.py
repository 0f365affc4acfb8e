"""Far ends that are started before they are needed: by the command line, and between copies.

``howdah cp`` starts its ssh before anything else is loaded (``begin``), and the run takes it over (``take``).

With the login kept, to start a far end still costs two round trips and the start of a program. So after a
copy that went well the next far end is started at once (``leave``), says its hello, and waits as long as a
login is kept. A process of its own, the keeper, has the pipes of that ssh. It gives them to the first copy
that asks for the same: this release, the host, howdah there, and all that ssh resolves for it. The protocol
has no part in it. However the keeper ends, its pipes close, and with them ssh and the far end.

Meanwhile the keeper also connects to the data port of that far end, as often as the copy before had streams.
The next copy gets these connections with the pipes, and begins on them.
"""

import _thread
import contextlib
import os
import select
import socket
import sys
import time
import zlib
from collections import namedtuple

from howdah import HowdahError, __version__, _native, interrupt
from howdah.remote import endpoints, hosts, process, ssh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Ports = tuple[int, int]

_HELLO_S = 20.0
"""The longest that a far end may take until it can be connected to; the next copy does not wait for that."""
_GREET_S = 0.02
"""The longest that a copy waits, before all else, for a hello that has been there for long."""
AHEAD_MAX = 64
"""The most connections that a far end takes ahead (crates/far/src/options.rs)."""
_FILL = b"fill"
_WORD_S = 1.0
"""The longest that either side of the socket may take to say its one word."""
_KEY_BYTES_MAX = 2**16


Ahead = namedtuple("Ahead", ["count", "fill"])
Ahead.__doc__ = (
    "How many connections are made ahead, and whether the next copy fills a window of each at once."
)
NONE_AHEAD = Ahead(0, fill=False)


class FarSession:
    """An ssh on its way to the far end, and the session that speaks through it."""

    def __init__(
        self,
        host: str,
        command: str | None,
        patience_s: float = ssh.PATIENCE_S,
        *,
        asks: bool = True,
        ports: "Ports | None" = None,
        modules: "Sequence[str]" = (),
        ahead: bool = False,
        fills: bool = False,
    ) -> None:
        """Takes the far end that waits, or starts one, with a data port of a range if there is one.

        ``ahead``: encrypted streams may begin on connections that were made ahead; ``fills``: they may fill
        a window of each at once, unless the far host has a limit.
        Raises HowdahError when ssh cannot be started.
        """
        self.key = (host, command, ports)
        self.patience_s, self._asks = patience_s, asks
        self.began_s = time.monotonic()
        login = ssh.Login(host, modules)
        self.ports = ports or hosts.ports(*login.names)
        self.through_kept = login.control is not None and os.access(login.control, os.F_OK)
        """Whether ssh may go through a login that an earlier copy left."""
        waited, made, fill = _take_waiting(login, command, self.ports)
        self.waited = waited is not None
        """Whether an earlier copy left it ready: what it says of its host was true at that time."""
        pipes = waited or login.start(command, asks=asks, role=_role(self.ports), patience_s=patience_s)
        self.how = ""
        """How the far end was started: ``far_command.ANEW`` where howdah there is another version."""
        if not ahead:
            for fd in made:
                os.close(fd)
            made = []
        self.ahead = len(made)
        """The connections on which encrypted streams have begun."""
        self._speak(login, pipes, made, fill=fill and fills and not hosts.limited(*login.names))
        if made:
            self.session.begin(_GREET_S)

    def _speak(
        self, login: ssh.Login, pipes: process.Pipes, made: "Sequence[int]" = (), *, fill: bool = False
    ) -> None:
        self.far = process.FarProcess(login, pipes)
        self.spare: tuple[int, int] | None = (os.dup(pipes.read_fd), os.dup(pipes.write_fd))
        """The same pipes once more, until the hello has come: what answers may not be howdah yet."""
        self.session = _native.Session(self.far.read_fd, self.far.write_fd, made, fill=fill)

    def settle(self) -> None:
        """Closes the spare pipes, after which the session alone has them."""
        spare, self.spare = self.spare, None
        for fd in spare or ():
            os.close(fd)

    def speak_again(self) -> None:
        """Begins another session on the same pipes; the first met something else, and was cancelled."""
        spare, self.spare = self.spare, None
        if spare is not None:
            self.session = _native.Session(*spare)

    def start_again(self, how: str) -> None:
        """Starts another far end in place of one that has ended; ``how`` is far_command's."""
        self.session.cancel()
        self.settle()
        self.far.end(keep_login=True)
        self.far.close()
        login, command, role = self.far.login, self.key[1], _role(self.ports)
        self.how, self.waited, self.ahead = how, False, 0
        self._speak(
            login, login.start(command, asks=self._asks, role=role, patience_s=self.patience_s, how=how)
        )


_begun: list[FarSession] = []
_ending: list[process.FarProcess] = []
_keepers: list[int] = []
"""Processes that keep far ends, started here and perhaps ended since."""
_reaping = _thread.allocate_lock()


def begin(
    names: list[str],
    far_howdah: str | None,
    *,
    memory: bool,
    patience_s: float,
    ports: "Ports | None",
    modules: "Sequence[str]",
    encrypt: bool,
    bounded: bool,
) -> None:
    """Starts ssh if these names (SRC… DST) lead to a far host; of two to the one that sends.

    Meanwhile it loads of ``modules`` what it has time for. ``bounded``: the user bounds its rate.
    """
    try:
        way = endpoints.route(names, memory=memory)
        host = way.origin or way.host
        ahead, fills = encrypt and way.origin is None, way.direction == "push" and not bounded
        with interrupt.Held():
            _begun.append(
                FarSession(
                    host, far_howdah, patience_s, ports=ports, modules=modules, ahead=ahead, fills=fills
                )
            )
    except HowdahError:
        # The run comes to the same place, and reports it as it reports everything.
        return


def take(
    host: str,
    command: str | None,
    patience_s: float = ssh.PATIENCE_S,
    *,
    asks: bool = True,
    ports: "Ports | None" = None,
    ahead: bool = False,
    fills: bool = False,
) -> FarSession:
    """The session that was begun for this far end, or a new one, for which ssh may ask the user or not."""
    if _begun and _begun[0].key == (host, command, ports):
        return _begun.pop()
    drop()
    _reap()
    return FarSession(host, command, patience_s, asks=asks, ports=ports, ahead=ahead, fills=fills)


def drop() -> None:
    """Ends what was begun and is not wanted after all."""
    while _begun:
        begun = _begun.pop()
        begun.session.cancel()
        begun.settle()
        begun.far.end()


def release(session: FarSession) -> None:
    """Leaves a far end that ends by itself; what it used here is given back when the next one is taken."""
    _ending.append(session.far)


def leave(
    login: ssh.Login, command: str | None, ports: "Ports | None" = None, ahead: Ahead = NONE_AHEAD
) -> None:
    """Has a process of its own keep a far end for the next copy, and connect to it; returns at once."""
    if login.sockets is None:
        return
    _reap()
    how_many = f"{ahead.count}{'+' if ahead.fill else ''}"
    argv = [sys.executable, "-P", "-m", "howdah", "standby", login.host, _role(ports), how_many]
    streams = (process.nowhere(), process.nowhere(), process.nowhere())
    _keepers.append(process.spawn(argv + ([command] if command else []), streams, session=True))


def main(words: list[str]) -> int:
    """``howdah standby HOST ROLE N[+] [COMMAND]``: keeps a far end until a copy takes it, or it ends.

    With N connections to it; ``+`` has the copy fill a window of each.
    """
    if len(words) < 3 or not words[2].removesuffix("+").isdecimal():
        print(
            "howdah: standby is started by a copy, for the next one; use: howdah cp SRC… HOST:PATH",
            file=sys.stderr,
        )
        return 2
    host, role, how_many = words[:3]
    command = words[3] if len(words) > 3 else None
    ahead = Ahead(int(how_many.removesuffix("+")), fill=how_many.endswith("+"))
    login = ssh.Login(host)
    if login.sockets is not None:
        _keep(login, command, role, ahead)
    return 0


def _reap() -> None:
    """Gives back what far ends and keepers used that have ended: a program may make many copies.

    One thread does it at a time: a descriptor that another one has closed may be that of another ssh by now.
    """
    if not _reaping.acquire(blocking=False):
        return
    try:
        for far in list(_ending):
            if far.exit_status(0.0) is not None:
                _ending.remove(far)
                far.close()
        for pid in list(_keepers):
            with contextlib.suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    continue
            _keepers.remove(pid)
    finally:
        _reaping.release()


def _role(ports: "Ports | None") -> str:
    """What the far end is started as."""
    return "serve" if ports is None else f"serve --ports {ports[0]}-{ports[1]}"


def _address(login: ssh.Login, command: str | None, role: str) -> tuple[str, bytes]:
    """Socket and key. The checksum only tells names apart; the key decides."""
    key = repr((__version__, login.host, command, role, login.way)).encode()
    return f"{login.sockets}-ready-{zlib.crc32(key):08x}", key


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(_WORD_S)
    return made


def _take_waiting(
    login: ssh.Login, command: str | None, ports: "Ports | None"
) -> "tuple[process.Pipes | None, list[int], bool]":
    """The pipes of the far end that waits, the connections to it, and whether they are to be filled."""
    if login.sockets is None:
        return None, [], False
    path, key = _address(login, command, _role(ports))
    count = len(process.Pipes._fields)
    with _socket() as asking:
        try:
            asking.connect(path)
            asking.send(key)
            word, fds, _, _ = socket.recv_fds(asking, len(_FILL), count + AHEAD_MAX, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None, [], False
    if len(fds) < count:
        return None, [], False
    return process.Pipes(*fds[:count]), list(fds[count:]), word == _FILL


def _keep(login: ssh.Login, command: str | None, role: str, ahead: Ahead) -> None:
    path, key = _address(login, command, role)
    with _socket() as listener:
        if not _listen(listener, path):
            return
        try:
            started = f"{role} --ahead {ahead.count}" if ahead.count else role
            pipes = login.start(command, asks=False, role=started)
            _wait(listener, key, pipes, _Connecting(pipes, login.data_address, ahead))
        finally:
            os.unlink(path)  # noqa: PTH108


def _listen(listener: socket.socket, path: str) -> bool:
    """Binds the socket; false when another keeper is there already."""
    try:
        with _socket() as asking:
            asking.connect(path)
        return False
    except FileNotFoundError:
        pass
    except ConnectionRefusedError:
        os.unlink(path)  # noqa: PTH108
    listener.bind(path)
    listener.listen()
    return True


class _Connecting:
    """Connections to a far end, made in a thread of their own: a copy may come before they are there."""

    def __init__(self, pipes: process.Pipes, data_address: str | None, ahead: Ahead) -> None:
        self.made: list[int] = []
        """Those that stand."""
        self.fill = ahead.fill
        if ahead.count:
            asked = (pipes.read_fd, data_address, ahead.count, _HELLO_S)
            _thread.start_new_thread(self._connect, asked)

    def _connect(self, *asked: "Any") -> None:  # noqa: ANN401
        self.made = _native.connect_ahead(*asked)


def _wait(listener: socket.socket, key: bytes, pipes: process.Pipes, ahead: _Connecting) -> None:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(pipes.pidfd, select.POLLIN)
    until = time.monotonic() + ssh.keep_s()
    while ready := poll.poll(max(0.0, until - time.monotonic()) * 1e3):
        if any(fd == pipes.pidfd for fd, _ in ready):
            return
        asking, _ = listener.accept()
        with asking, contextlib.suppress(OSError):
            asking.settimeout(_WORD_S)
            if asking.recv(_KEY_BYTES_MAX) == key:
                made = ahead.made
                socket.send_fds(asking, [_FILL if ahead.fill and made else b"\0"], [*pipes, *made])
                return
