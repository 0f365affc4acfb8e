"""A program that is started and watched, as ssh: its pipes, what it writes to standard error, how it ended.

Imported before everything else when a copy starts: nothing here may import what is slow to load.
"""

import os
import select
import signal
import time
from collections import namedtuple

from howdah import HowdahError
from howdah.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from howdah.remote.ssh import Login

LOST = 255
"""The exit code of an ssh whose connection failed (ssh(1))."""
_OVERTAKEN = "already exists, disabling multiplexing"
"""Part of what an ssh writes that began as another one did; it goes on by itself, so nobody is told."""
KEPT_BYTES = 8192
"""The bytes kept of the beginning of standard error, and as many of its end."""
PIPE_BYTES = 2**20
_DRAIN_S = 0.05
"""The longest time at once for a far end that writes without end; progress is shown meanwhile."""
_OUTPUT_S = 2.0
"""The time that a short ssh command may take."""

Pipes = namedtuple("Pipes", ["read_fd", "write_fd", "stderr_fd", "pidfd"])
Pipes.__doc__ = "A running ssh: output, input and standard error of the far end, and the process."


class StandardError:
    """Standard error as printable lines: its beginning, its end, and how much was between them."""

    def __init__(self) -> None:
        self._first, self._shown = bytearray(), 0
        self._last, self._more = b"", 0

    def add(self, piece: bytes) -> None:
        """Keeps no more than twice KEPT_BYTES of all that is ever added."""
        room = KEPT_BYTES - len(self._first)
        self._first += piece[:room]
        self._more += len(piece[room:])
        self._last = (self._last + piece[room:])[-KEPT_BYTES:]

    def lines(self, *, to_end: bool) -> list[str]:
        """The new whole lines of the beginning; with ``to_end`` also what there is of the end."""
        end = len(self._first) if to_end else self._first.rfind(b"\n") + 1
        text = bytes(self._first[self._shown : end])
        self._shown = max(self._shown, end)
        if to_end:
            left_out = self._more - len(self._last)
            text += b"\n(%d bytes left out)\n" % left_out if left_out else b""
            text += self._last
            self._last, self._more = b"", 0
        lines = [printable(line.removesuffix(b"\r")) for line in text.split(b"\n") if line.strip()]
        return [line for line in lines if _OVERTAKEN not in line]


class FarProcess:
    """A running ``ssh HOST howdah serve``. The caller owns ``read_fd`` and ``write_fd``."""

    def __init__(self, login: "Login", pipes: Pipes) -> None:
        self.login = login
        self.mark = "far end"
        """The beginning of each line that it writes to standard error."""
        self.read_fd, self.write_fd, self._stderr_fd, self.pidfd = pipes
        self._errors = StandardError()
        self._status: int | None = None

    def exit_status(self, timeout_s: float) -> int | None:
        """The exit code of ssh, -N when signal N ended it, None while it runs."""
        if self._status is None and readable(self.pidfd, timeout_s):
            self._status = _status(self.pidfd)
        return self._status

    def drain(self) -> None:
        """Reads what ssh and the far end have written to standard error, so that they never wait for it."""
        until = time.monotonic() + _DRAIN_S
        while time.monotonic() < until:
            try:
                piece = os.read(self._stderr_fd, PIPE_BYTES)
            except BlockingIOError:
                return
            if not piece:
                return
            self._errors.add(piece)

    def new_stderr(self, *, to_end: bool = False) -> str:
        """The new lines of it, each with the mark; after ``to_end`` no more are shown."""
        self.drain()
        return "".join(f"{self.mark}: {line}\n" for line in self._errors.lines(to_end=to_end))

    def stderr(self) -> str:
        """The new lines of it, to the end and without the mark, for ``explain``."""
        self.drain()
        return "\n".join(self._errors.lines(to_end=True))

    def end(self, *, keep_login: bool = False) -> None:
        """Ends ssh, and the kept login with its last session. A session that went well ends by itself."""
        if not keep_login:
            self.login.end()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.exit_status(0.0) is None:
                signal.pidfd_send_signal(self.pidfd, number)
                self.exit_status(0.5)

    def close(self) -> None:
        """Closes the descriptors of an ssh that has ended or is left alone; for programs that start many."""
        os.close(self._stderr_fd)
        os.close(self.pidfd)


def _status(pidfd: int) -> int:
    try:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        # Another process started it and is gone; most likely its connection was lost.
        return LOST
    if ended is None:
        return LOST
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def spawn(
    argv: list[str], streams: tuple[int, int, int], *, ends: "Sequence[int]" = (), session: bool = False
) -> int:
    """Starts ``argv`` with these as its standard streams, which are closed here.

    Their other ``ends`` are closed where it cannot be started. Raises HowdahError.
    """
    left = [*streams, *ends]
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(streams)]
    try:
        # Ctrl-C reaches every process of the terminal; ssh must live on to carry our goodbye.
        pid = os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            file_actions=actions,
            setsigmask=[signal.SIGINT],
            setsigdef=[signal.SIGPIPE, signal.SIGCHLD],
            setsid=session,
        )
        left = [*streams]
        return pid
    except FileNotFoundError:
        raise HowdahError(
            f"{argv[0]} is not installed on this host; install it: apt install openssh-client"
        ) from None
    except OSError as error:
        if error.errno is None:
            # What a program's own handler of a signal has raised, as TimeoutError.
            raise
        raise HowdahError(f"cannot start {argv[0]}: {error.strerror}; check HOWDAH_SSH") from None
    finally:
        for fd in left:
            os.close(fd)


def nowhere() -> int:
    """A standard stream that leads to /dev/null."""
    return os.open(os.devnull, os.O_RDWR)


def readable(fd: int, timeout_s: float) -> bool:
    """Whether ``fd`` has something, or its end, before the time is over.

    Not by select(2): a copy of many files has more descriptors open than it knows.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1e3))


def output(argv: list[str], stdin: int | None = None, modules: "Sequence[str]" = ()) -> bytes:
    """The standard output of a short command: whatever it has written within ``_OUTPUT_S``.

    Those modules are loaded meanwhile, until it writes.
    """
    read_fd, stdout = os.pipe()
    pid = spawn(argv, (nowhere() if stdin is None else stdin, stdout, nowhere()), ends=[read_fd])
    text, deadline = b"", time.monotonic() + _OUTPUT_S
    try:
        for module in modules:
            if readable(read_fd, 0.0):
                break
            __import__(module)
        while readable(read_fd, max(0.0, deadline - time.monotonic())):
            piece = os.read(read_fd, 65536)
            if not piece:
                break
            text += piece
        else:
            os.kill(pid, signal.SIGKILL)
        return text
    finally:
        os.close(read_fd)
        wait(pid)


def wait(pid: int) -> int:
    """The exit code of a program, once it has ended; LOST where nobody knows it, for SIGCHLD is ignored."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return LOST
