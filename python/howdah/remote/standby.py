"""A far end kept ready between copies.

With the login kept, to start one still costs two round trips and the start of a program. So after a copy
that went well the next far end is started at once, says its hello, and waits as long as a login is
kept. A process of its own holds the pipes of that ssh and gives them to the first copy that asks for
the same: this release, the host, howdah there, and all that ssh resolves for it.

The protocol knows nothing of it. However the holder ends, its pipes close, and with them ssh and the far end.
"""

import contextlib
import os
import select
import socket
import sys
import time
import zlib

from howdah import __version__
from howdah.remote import ssh

_WORD_S = 1.0
"""How long either side of the socket may take to say its one word."""
_KEY_BYTES_MAX = 2**16


def far(host: str, command: str | None) -> ssh.Far:
    """The far end that waits, or one started now. Raises HowdahError when ssh cannot be started."""
    login = ssh.Login(host)
    return ssh.Far(login, _take(login, command) or login.start(command))


def leave(login: ssh.Login, command: str | None) -> None:
    """Has a process of its own keep a far end for the next copy; returns at once."""
    if login.sockets is None:
        return
    argv = [sys.executable, "-P", "-m", "howdah", "standby", login.host]
    streams = (ssh.nowhere(), ssh.nowhere(), ssh.nowhere())
    ssh.spawn(argv + ([command] if command else []), streams, session=True)


def main(words: list[str]) -> int:
    """``howdah standby HOST [COMMAND]``: holds a far end until it is taken, it ends, or time is over."""
    if not words:
        print(
            "howdah: standby is started by a copy, for the next one; use: howdah cp SRC… HOST:PATH",
            file=sys.stderr,
        )
        return 2
    host, command = words[0], words[1] if len(words) > 1 else None
    login = ssh.Login(host)
    if login.sockets is not None:
        _hold(login, command)
    return 0


def _address(login: ssh.Login, command: str | None) -> tuple[str, bytes]:
    """Socket and key. The checksum only tells names apart; it is the key that decides."""
    key = repr((__version__, login.host, command, sorted(login.config.items()))).encode()
    return f"{login.sockets}-ready-{zlib.crc32(key):08x}", key


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(_WORD_S)
    return made


def _take(login: ssh.Login, command: str | None) -> ssh.Pipes | None:
    if login.sockets is None:
        return None
    path, key = _address(login, command)
    count = len(ssh.Pipes._fields)
    with _socket() as asking:
        try:
            asking.connect(path)
            asking.send(key)
            _, fds, _, _ = socket.recv_fds(asking, 1, count, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None
    return ssh.Pipes(*fds) if len(fds) == count else None


def _hold(login: ssh.Login, command: str | None) -> None:
    path, key = _address(login, command)
    with _socket() as listener:
        if not _listen(listener, path):
            return
        try:
            _wait(listener, key, login.start(command, asks=False))
        finally:
            os.unlink(path)  # noqa: PTH108


def _listen(listener: socket.socket, path: str) -> bool:
    """False when another holder is there already."""
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


def _wait(listener: socket.socket, key: bytes, pipes: ssh.Pipes) -> None:
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
                socket.send_fds(asking, [b"\0"], pipes)
                return
