"""The unprivileged end of the helper: kernels of hosts, each call a request that the helper carries out."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

import msgspec

from howdah import HowdahError, decoding
from howdah.control.leases.agent import Held
from howdah.control.leases.messages import Measured
from howdah.control.policy.members import Member
from howdah.control.privilege import is_root, protocol
from howdah.control.privilege.protocol import Answer, Hold, Leave, Measure, Place, ReadHeld, Release, Request

T = TypeVar("T")
CAPABILITIES = ("bpf", "perfmon", "net_admin", "sys_admin", "sys_ptrace")
"""The helper keeps these. The first three load programs and write their maps. sys_admin mounts the BPF file
system and enters the network namespaces whose connections move; sys_ptrace finds those of other users."""
_ANSWER_S = 60.0
"""Twice the wait for the lock of the programs, and some."""


class Helper:
    """The process with privilege, and by host the kernels that it changes."""

    def __init__(self, channel: socket.socket, process: "subprocess.Popen[bytes]", hosts: list[str]) -> None:
        self._channel = channel
        self._process = process
        self.kernels = {name: _RemoteKernel(name, self) for name in hosts}

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def ask(self, request: Request, kind: type[T]) -> T:
        """The answer to a request. Raises HowdahError for a refusal, or when the helper has gone."""
        try:
            protocol.send(self._channel, request)
        except OSError:
            raise self._gone() from None
        return decoding.from_json(self.answer().value, kind)

    def answer(self) -> Answer:
        """The next answer. Raises HowdahError for a refusal, or when the helper has gone."""
        try:
            found = decoding.from_json(protocol.receive(self._channel), Answer)
        except (OSError, EOFError):
            raise self._gone() from None
        if found.wrong is not None:
            raise HowdahError(found.wrong)
        return found

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Cancels the task that is in the block when the helper has gone, and raises HowdahError then."""
        loop, task, gone = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()

        def ended() -> None:
            # Every answer has been read by whoever asked, so only the end can be there to read.
            loop.remove_reader(self._channel)
            gone.set()
            if task is not None:
                task.cancel()

        loop.add_reader(self._channel, ended)
        try:
            yield
        except asyncio.CancelledError:
            if gone.is_set():
                raise self._gone() from None
            raise
        finally:
            loop.remove_reader(self._channel)

    def _gone(self) -> HowdahError:
        # Whatever it says later would be taken for the answer to something else.
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        try:
            code = self._process.wait(timeout=1)
            how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        except subprocess.TimeoutExpired:
            how = "does not answer"
        return HowdahError(
            f"the helper that changes this host's kernel {how}; shares stay until their leases run out: "
            "start howdah control again"
        )


class _RemoteKernel:
    """The kernel of one host, as its agent uses it; the helper has the ``Host``."""

    def __init__(self, name: str, helper: Helper) -> None:
        self._name = name
        self._helper = helper

    def held(self) -> dict[str, Held]:
        return self._helper.ask(ReadHeld(self._name), dict[str, Held])

    def hold(self, flow: str, held: Held) -> None:
        self._helper.ask(Hold(self._name, flow, *held), type(None))

    def release(self, flow: str) -> None:
        self._helper.ask(Release(self._name, flow), type(None))

    def measured(self) -> dict[str, Measured]:
        return self._helper.ask(Measure(self._name), dict[str, Measured])

    def place(self, members: Mapping[str, Member]) -> list[str]:
        return self._helper.ask(Place(self._name, dict(members)), list[str])

    def leave(self) -> None:
        self._helper.ask(Leave(self._name), type(None))


@contextmanager
def started(wanted: Mapping[str, int | None]) -> Iterator[Helper]:
    """Starts a helper for hosts with the inode of a network namespace or none; it ends with the block.

    Raises HowdahError where ``hd_hold`` cannot be loaded, which needs root.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = _start(theirs, wanted)
        helper = Helper(ours, process, [*wanted])
        ours.settimeout(_ANSWER_S)
        try:
            helper.answer()
            yield helper
        finally:
            # It ends at the end of its socket, and takes the program along where nothing came to use it.
            ours.close()
            process.wait(timeout=_ANSWER_S)


def _start(theirs: socket.socket, wanted: Mapping[str, int | None]) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-P", "-m", "howdah.control.privilege.helper"]
    arguments = [str(theirs.fileno()), msgspec.json.encode(wanted).decode()]
    bounds = "-all," + ",".join(f"+{each}" for each in CAPABILITIES)
    # Without root there is nothing to give up, and loading says that it needs root.
    less = ["setpriv", "--no-new-privs", f"--bounding-set={bounds}", "--inh-caps=-all", "--"]
    try:
        return subprocess.Popen(
            [*(less if is_root() else []), *program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except FileNotFoundError:
        raise HowdahError("agents need setpriv of util-linux, which is not on this host") from None
