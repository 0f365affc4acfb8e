"""Makes a lab's tree of processes: the maker stays outside, the lab's first process goes in.

From here on the maker only waits. It takes signals one at a time (sigwaitinfo(2)), because only the
signal's origin tells a Ctrl-C that the terminal gave the command as well from a ``kill`` that it
must pass on. ``run`` makes a lab for one command in the foreground: the command has the terminal, and its
exit code counts.
"""

import contextlib
import math
import os
import select
import signal
import socket
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import msgspec

from howdah import _native, decoding
from howdah._native import HowdahError
from howdah.lab import hosts, machine, messages, namespaces, sshd
from howdah.lab.messages import LabEnded, LabFailed, LabReady, LabSetup, PassSignal, Proceed
from howdah.lab.processes import Identity, wait_gone
from howdah.lab.settings import Keeper, Settings, needed

_ROOTLESS = (
    "without root, a socket buffer that a program sets itself is limited by this host's "
    "net.core.rmem_max and wmem_max"
)
_READY_S = 30.0
_POLL_S = 0.02
_ENDING_S = 5.0
"""The time in which a command may end after the first signal."""
_SAME_S = 0.5
"""The time in which signals count as one: timeout(1) sends one to howdah, and one to its process group."""
_WAIT_S = 3600.0
_SI_KERNEL = 0x80
"""The si_code in siginfo of signals from the terminal."""
_TUN = Path("/dev/net/tun")
_FORWARDED = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM}
_TAKEN = _FORWARDED | {signal.SIGCHLD}


class LabInterrupted(Exception):
    """A signal came before the lab could be used; nothing of it is left."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class LabBroken(HowdahError):
    """The lab ended by itself, for the reason it gave."""


class Tree:
    """One lab as its maker sees it. The lab ends when its maker does."""

    def __init__(self, setup: LabSetup, watched: list[socket.socket]) -> None:
        """Starts it; it also ends when one of ``watched`` closes. Needs a single thread.

        Afterwards the caller must ``wait``, starts its processes inside the lab's PID namespace, and
        has the signals blocked that it would die of. Raises HowdahError when no namespace can be made.
        """
        _check_tun()
        if setup.sshd:
            sshd.check()
        self._notes: list[str] = []
        self._keeper: Keeper | None = None
        if os.geteuid() == 0:
            self._keeper = self._claim(setup)
        else:
            self._notes.append(_ROOTLESS)
        try:
            _unshare()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
            self._socket, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.pid = os.fork()
            if self.pid == 0:
                self._become_machine(setup, inside, watched)
        except BaseException:
            if self._keeper:
                self._keeper.release()
            raise
        inside.close()
        self._ended = False
        self._pidfd = os.pidfd_open(self.pid)
        self.identity = Identity.of(self.pid)
        messages.send(self._socket, Proceed(self.pid))

    def wait_ready(self) -> LabReady:
        """The lab, once it can be used.

        Raises HowdahError with the reason when it cannot be made, and LabInterrupted.
        """
        for _ in range(int(_READY_S / _POLL_S)):
            if select.select([self._socket], [], [], _POLL_S)[0]:
                break
            number = signal.sigtimedwait(_FORWARDED, 0)
            if number is not None:
                self.end()
                raise LabInterrupted(number.si_signo)
        message = self._message()
        if isinstance(message, LabReady):
            return msgspec.structs.replace(message, notes=(*self._notes, *message.notes))
        self.end()
        if isinstance(message, LabFailed):
            raise HowdahError(f"cannot make the lab: {message.why}")
        raise HowdahError(f"cannot make the lab: it was not ready after {_READY_S:.0f} s")

    def wait(self) -> LabEnded:
        """Waits until all of the lab is gone. Raises LabBroken, or HowdahError when it was killed.

        The first signal is passed on to the command. If the command has not ended when a second one comes, or
        some seconds later, it is killed; its exit code is then that of the first signal.
        """
        asked, kill_s = 0, math.inf
        while not wait_gone(self._pidfd, 0):
            taken = signal.sigtimedwait(_TAKEN, min(max(kill_s - time.monotonic(), 0), _WAIT_S))
            now_s = time.monotonic()
            number = _to_pass(taken)
            if now_s >= kill_s or (number and asked and now_s >= kill_s - _ENDING_S + _SAME_S):
                number, kill_s = signal.SIGKILL, math.inf
            elif number and not asked:
                asked, kill_s = number, now_s + _ENDING_S
            if number:
                messages.send(self._socket, PassSignal(number))
        message = self._message()
        self.end()
        if isinstance(message, LabEnded):
            killed = asked and kill_s == math.inf and message.exit_code == 128 + signal.SIGKILL
            return msgspec.structs.replace(message, exit_code=128 + asked) if killed else message
        if isinstance(message, LabFailed):
            raise LabBroken(message.why)
        raise HowdahError("the lab was killed")

    def end(self) -> None:
        """Ends what is left of the lab, and puts back the signals and the host's settings."""
        if self._ended:
            return
        self._ended = True
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._pidfd)
        self._socket.close()
        if self._keeper:
            self._keeper.release()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _claim(self, setup: LabSetup) -> Keeper:
        """Claims the host's settings; what cannot be set is a note, for the lab works without."""
        own = Identity.of(os.getpid())
        if own is None:
            raise HowdahError("/proc cannot be read; mount it")
        settings = Settings()
        keeper = Keeper(settings, own)
        try:
            most = hosts.buffer_bytes(setup.link)
            self._notes += settings.claim(own, needed(setup.congestion_control, most))
        except HowdahError as error:
            self._notes.append(str(error))
        return keeper

    def _become_machine(
        self, setup: LabSetup, inside: socket.socket, watched: list[socket.socket]
    ) -> NoReturn:
        self._socket.close()
        if self._keeper:
            self._keeper.forget()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        machine.run(setup, inside, watched)

    def _message(self) -> LabReady | LabFailed | LabEnded | None:
        """The next message from the lab; null when it has gone without one."""
        try:
            message = self._socket.recv(messages.PACKET_BYTES_MAX, socket.MSG_DONTWAIT)
        except (BlockingIOError, ConnectionResetError):
            return None
        if not message:
            return None
        return decoding.from_json(message, LabReady | LabFailed | LabEnded)


def _to_pass(taken: signal.struct_siginfo | None) -> int:
    """The signal that the command must be sent; 0 for none."""
    if taken is None or taken.si_signo == signal.SIGCHLD:
        return 0
    if taken.si_code == _SI_KERNEL and taken.si_signo != signal.SIGTERM:
        return 0
    return taken.si_signo


def _check_tun() -> None:
    """Raises HowdahError when the link could have no devices; before anything is made."""
    if not _TUN.exists():
        raise HowdahError(f"cannot make the lab: there is no {_TUN}; load its module: modprobe tun")
    if not os.access(_TUN, os.R_OK | os.W_OK):
        raise HowdahError(
            f"cannot make the lab: you may not open {_TUN}; run as root, or: sudo chmod 666 {_TUN}"
        )


def _unshare() -> None:
    """Enters a new PID namespace for children, without root in a user namespace of its own."""
    rootless = os.geteuid() != 0
    try:
        _native.unshare(user=rootless, pid=True, mount=False)
    except HowdahError as error:
        raise HowdahError(f"cannot make the lab: {_mend(rootless=rootless) or error}") from None


def _mend(*, rootless: bool) -> str | None:
    """The reason why namespaces are refused, and what to do; null when it is none of the known ones."""
    if not rootless:
        return "this root may make no namespaces (a container?); give it CAP_SYS_ADMIN, as with --privileged"
    settings = " ".join(f"{name}={value}" for name, value in namespaces.refused_by().items())
    if not settings:
        return None
    return f"user namespaces are switched off here; run as root, or: sudo sysctl -w {settings}"


def run(setup: LabSetup, ready: Callable[[LabReady], None]) -> LabEnded:
    """Runs ``setup.command`` to its end; calls ``ready`` when it starts.

    Raises HowdahError when the lab cannot be made or is killed, and LabInterrupted.
    """
    tree = Tree(setup, [])
    try:
        ready(tree.wait_ready())
        with _terminal():
            return tree.wait()
    finally:
        tree.end()


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Takes the terminal back afterwards, as it was, from a command that died with it.

    A shell makes its own process group the terminal's and, inside a PID namespace, cannot name the
    one that was there before.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        foreground = os.tcgetpgrp(terminal) == os.getpgrp()
        state = termios.tcgetattr(terminal)
        yield
        if foreground and os.tcgetpgrp(terminal) != os.getpgrp():
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
            os.tcsetpgrp(terminal, os.getpgrp())
            termios.tcsetattr(terminal, termios.TCSADRAIN, state)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    finally:
        os.close(terminal)
