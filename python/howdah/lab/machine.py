"""The first process of a lab: it owns the link, and all else in the lab lives no longer than it.

It is process 1 of a PID namespace. Its network namespaces exist only as its descriptors and its
mounts only in its mount namespace, so when it ends, in whatever way, the kernel kills what runs in
the lab and takes the rest away. It ends when the command has ended, when it is asked to, when the link
breaks, and when one of the sockets it watches closes, because whoever had the other side has gone.
"""

import contextlib
import os
import selectors
import signal
import socket
import traceback
from typing import NoReturn

import msgspec

from howdah import LAB_LINK_VARIABLE, _native, decoding
from howdah._native import HowdahError
from howdah.lab import hosts, messages, mounts, sshd
from howdah.lab.messages import LabEnded, LabFailed, LabQuery, LabReady, LabSetup, PassSignal, Proceed
from howdah.lab.network import Network, NetworkMark
from howdah.lab.topology import ENDS
from howdah.values.link import LinkStats

_RELAYED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals that a terminal sends to the command as well; the maker passes on those from elsewhere."""
_FULL_BUFFERS = 2
"""The buffers that hosts fill while a full path is repaired: half of those they may fill."""


def run(setup: LabSetup, maker: socket.socket, watched: list[socket.socket]) -> NoReturn:
    """Runs the lab until its end. Needs a single thread, in the child just forked for it."""
    try:
        _native.die_with_parent()
        _Machine(setup, maker, watched).run()
    except HowdahError as error:
        messages.send(maker, LabFailed(str(error)))
    except BaseException as error:
        # The error goes to the maker: standard error is the command's.
        place = traceback.extract_tb(error.__traceback__)[-1]
        messages.send(maker, LabFailed(f"{error!r} in {place.name}, {place.filename} line {place.lineno}"))
    finally:
        os._exit(1)


class _Machine:
    def __init__(self, setup: LabSetup, maker: socket.socket, watched: list[socket.socket]) -> None:
        self._setup = setup
        self._maker = maker
        self._selector = selectors.DefaultSelector()
        for each in (maker, *watched):
            each.setblocking(False)
        self._watched = watched
        self._command: int | None = None
        self._marks: dict[int, NetworkMark] = {}

    def run(self) -> NoReturn:
        pid = self._wait_for_go()
        _native.unshare(user=False, pid=False, mount=True)
        _native.mount_proc()
        mounts.make()
        mounts.name_hosts(self._setup.topology.hosts)
        hosts.touch_buffers(hosts.buffer_bytes(self._setup.link) * _FULL_BUFFERS)
        self._network = Network(self._setup.link, self._setup.topology, self._setup.congestion_control)
        if self._setup.sshd:
            self._serve_ssh()
        self._listen()
        self._watch_signals()
        self._network.start()
        ready = LabReady(pid, self._network.namespaces, self._environment(), tuple(self._network.notes))
        messages.send(self._maker, ready)
        if self._setup.command:
            host = self._setup.host or self._setup.topology.left[0]
            environment = {**os.environ, **self._environment()}
            self._command = self._spawn(host, list(self._setup.command), environment, apart=False)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _wait_for_go(self) -> int:
        self._maker.setblocking(True)
        message = self._maker.recv(messages.PACKET_BYTES_MAX)
        self._maker.setblocking(False)
        if not message:
            os._exit(1)
        return decoding.from_json(message, Proceed).pid

    def _serve_ssh(self) -> None:
        commands = sshd.prepare(self._setup.topology.servers, ipv6=hosts.has_ipv6(self._setup.link))
        pids = {
            host: self._spawn(host, argv, dict(os.environ), apart=True) for host, argv in commands.items()
        }
        for host, pid in pids.items():
            sshd.wait_ready(pid, host)

    def _environment(self) -> dict[str, str]:
        near, far = (self._setup.topology.side(end)[0] for end in ENDS)
        return {
            "HOWDAH_NEAR": near.address,
            "HOWDAH_FAR": far.address,
            LAB_LINK_VARIABLE: msgspec.json.encode(self._setup.link).decode(),
        }

    def _spawn(self, host: str, argv: list[str], environment: dict[str, str], *, apart: bool) -> int:
        """Starts ``argv`` on ``host``; with ``apart`` it has no terminal."""
        actions = (
            [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)] if apart else []
        )
        return os.posix_spawnp(
            "nsenter",
            ["nsenter", f"--net={self._network.path(host)}", "--", *argv],
            environment,
            file_actions=actions,
            setsid=apart,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(mounts.CONTROL))
        listener.listen()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))
        self._selector.register(self._maker, selectors.EVENT_READ, self._on_maker)
        self._selector.register(self._network.ended_fd(), selectors.EVENT_READ, self._end)
        for each in self._watched:
            self._selector.register(each, selectors.EVENT_READ, self._end)

    def _watch_signals(self) -> None:
        """Sets handlers and not SIG_IGN, because spawned programs must start with the default."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._selector.register(reading, selectors.EVENT_READ, lambda: self._on_signals(reading))
        for number in (*_RELAYED, signal.SIGTERM, signal.SIGCHLD):
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGCHLD:
                signal.signal(number, lambda *_: None)
        self._reap()

    def _on_signals(self, reading: int) -> None:
        numbers = os.read(reading, 4096)
        if signal.SIGCHLD in numbers:
            self._reap()
        if signal.SIGTERM in numbers:
            if self._command is None:
                self._end()
            self._signal_command(signal.SIGTERM)

    def _on_maker(self) -> None:
        message = self._maker.recv(messages.PACKET_BYTES_MAX)
        if not message:
            self._end()
        self._signal_command(decoding.from_json(message, PassSignal).number)

    def _signal_command(self, number: int) -> None:
        if self._command is None:
            self._end()
        os.kill(self._command, number)

    def _reap(self) -> None:
        """Collects every process that has ended; those without a parent are children of process 1."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._command:
                code = os.waitstatus_to_exitcode(status)
                self._end(code if code >= 0 else 128 - code)

    def _accept(self, listener: socket.socket) -> None:
        try:
            asking, _ = listener.accept()
        except OSError:
            return
        self._selector.register(asking, selectors.EVENT_READ, lambda: self._answer(asking))

    def _answer(self, asking: socket.socket) -> None:
        try:
            message = asking.recv(messages.PACKET_BYTES_MAX)
            what = decoding.from_json(message, LabQuery).what if message else None
        except (OSError, msgspec.DecodeError):
            what = None
        if what is None:
            self._marks.pop(asking.fileno(), None)
            self._selector.unregister(asking)
            asking.close()
            return
        stats = self._stop() if what == "stop" else self._network.stats(self._marks.get(asking.fileno()))
        if what == "mark":
            self._marks[asking.fileno()] = self._network.mark()
        # The process that asked may have gone, which is no reason for the lab to end.
        with contextlib.suppress(OSError):
            asking.send(msgspec.json.encode(stats))
        if what == "stop":
            self._end(stats=stats)

    def _stop(self) -> LinkStats:
        try:
            return self._network.stop()
        except HowdahError as error:
            raise HowdahError(f"the link broke, and its lab ended: {error}") from None

    def _end(self, exit_code: int = 0, stats: LinkStats | None = None) -> NoReturn:
        messages.send(self._maker, LabEnded(exit_code, stats or self._stop()))
        os._exit(0)
