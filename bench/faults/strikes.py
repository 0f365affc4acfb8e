"""What goes wrong in a case of ``bench.faults``, at its moment, beside the copy that runs."""

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.faults import late, tap, trees
from bench.faults.cases import FAILING, LATE_MOMENTS, LINK_FAULTS, PARTS, SOURCE_FAULTS, Case, Fault
from bench.faults.disk import Disk
from bench.faults.failing import FailingDisk
from bench.processes import FAR, NEAR, Words, running
from howdah.lab import Lab
from howdah.lab.session import Process

_POLL_S = 0.01
_PREPARES_AT = 0.5
"""The part of the bytes after which a case prepares for a moment that comes when all have crossed."""
_LISTENS_S = 10.0


_LOGIN, _SERVER = Words("ssh ", "sshd"), Words("sshd: ", "[listener]")
_LISTENER = Words("[listener]", "[priv]")
_SIGNALS: dict[Fault, tuple[str, tuple[Words, ...]]] = {
    "near killed": ("KILL", (NEAR,)),
    "near interrupted": ("INT", (NEAR,)),
    "far killed": ("KILL", (FAR,)),
    "far terminated": ("TERM", (FAR,)),
    "both killed": ("KILL", (NEAR, FAR)),
    "login killed": ("KILL", (_LOGIN,)),
    "server of the session killed": ("KILL", (_SERVER,)),
}
_STOPS: dict[Fault, Words] = {"near stopped for a while": NEAR, "far stopped for a while": FAR}


class Scene(NamedTuple):
    """Where a case happens."""

    case: Case
    wan: Lab
    source: Path
    target: Path
    room: Path
    """The file system of the receiver, of which the target is a part."""
    disk: Disk | None
    """What that lies on, if it is not memory."""
    taps: Path
    """Where the tap on the wire keeps what it has done."""
    crossing_bytes: float
    """What crosses the link of the source's bytes, with the headers of IP and TCP."""
    link_changes_s: float
    """When the link changes, of its own clock."""
    failing: FailingDisk | None = None
    """What shows the copy its source or its target, if that is to fail."""

    @property
    def own_disk(self) -> Disk:
        """The disk of a case whose fault is of one."""
        if self.disk is None:
            raise AssertionError("the case was given no disk")
        return self.disk

    @property
    def failing_disk(self) -> FailingDisk:
        """The disk of a case whose fault is one that fails."""
        if self.failing is None:
            raise AssertionError("the case was given no disk that fails")
        return self.failing

    @property
    def where(self) -> Path:
        """Where the source is at the target."""
        return self.target if self.case.shape == "one file" else self.target / "source"

    def seen(self, path: Path) -> Path:
        """The path by which the copy finds what is at ``path``."""
        return self.failing.path(path) if self.failing else path

    @property
    def sender(self) -> str:
        """The host that has the source."""
        return "near" if self.case.push else "far"


def strike(scene: Scene, copy: Process) -> bool:
    """Waits for the moment, then has it go wrong; false if that came too late to meet the copy."""
    fault = scene.case.fault
    if fault in LINK_FAULTS:
        return _link_has_changed(scene, copy)
    if scene.case.moment in LATE_MOMENTS:
        _wait_for_bytes(scene, copy, _PREPARES_AT)
        with late.stopped_in(scene.case, scene.wan, scene.where, copy) as in_time:
            return in_time and _act(scene, copy)
    _wait_for_the_moment(scene, copy)
    return copy.poll() is None and _act(scene, copy)


def _act(scene: Scene, copy: Process) -> bool:
    """Has it go wrong now; false if there was nothing to act upon."""
    fault = scene.case.fault
    if fault in _SIGNALS:
        name, kinds = _SIGNALS[fault]
        _wait_for_processes(scene, copy, kinds)
        return _signal(scene.wan, name, *kinds)
    if fault in _STOPS:
        _wait_for_processes(scene, copy, (_STOPS[fault],))
        struck = _stop(scene, _STOPS[fault])
        # What started the command stops with it, unless it has ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(copy.pid, signal.SIGCONT)
        return struck
    if fault in FAILING:
        failing = FAILING[fault]
        scene.failing_disk.fail(failing.what, None if failing.once else scene.case.lasts_s)
        return True
    if fault in SOURCE_FAULTS:
        trees.change(scene.source, fault)
        return True
    return _OTHERS[fault](scene, copy)


def _link_has_changed(scene: Scene, copy: Process) -> bool:
    """Whether the copy still runs at the moment that the link has in its own schedule."""
    while copy.poll() is None:
        if scene.wan.stats().elapsed_ns >= scene.link_changes_s * 1e9:
            return True
        time.sleep(_POLL_S)
    return False


def _wait_for_the_moment(scene: Scene, copy: Process) -> None:
    part = PARTS.get(scene.case.moment)
    if part is None:
        # Python's own start is not the copy's.
        _wait_for_processes(scene, copy, (_LOGIN,))
    else:
        _wait_for_bytes(scene, copy, part)
    time.sleep(scene.case.after_s)


def _wait_for_bytes(scene: Scene, copy: Process, part: float) -> None:
    """Returns when that part of the bytes has crossed the link."""
    while copy.poll() is None:
        link = scene.wan.stats().directions
        crossed = link["near_to_far"] if scene.case.push else link["far_to_near"]
        if crossed.ip_bytes >= part * scene.crossing_bytes:
            break
        if part == 1.0 and scene.where.exists() and scene.case.shape == "one file":
            break
        time.sleep(_POLL_S)


def _wait_for_processes(scene: Scene, copy: Process, kinds: tuple[Words, ...]) -> None:
    """Returns when there is a process of each kind, as there may be none yet at the start."""
    while copy.poll() is None and not all(running(scene.wan, words) for words in kinds):
        time.sleep(_POLL_S)


def _signal(wan: Lab, name: str, *kinds: Words) -> bool:
    """Signals all processes of some kinds at once; whether there was one of each."""
    found = [[str(pid) for pid, _ in running(wan, words)] for words in kinds]
    pids = list(itertools.chain(*found))
    if pids:
        wan.run("near", ["kill", f"-{name}", *pids], stderr=subprocess.DEVNULL)
    return all(found)


def _stop(scene: Scene, words: Words) -> bool:
    struck = _signal(scene.wan, "STOP", words)
    time.sleep(scene.case.lasts_s)
    _signal(scene.wan, "CONT", words)
    return struck


def _restart_server(scene: Scene, _: Process) -> bool:
    """Kills the sshd of the far host with its sessions, and starts it again after a while."""
    # sshd shows in its title how it was started: sshd: /usr/sbin/sshd -D … [listener] 0 of 10-100 startups
    ((listener, title),) = running(scene.wan, _LISTENER)
    argv = title.removeprefix("sshd: ").partition(" [listener]")[0].split()
    scene.wan.run("near", ["kill", "-KILL", str(listener)], check=True)
    _signal(scene.wan, "KILL", _SERVER)
    time.sleep(scene.case.lasts_s)
    scene.wan.popen(
        "far", argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + _LISTENS_S
    while not running(scene.wan, _LISTENER):
        if time.monotonic() > until:
            raise TimeoutError("the far host's sshd did not start again")
        time.sleep(_POLL_S)
    return True


def _reset_connections(scene: Scene, _: Process) -> bool:
    reset = scene.wan.run("far", ["ss", "-HntK", "sport", "ne", "22"], stdout=subprocess.PIPE, text=True)
    return bool(reset.stdout.strip())


def _flip_a_bit_on_the_wire(scene: Scene, copy: Process) -> bool:
    tap.attach(scene.wan, scene.sender, scene.taps)
    copy.wait()
    # The same command afterwards is not what the tap is for.
    tap.detach(scene.wan, scene.sender)
    return tap.has_flipped(scene.taps)


def _fill_the_disk(scene: Scene, copy: Process) -> bool:
    """Leaves no room for what comes; a copy that has reserved what it needs does not meet it."""
    while scene.case.moment != "start":
        room = os.statvfs(scene.room)
        used = (room.f_blocks - room.f_bfree) * room.f_frsize
        words = ["mount", "--options", f"remount,size={used + room.f_frsize}", str(scene.room)]
        # Refused where more is used by now.
        if subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            break
    return copy.wait() != 0


def _crash(scene: Scene, _: Process) -> bool:
    scene.own_disk.crash()
    return True


def _remove_target(scene: Scene, _: Process) -> bool:
    # The copy may write a file while its folder is being removed.
    there = scene.target.exists()
    subprocess.run(["rm", "-rf", scene.target], stderr=subprocess.DEVNULL, check=False)
    return there


_OTHERS: dict[Fault, Callable[[Scene, Process], bool]] = {
    "server restarted": _restart_server,
    "connections reset": _reset_connections,
    "bit flipped on the wire": _flip_a_bit_on_the_wire,
    "disk full": _fill_the_disk,
    "file system crashes": _crash,
    "target removed": _remove_target,
}
