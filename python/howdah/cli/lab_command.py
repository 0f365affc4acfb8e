"""What ``howdah lab`` does: emulated WANs on this machine."""

import os
import shutil
import signal
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from howdah import document
from howdah._native import HowdahError, format_duration
from howdah.cc.choose import choose
from howdah.lab import daemon, labfile, messages, tree
from howdah.lab.hosts import CONGESTION_CONTROL
from howdah.lab.messages import LabReady, LabSetup
from howdah.lab.registry import LabEntry, Registry
from howdah.lab.session import Process
from howdah.lab.topology import Topology
from howdah.lab.tree import LabInterrupted
from howdah.text import some
from howdah.values.link import LinkSpec, LinkStats
from howdah.values.record import HostLimits
from howdah.words.lab import in_short, tables


def run(
    *,
    command: list[str],
    host: str | None,
    sshd: bool,
    cc: str | None,
    schedule: Path | None,
    stats: bool,
    json_stats: str | None,
    **lab: Any,  # noqa: ANN401, the options of a lab
) -> int:
    """Runs a command in a lab of its own and returns its exit code. Raises HowdahError.

    ``lab`` has the fields of ``labfile.LabOptions``.
    """
    link, topology = _lab(schedule, lab)
    _require(command[0])
    known = [each.name for each in topology.hosts]
    if host is not None and host not in known:
        raise HowdahError(f"--host: no host is called {host}; this lab has {some(known)}")
    with _output(json_stats) as file:
        try:
            setup = LabSetup(
                link,
                topology,
                sshd=sshd,
                command=tuple(command),
                host=host,
                congestion_control=_control(cc),
            )
            ended = tree.run(setup, _tell_notes)
        except LabInterrupted as interrupted:
            return interrupted.exit_code
        if file:
            file.write(document.encode(ended.stats).decode())
    if stats:
        Console(stderr=True).print(*tables(ended.stats), sep="\n")
    _warn(ended.stats)
    return ended.exit_code


def up(
    *,
    name: str,
    sshd: bool,
    cc: str | None,
    schedule: Path | None,
    json: bool,
    **lab: Any,  # noqa: ANN401, as above
) -> None:
    """Brings up a lab that stays, and says how to enter it. Raises HowdahError."""
    link, topology = _lab(schedule, lab)
    ready = daemon.up(name, LabSetup(link, topology, sshd=sshd, congestion_control=_control(cc)))
    _tell_notes(ready)
    if json:
        document.show(
            {
                "name": name,
                "pid": ready.pid,
                "hosts": {host.name: host.address for host in topology.hosts},
                "environment": ready.environment,
                "notes": ready.notes,
            }
        )
    else:
        enter = f"howdah lab exec {name} {topology.left[0]} -- sh"
        print(f"{name} is up: {in_short(link, topology)}; enter with: {enter}")


def execute(*, name: str, host: str, command: list[str]) -> int:
    """Runs a command on one of a lab's hosts and returns its exit code. Raises HowdahError."""
    entry = Registry().find(name)
    # Options are looked for up to NAME only, so the -- that may follow HOST is still here.
    command = command[1:] if command[0] == "--" else command
    if not command:
        raise HowdahError(f"no command; write: howdah lab exec {name} {host} -- COMMAND")
    _require(command[0])
    # A Ctrl-C is the command's; it decides what comes of it.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    process = Process(entry.ready, host, command, dies_with_parent=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda taken, _: process.send_signal(taken))
    code = process.wait()
    return code if code >= 0 else 128 - code


def show_stats(*, name: str, json: bool) -> None:
    """Prints what a lab's link did. Raises HowdahError."""
    found = messages.ask(Registry().find(name).ready.pid, "stats")
    if json:
        document.show(found)
    else:
        Console().print(*tables(found), sep="\n")
    _warn(found)


def list_labs(*, json: bool) -> None:
    """Prints the labs that are up."""
    labs = daemon.living()
    if json:
        document.show(
            [
                {
                    "name": entry.name,
                    "made_at": entry.made_at,
                    "pid": entry.lab.pid,
                    "link": entry.link,
                    "topology": entry.topology,
                }
                for entry in labs
            ]
        )
        return
    if not labs:
        print("no lab is up; bring one up with: howdah lab up NAME --rate 10Gbit --rtt 100ms")
        return
    table = Table("name", "link", "up for", "machine", box=None, pad_edge=False)
    for entry in labs:
        age_s = (datetime.now(UTC) - entry.made_at).total_seconds()
        lab = in_short(entry.link, entry.topology)
        table.add_row(entry.name, lab, format_duration(age_s), _machine_words(entry))
    Console().print(table)


def down(*, name: str, json: bool) -> None:
    """Ends a lab and says so. Raises HowdahError."""
    last = daemon.down(name)
    if json:
        document.show({"name": name, "stats": last})
    else:
        print(f"{name} is down")
    if last:
        _warn(last)


def _lab(schedule: Path | None, options: dict[str, Any]) -> tuple[LinkSpec, Topology]:
    """The lab of a file with options over it. Raises HowdahError."""
    return labfile.build(labfile.LabOptions(**options), schedule)


def _control(name: str | None) -> str:
    """The kernel's name of the control; refuses what neither it nor howdah has, or is not loaded."""
    if name is None:
        return CONGESTION_CONTROL
    available = HostLimits.here().congestion_controls_available
    choice = choose(name, available)
    if choice.source != "missing":
        return choice.control
    if choice.program is not None:
        raise HowdahError(f"--cc {name}: not in this kernel; load it with: howdah cc load {choice.program}")
    raise HowdahError(
        f"--cc {name}: not in this kernel, which has {' '.join(available)}; see: howdah cc list"
    )


def _require(program: str) -> None:
    """Exits as a shell does when ``program`` cannot be run."""
    if shutil.which(program) is None:
        exists = os.sep in program and Path(program).exists()
        why = "is not executable" if exists else "is not here"
        print(f"howdah: command {program} {why}; check its name, or PATH", file=sys.stderr)
        raise SystemExit(126 if exists else 127)


def _output(name: str | None) -> Any:  # noqa: ANN401, a context with a text file or nothing
    """Where the statistics go; opened first, so that a long run is not lost to a bad name."""
    if name is None:
        return nullcontext()
    if name == "-":
        return nullcontext(sys.stdout)
    try:
        return Path(name).open("w", encoding="utf-8")
    except OSError as error:
        raise HowdahError(f"cannot write {name}: {error.strerror}") from None


def _tell_notes(ready: LabReady) -> None:
    for note in ready.notes:
        print(f"howdah: note: {note}", file=sys.stderr)


def _warn(stats: LinkStats) -> None:
    warning = stats.warning()
    if warning:
        red, plain = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
        print(f"{red}howdah: warning: {warning}{plain}", file=sys.stderr)


def _machine_words(entry: LabEntry) -> str:
    try:
        spoilt = messages.ask(entry.ready.pid, "stats").lateness.spoilt
    except HowdahError:
        return "[red]does not answer[/red]"
    return "[red]too slow[/red]" if spoilt else "kept up"
