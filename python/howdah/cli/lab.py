"""``howdah lab``: emulated WANs on this machine."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from howdah import document
from howdah import text as words
from howdah._native import HowdahError, format_bytes, format_duration, format_rate
from howdah.cc.choose import choose
from howdah.cli.lab_options import HELP, takes_lab
from howdah.lab import daemon, messages, tree
from howdah.lab.hosts import CONGESTION_CONTROL
from howdah.lab.messages import LabReady, LabSetup
from howdah.lab.registry import LabEntry, Registry
from howdah.lab.session import Process
from howdah.lab.topology import Topology
from howdah.lab.tree import LabInterrupted
from howdah.values.link import CableDrops, Direction, LinkSpec, LinkStats
from howdah.values.record import HostLimits

app = typer.Typer(
    help="Hosts and a long link between them, emulated on this machine over real TCP.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_COMMAND = {"allow_interspersed_args": False}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The lab's name", show_default=False)]
Command = Annotated[
    list[str], typer.Argument(metavar="COMMAND", help="A program and its arguments", show_default=False)
]
Sshd = Annotated[
    bool, typer.Option("--sshd", help="OpenSSH on the far host, in a dumbbell on all; `ssh far` just works")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Control = Annotated[
    str | None,
    typer.Option(
        "--cc",
        metavar="NAME",
        help="Congestion control of sockets that choose none; howdah's has to be loaded. Default: cubic",
        show_default=False,
    ),
]


@app.command(context_settings=_COMMAND, epilog=HELP)
@takes_lab
def run(
    link: LinkSpec,
    topology: Topology,
    command: Command,
    *,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="Where COMMAND runs. Default: the first on the left"),
    ] = None,
    sshd: Sshd = False,
    cc: Control = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="At the end, print what the link did, on stderr")
    ] = False,
    json_stats: Annotated[
        str | None,
        typer.Option(
            "--json-stats",
            metavar="FILE",
            help="At the end, write it as JSON; - is stdout",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run COMMAND on a host of a lab of its own: of a pair the near one, unless told otherwise.

    HOWDAH_FAR is the far host's address, also called far; in a dumbbell it is the first right host's.
    The exit code is COMMAND's. Nothing is left behind.

    \b
    Examples:
      howdah lab run --rate 10Gbit --rtt 100ms -- sh -c 'ping -c 3 $HOWDAH_FAR'
      howdah lab run --rate 1Gbit --rtt 20ms --sshd -- scp -r data far:/tmp
      howdah lab run --rate 1Gbit,100Mbit --loss 0.01% --stats -- ./experiment
      howdah lab run --rate 1Gbit --rtt 183ms --cc scalable -- ./experiment
      howdah lab run --topology dumbbell --left 4 --rate 1Gbit --rtt 20ms --host left2 -- ping -c 3 right1
    """
    _require(command[0])
    known = [each.name for each in topology.hosts]
    if host is not None and host not in known:
        raise HowdahError(f"--host: no host is called {host}; this lab has {words.some(known)}")
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
            raise typer.Exit(interrupted.exit_code) from None
        if file:
            file.write(document.encode(ended.stats).decode())
    errors = Console(stderr=True)
    if stats:
        errors.print(*_tables(ended.stats), sep="\n")
    _warn(ended.stats)
    raise typer.Exit(ended.exit_code)


@app.command(epilog=HELP)
@takes_lab
def up(
    link: LinkSpec,
    topology: Topology,
    name: Name,
    *,
    sshd: Sshd = False,
    cc: Control = None,
    json: Json = False,
) -> None:
    """Bring up a lab that stays until: howdah lab down NAME.

    \b
    Examples:
      howdah lab up wan --rate 10Gbit --rtt 100ms --sshd
      howdah lab up star --topology dumbbell --left base20,base21 --right arch --rate 1Gbit --rtt 180ms --sshd
    """
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
        typer.echo(f"{name} is up: {_lab_words(link, topology)}; enter with: {enter}")


@app.command("exec", context_settings=_COMMAND)
def execute(
    name: Name,
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="near, far, left1, … or left-router", show_default=False)
    ],
    command: Command,
) -> None:
    """Run COMMAND on one of a lab's hosts or routers; the exit code is COMMAND's.

    \b
    Example:
      howdah lab exec wan far -- iperf3 -s
    """
    entry = Registry().find(name)
    # Options are looked for up to HOST only, so the -- that may follow it is still here.
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
    raise typer.Exit(code if code >= 0 else 128 - code)


@app.command()
def stats(name: Name, json: Json = False) -> None:
    """Show what a lab's link has carried, dropped and held."""
    found = messages.ask(Registry().find(name).ready.pid, "stats")
    if json:
        document.show(found)
    else:
        Console().print(*_tables(found), sep="\n")
    _warn(found)


@app.command("list")
def list_labs(json: Json = False) -> None:
    """List the labs that are up."""
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
        typer.echo("no lab is up; bring one up with: howdah lab up NAME --rate 10Gbit --rtt 100ms")
        return
    table = Table("name", "link", "up for", "machine", box=None, pad_edge=False)
    for entry in labs:
        age_s = (datetime.now(UTC) - entry.made_at).total_seconds()
        lab = _lab_words(entry.link, entry.topology)
        table.add_row(entry.name, lab, format_duration(age_s), _machine_words(entry))
    Console().print(table)


@app.command()
def down(name: Name, json: Json = False) -> None:
    """End a lab and all that runs in it."""
    last = daemon.down(name)
    if json:
        document.show({"name": name, "stats": last})
    else:
        typer.echo(f"{name} is down")
    if last:
        _warn(last)


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
        typer.echo(f"howdah: command {program} {why}; check its name, or PATH", err=True)
        raise typer.Exit(126 if exists else 127)


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
        typer.echo(f"howdah: note: {note}", err=True)


def _warn(stats: LinkStats) -> None:
    warning = stats.warning()
    if warning:
        typer.secho(f"howdah: warning: {warning}", err=True, fg="red" if sys.stderr.isatty() else None)


def _lab_words(link: LinkSpec, topology: Topology) -> str:
    """The lab in one line, as ``10 Gb/s, 100 ms round trip, 4 hosts to 1``."""
    ways = link.near_to_far, link.far_to_near
    said = [_rate_words(ways[0])]
    if ways[0].rate_bps != ways[1].rate_bps:
        said[0] += f" there, {_rate_words(ways[1])} back"
    said.append(f"{format_duration(sum(way.delay_ns for way in ways) / 1e9)} round trip")
    if any(way.loss or way.burst for way in ways):
        said.append("lossy")
    if any(way.changes for way in ways):
        said.append("changing")
    if topology.lan:
        said.append(f"{words.count(len(topology.left), 'host')} to {len(topology.right)}")
    return ", ".join(said)


def _machine_words(entry: LabEntry) -> str:
    try:
        spoilt = messages.ask(entry.ready.pid, "stats").lateness.spoilt
    except HowdahError:
        return "[red]does not answer[/red]"
    return "[red]too slow[/red]" if spoilt else "kept up"


def _rate_words(direction: Direction) -> str:
    return "unshaped" if direction.rate_bps is None else format_rate(direction.rate_bps)


def _tables(stats: LinkStats) -> list[Table]:
    """What the link did, and what the cables of hosts dropped if any did."""
    dropping = {name: drops for name, drops in (stats.cables or {}).items() if drops != CableDrops(0, 0)}
    return [_link_table(stats), *([_cables_table(dropping)] if dropping else [])]


def _cables_table(dropping: dict[str, CableDrops]) -> Table:
    table = Table("packets dropped", "at its router's port", "by the machine", box=None, pad_edge=False)
    for name, drops in dropping.items():
        table.add_row(name, f"{drops.queue:,}", f"{drops.machine:,}")
    return table


def _link_table(stats: LinkStats) -> Table:
    table = Table("", "near to far", "far to near", box=None, pad_edge=False, title_justify="left")
    ways = stats.directions["near_to_far"], stats.directions["far_to_near"]
    elapsed_s = stats.elapsed_ns / 1e9

    def row(name: str, shown: Callable[[Any], str]) -> None:
        table.add_row(name, *(shown(way) for way in ways))

    row("on the wire", lambda way: format_bytes(way.wire_bytes))
    row("mean rate", lambda way: format_rate(way.wire_bytes * 8 / elapsed_s) if elapsed_s else "")
    row("segments", lambda way: f"{way.segments:,}")
    for cause in ("queue", "loss", "burst", "outage", "machine"):
        if any(getattr(way.dropped, cause) for way in ways):
            row(f"dropped: {cause}", lambda way, cause=cause: f"{getattr(way.dropped, cause):,}")  # type: ignore[misc]
    row("deepest queue", lambda way: format_bytes(way.queue_bytes_max))
    row("longest in queue", lambda way: format_duration(way.queue_delay_max_ns / 1e9))
    late = stats.lateness
    if late.p50_ns is not None and late.p99_ns is not None:
        table.add_row(
            "released late by",
            f"{format_duration(late.p50_ns / 1e9)} median",
            f"{format_duration(late.p99_ns / 1e9)} for 1 in 100",
        )
    return table
