"""Labs that stay under a name, and a lab around one command; ``howdah.Lab`` is for a program's own use."""

from collections.abc import Callable, Sequence
from pathlib import Path

from howdah import HowdahError
from howdah.arguments import BadArgument, NotHere, literal
from howdah.cc import choose
from howdah.interrupt import Interrupted
from howdah.lab import labfile, messages, tree
from howdah.lab.daemon import LabEntry, Registry, down, living, up
from howdah.lab.hosts import CONGESTION_CONTROL
from howdah.lab.labfile import LabOptions
from howdah.lab.messages import LabReady, LabSetup
from howdah.lab.session import Process
from howdah.library.ended import Name
from howdah.text import some
from howdah.values.link import LinkStats
from howdah.values.record import HostLimits

__all__ = ["LabEntry", "LabOptions", "LabReady", "LabSetup", "down", "find", "kept_up", "lab_setup", "living"]
__all__ += ["run", "start", "stats", "up"]


def lab_setup(
    options: LabOptions,
    file: Name | None = None,
    *,
    sshd: bool = False,
    congestion_control: str | None = None,
    command: Sequence[str] = (),
    host: str | None = None,
) -> LabSetup:
    """The lab of a TOML file (docs/lab.md) with options over it, checked.

    ``sshd`` runs an OpenSSH server on each far host. ``congestion_control`` is for sockets that choose none;
    None: CUBIC. ``command`` is what ``run`` runs, on ``host``; None: the first of the near side. Raises
    HowdahError naming the file, the key or the option, and for a control that this kernel does not have.
    """
    link, topology = labfile.build(options, None if file is None else Path(file))
    if host is not None and host not in (known := [each.name for each in topology.hosts]):
        raise BadArgument(f"{{host}}: no host is called {literal(host)}; this lab has {some(known)}")
    control = _control(congestion_control)
    return LabSetup(link, topology, sshd=sshd, command=(*command,), host=host, congestion_control=control)


def run(setup: LabSetup, on_ready: Callable[[LabReady], None]) -> tuple[int, LinkStats]:
    """Runs the command of a lab to its end; returns its exit code and the statistics of the link.

    The command has this process's terminal and its signals, so this is for a program with nothing else to do;
    it needs a single thread. Raises HowdahError when the lab cannot be made or is killed, and Interrupted
    for a signal that came before the command began.
    """
    try:
        ended = tree.run(setup, on_ready)
    except tree.LabInterrupted as interrupted:
        raise Interrupted(interrupted.exit_code - 128) from None
    return ended.exit_code, ended.stats


def find(name: str) -> LabEntry:
    """The lab of this name. Raises HowdahError when there is none; why one broke is said once."""
    return Registry().find(name)


def start(lab: LabEntry, host: str, command: Sequence[str]) -> Process:
    """Starts a command on one of a lab's hosts; it is killed when this thread ends.

    Raises HowdahError when the lab has no such host.
    """
    return Process(lab.ready, host, command, dies_with_parent=True)


def stats(lab: LabEntry) -> LinkStats:
    """What the lab's link did so far. Raises HowdahError when the lab does not answer."""
    return messages.ask(lab.ready.pid, "stats", lab.name)


def kept_up(lab: LabEntry) -> bool | None:
    """Whether this machine was fast enough for the link so far; None when the lab does not answer."""
    try:
        return not stats(lab).lateness.spoilt
    except HowdahError:
        return None


def _control(name: str | None) -> str:
    """The kernel's name of the control; refuses what neither it nor howdah has, or is not loaded."""
    if name is None:
        return CONGESTION_CONTROL
    available = HostLimits.here().congestion_controls_available
    choice = choose(name, available)
    if choice.source != "missing":
        return choice.control
    if choice.program is not None:
        mend = f"; load it with: howdah cc load {choice.program}"
    else:
        mend = f", which has {' '.join(available)}; see: howdah cc list"
    raise NotHere(f"{{congestion_control}} is not in this kernel{mend}", congestion_control=name)
