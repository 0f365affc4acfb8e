"""The privileged process of ``howdah control``: shares and rules of this host's kernel, and nothing else.

It is started by ``remote.py`` with a socket and the hosts that it is for, opens no other connection, and ends
when the other end of that socket has gone. What is in force then stays so until its leases run out; an agent
that starts again finds it by the host's name.

A host has one helper at a time: of two, the one that ends would take away what the other has in force.
"""

import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from howdah import HowdahError, decoding
from howdah.cc import programs
from howdah.cc.shares import Placed, Shares, cgroup_id, now_ns
from howdah.control.leases.agent import Held, Kernel
from howdah.control.leases.messages import Measured
from howdah.control.policy.members import Member
from howdah.control.policy.policyfile import LEASE_S_MAX
from howdah.control.privilege import protocol
from howdah.control.privilege.protocol import Answer, Hold, Leave, Measure, Place, ReadHeld, Release
from howdah.guarded import guarded
from howdah.interrupt import SIGNALS

_PROGRAM = "hold"
_UNTIL_MAX_NS = round(LEASE_S_MAX * 1.01e9)
"""The longest lease from now. No policy has a longer one; clocks may differ by 1 %."""
LOCKS = Path("/run/howdah")
"""The folder of howdah's locks, which loading a program has made."""
_LOOK_S = 0.25
"""The time between two looks whether rules still stand: one takes milliseconds, and grants wait for it."""
_CLAIM_S = 2.0
"""The time in which the helper of an agent that was killed has ended."""
_CLAIM_AGAIN_S = 0.05


class Host:
    """The kernel of one host, or of one network namespace that stands for a host, under ``hd_hold``."""

    _loaded = False
    """Whether this process loaded the program, for whichever of its hosts."""

    def __init__(self, name: str, namespace: int | None = None) -> None:
        """``namespace`` is the inode of the only network namespace it is for.

        Raises HowdahError where ``hd_hold`` cannot be loaded, which needs root.
        """
        self._namespace = namespace
        load()
        self._shares = Shares(_owner(name, namespace))
        self._defined = {share.name for share in self._shares.all()}
        self._members: Mapping[str, Member] = {}
        self._placed: tuple[list[Placed], dict[str, int | None]] | None = None
        self._looked_s = time.monotonic()

    def held(self) -> dict[str, Held]:
        """All shares of this host, as they were left by whoever set them."""
        return {
            share.name: Held(share.rate_bps, share.minimum_bps, share.until_ns)
            for share in self._shares.all()
        }

    def hold(self, flow: str, held: Held) -> None:
        """Gives a flow this share by one write to a map; a new flow is defined first."""
        new = flow not in self._defined
        if new:
            self._shares.define(flow, held.minimum_bps)
        try:
            self._shares.set(flow, held.rate_bps, held.minimum_bps, held.until_ns)
        except BaseException:
            if new:
                self._shares.remove(flow)
            raise
        self._defined.add(flow)

    def release(self, flow: str) -> None:
        """Gives the flow's connections back the control they had."""
        self._defined.discard(flow)
        self._place()
        self._shares.remove(flow)

    def measured(self) -> dict[str, Measured]:
        """The counts of the kernel by flow."""
        return {
            share.name: Measured(share.sent_bytes, share.acked_bytes, share.connections, share.active)
            for share in self._shares.all()
        }

    def place(self, members: Mapping[str, Member]) -> list[str]:
        """Has the members' connections under the shares that there are; does nothing where their rules stand.

        Returns the cgroups that are not there, as before a service has started. Called again, it places their
        members when they are.
        """
        self._members = members
        return self._place()

    def leave(self) -> None:
        """Ends rules and shares; unloads the program if this process loaded it and nothing else uses it."""
        self._shares.place([])
        for flow in self._defined:
            self._shares.remove(flow)
        self._defined, self._placed = set(), None
        unload()

    def _place(self) -> list[str]:
        """Returns the cgroups that are not there."""
        mine = {flow: member for flow, member in sorted(self._members.items()) if flow in self._defined}
        wanted = [Placed(member.place(self._namespace), flow) for flow, member in mine.items()]
        # One that was made anew has its path and another id.
        ids = {each.cgroup: cgroup_id(each.cgroup) for each in mine.values() if each.cgroup}
        if (wanted, ids) != self._placed or not self._stand(mine, ids):
            self._shares.place(wanted)
            self._placed = wanted, ids
        return [path for path, number in ids.items() if number is None]

    def _stand(self, members: Mapping[str, Member], ids: Mapping[str, int | None]) -> bool:
        """Whether the kernel has the rules of all members whose cgroups are there: others may end rules."""
        now_s = time.monotonic()
        if now_s < self._looked_s + _LOOK_S:
            return True
        self._looked_s = now_s
        given = {rule.target.share for rule in programs.rules() if rule.target}
        numbers = {share.name: share.number for share in self._shares.all()}
        here = [flow for flow, member in members.items() if not member.cgroup or ids[member.cgroup]]
        return all(numbers[flow] in given for flow in here)


def _owner(name: str, namespace: int | None) -> str:
    """The owner of the shares of a host."""
    return name if namespace is None else f"{name}@{namespace}"


def claim(name: str, namespace: int | None) -> Path:
    """Makes this process the only helper of a host as long as it lives; the file that is locked for that.

    Raises HowdahError where another one is.
    """
    path = LOCKS / f"agent-{_owner(name, namespace)}.lock"
    until_s = time.monotonic() + _CLAIM_S
    while not _locked(path):
        if time.monotonic() > until_s:
            with suppress(OSError):
                agent = path.read_text(encoding="ascii", errors="replace")
                raise HowdahError(
                    f"an agent of {name} runs on this machine already, process {agent}; each host has one: "
                    "end that one first, or give this one the name of another host"
                )
        time.sleep(_CLAIM_AGAIN_S)
    return path


def _locked(path: Path) -> bool:
    """Whether this process has the lock now, until it ends."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HowdahError(f"cannot lock {path}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it may have taken the file away meanwhile.
        if path.stat().st_ino != os.fstat(lock).st_ino:
            raise BlockingIOError
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        return False
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getppid()).encode(), 0)
    return True


def load() -> None:
    """Loads the program unless it is loaded. Raises HowdahError where that cannot be, as without root."""
    if programs.load(_PROGRAM).action == "loaded":
        Host._loaded = True


def unload() -> None:
    """Unloads the program if this process loaded it and nothing uses it, as after a start that failed."""
    if Host._loaded:
        found = programs.status()
        if not (found.shares or found.rules or found.default_target):
            programs.unload(_PROGRAM)
            Host._loaded = False


def main() -> int:
    """Serves the socket whose number is the first argument, for the hosts in the second one, in JSON."""
    for number in SIGNALS:
        # They go to all processes of a service or a terminal; the other end says when to end.
        signal.signal(number, signal.SIG_IGN)
    wanted = decoding.from_json(sys.argv[2], dict[str, int | None])
    locks: list[Path] = []
    with socket.socket(fileno=int(sys.argv[1])) as channel, suppress(EOFError, ConnectionError):
        try:
            kernels = _kernels(channel, wanted, locks)
            while kernels is not None:
                protocol.send(channel, answer(protocol.receive(channel), kernels))
        finally:
            unload()
            for each in locks:
                each.unlink(missing_ok=True)
    return 0


def _kernels(
    channel: socket.socket, wanted: Mapping[str, int | None], locks: list[Path]
) -> dict[str, Host] | None:
    """The kernels of the hosts, once the other end has been told; null: it was told why there are none."""
    made = {}
    try:
        load()
        for name, namespace in wanted.items():
            locks.append(claim(name, namespace))
            made[name] = Host(name, namespace)
    except HowdahError as error:
        protocol.send(channel, Answer(wrong=str(error)))
        return None
    protocol.send(channel, Answer())
    return made


def answer(frame: bytes, kernels: Mapping[str, Kernel]) -> Answer:
    """Does what a frame asks for, or refuses it."""
    try:
        request = protocol.read(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Answer(wrong=f"no request to the helper: {error}")
    kernel = kernels.get(request.host)
    if kernel is None:
        return Answer(wrong=f"the helper is not for host {request.host!r}")
    value: object = None
    try:
        match request:
            case ReadHeld():
                value = kernel.held()
            case Hold(flow=flow):
                _check_lease(request)
                kernel.hold(flow, Held(request.rate_bps, request.minimum_bps, request.until_ns))
            case Release(flow=flow):
                kernel.release(flow)
            case Measure():
                value = kernel.measured()
            case Place(members=members):
                value = kernel.place(members)
            case Leave():
                kernel.leave()
    except HowdahError as error:
        return Answer(wrong=str(error))
    except OverflowError:
        return Answer(wrong=f"{request.__struct_config__.tag} with a number of more than 64 bits")
    return Answer(value=msgspec.Raw(msgspec.json.encode(value)))


def _check_lease(request: Hold) -> None:
    left_ns = request.until_ns - now_ns()
    if left_ns > _UNTIL_MAX_NS:
        raise HowdahError(
            f"a lease of {left_ns / 1e9:.0f} s for {request.flow}; the longest is {LEASE_S_MAX:.0f} s"
        )


if __name__ == "__main__":
    sys.exit(guarded(main))
