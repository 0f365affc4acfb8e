"""``howdah lab``: emulated WANs on this machine."""

import functools
import inspect
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
from howdah._native import HowdahError, format_bytes, format_duration, format_rate
from howdah.cc.choose import choose
from howdah.lab import control, linkfile, named
from howdah.lab import run as foreground
from howdah.lab.control import Ready, Setup
from howdah.lab.enter import Process
from howdah.lab.hosts import CONGESTION_CONTROL, HOSTS
from howdah.lab.link import Direction, LinkSpec, LinkStats
from howdah.lab.registry import Entry, Registry
from howdah.lab.tree import Interrupted
from howdah.record import HostLimits

app = typer.Typer(
    help="Two hosts and a long link between them, emulated on this machine over real TCP.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_COMMAND = {"allow_interspersed_args": False}

_LINK_HELP = """
RATE, SIZE of the queue, SHARE and TIME of the jitter take one value for both ways, or two with a comma:
near to far, far to near.

FILE is TOML with the same keys, and what options cannot say:

\b
  rate = "10Gbit"
  rtt = "100ms"
  burst = { enter = "0.001%", leave = "20%" }
  [far_to_near]              # or near_to_far: wins over the above
  delay = "80ms"             # one way
  [[change]]                 # as many as you like, in the order of time
  at = "5s"
  direction = "near_to_far"  # without: both
  outage = true              # or rate, delay, loss, burst, drop = 1
"""

_LINK_OPTIONS: dict[str, Any] = {
    "rate": (str, "RATE", "On the wire, as 10Gbit. Default: not shaped"),
    "rtt": (str, "TIME", "Round trip, half each way. Default: 0ms"),
    "queue": (str, "SIZE", "Drop-tail queue, in bytes on the wire. Default: one bandwidth-delay product"),
    "loss": (str, "SHARE", "Of wire segments, each for itself, as 0.01%"),
    "burst_loss": (
        str,
        "ENTER,LEAVE",
        "Bursts (Gilbert–Elliott), per wire segment, as 0.001%,20%[,BAD[,GOOD]]",
    ),
    "jitter": (str, "TIME", "On top of the delay; never reorders"),
    "mtu": (int, "BYTES", "Default: 1500"),
    "frame_overhead": (str, "SIZE", "Counted with each frame. Default: Ethernet's 38B"),
    "seed": (int, "N", "Of loss and jitter. Default: 1"),
    "schedule": (Path, "FILE", "The link and its changes in time, as TOML; options win over it"),
}


def _takes_link(command: Callable[..., None]) -> Callable[..., None]:
    """Gives ``command`` the link's options in place of its parameter ``link``."""
    own = inspect.signature(command, eval_str=True)
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, typer.Option(metavar=metavar, help=text)],
        )
        for name, (kind, metavar, text) in _LINK_OPTIONS.items()
    ]

    @functools.wraps(command)
    def taking(**given: Any) -> None:  # noqa: ANN401, whatever the command takes
        typed = {name: given.pop(name) for name in _LINK_OPTIONS}
        file = typed.pop("schedule")
        command(link=linkfile.build(linkfile.Options(**typed), file), **given)

    others = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.parameters.values()]
    shown = [*(other for other in others if other.name != "link"), *options]
    taking.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    taking.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return taking


Name = Annotated[str, typer.Argument(metavar="NAME", help="The lab's name", show_default=False)]
Command = Annotated[
    list[str], typer.Argument(metavar="COMMAND", help="A program and its arguments", show_default=False)
]
Sshd = Annotated[bool, typer.Option("--sshd", help="An OpenSSH server on the far host; `ssh far` just works")]
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


@app.command(context_settings=_COMMAND, epilog=_LINK_HELP)
@_takes_link
def run(
    link: LinkSpec,
    command: Command,
    *,
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
    """Run COMMAND on the near host of a lab of its own.

    HOWDAH_FAR is the far host's address, also called far. The exit code is COMMAND's. Nothing is left behind.

    \b
    Examples:
      howdah lab run --rate 10Gbit --rtt 100ms -- sh -c 'ping -c 3 $HOWDAH_FAR'
      howdah lab run --rate 1Gbit --rtt 20ms --sshd -- scp -r data far:/tmp
      howdah lab run --rate 1Gbit,100Mbit --loss 0.01% --stats -- ./experiment
      howdah lab run --rate 1Gbit --rtt 183ms --cc scalable -- ./experiment
    """
    _require(command[0])
    with _output(json_stats) as file:
        try:
            setup = Setup(link, sshd=sshd, command=tuple(command), congestion_control=_control(cc))
            ended = foreground.run(setup, _tell_notes)
        except Interrupted as interrupted:
            raise typer.Exit(interrupted.exit_code) from None
        if file:
            file.write(document.encode(ended.stats).decode())
    errors = Console(stderr=True)
    if stats:
        errors.print(_stats_table(ended.stats))
    _warn(ended.stats)
    raise typer.Exit(ended.exit_code)


@app.command(epilog=_LINK_HELP)
@_takes_link
def up(link: LinkSpec, name: Name, sshd: Sshd = False, cc: Control = None, json: Json = False) -> None:
    """Bring up a lab that stays until: howdah lab down NAME.

    \b
    Example:
      howdah lab up wan --rate 10Gbit --rtt 100ms --sshd
    """
    ready = named.up(name, Setup(link, sshd=sshd, congestion_control=_control(cc)))
    _tell_notes(ready)
    if json:
        document.show(
            {"name": name, "pid": ready.pid, "environment": ready.environment, "notes": ready.notes}
        )
    else:
        typer.echo(f"{name} is up: {_link_words(link)}; enter with: howdah lab exec {name} near -- sh")


@app.command("exec", context_settings=_COMMAND)
def execute(
    name: Name,
    host: Annotated[str, typer.Argument(metavar="near|far", help="The host to run on", show_default=False)],
    command: Command,
) -> None:
    """Run COMMAND on one of a lab's hosts; the exit code is COMMAND's.

    \b
    Example:
      howdah lab exec wan far -- iperf3 -s
    """
    if host not in HOSTS:
        raise HowdahError(f"no host is called {host}; a lab has near and far")
    entry = Registry().find(name)
    # Options are looked for up to HOST only, so the -- that may follow it is still here.
    command = command[1:] if command[0] == "--" else command
    if not command:
        raise HowdahError(f"no command; write: howdah lab exec {name} {host} -- COMMAND")
    _require(command[0])
    # A Ctrl-C is the command's; it decides what comes of it.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    process = Process(entry.ready, host, command, tied=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda taken, _: process.send_signal(taken))
    code = process.wait()
    raise typer.Exit(code if code >= 0 else 128 - code)


@app.command()
def stats(name: Name, json: Json = False) -> None:
    """Show what a lab's link has carried, dropped and held."""
    found = control.ask(Registry().find(name).ready.pid, "stats")
    if json:
        document.show(found)
    else:
        Console().print(_stats_table(found))
    _warn(found)


@app.command("list")
def list_labs(json: Json = False) -> None:
    """List the labs that are up."""
    labs = named.living()
    if json:
        document.show(
            [{"name": e.name, "made_at": e.made_at, "pid": e.lab.pid, "link": e.link} for e in labs]
        )
        return
    if not labs:
        typer.echo("no lab is up; bring one up with: howdah lab up NAME --rate 10Gbit --rtt 100ms")
        return
    table = Table("name", "link", "up for", "machine", box=None, pad_edge=False)
    for entry in labs:
        age_s = (datetime.now(UTC) - entry.made_at).total_seconds()
        table.add_row(entry.name, _link_words(entry.link), format_duration(age_s), _machine_words(entry))
    Console().print(table)


@app.command()
def down(name: Name, json: Json = False) -> None:
    """End a lab and all that runs in it."""
    last = named.down(name)
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


def _tell_notes(ready: Ready) -> None:
    for note in ready.notes:
        typer.echo(f"howdah: note: {note}", err=True)


def _warn(stats: LinkStats) -> None:
    warning = stats.warning()
    if warning:
        typer.secho(f"howdah: warning: {warning}", err=True, fg="red" if sys.stderr.isatty() else None)


def _link_words(link: LinkSpec) -> str:
    """The link in one line, as ``10 Gb/s, 100 ms``."""
    ways = link.near_to_far, link.far_to_near
    words = [_rate_words(ways[0])]
    if ways[0].rate_bps != ways[1].rate_bps:
        words[0] += f" there, {_rate_words(ways[1])} back"
    words.append(f"{format_duration(sum(way.delay_ns for way in ways) / 1e9)} round trip")
    if any(way.loss or way.burst for way in ways):
        words.append("lossy")
    if any(way.changes for way in ways):
        words.append("changing")
    return ", ".join(words)


def _machine_words(entry: Entry) -> str:
    try:
        spoilt = control.ask(entry.ready.pid, "stats").lateness.spoilt
    except HowdahError:
        return "[red]does not answer[/red]"
    return "[red]too slow[/red]" if spoilt else "kept up"


def _rate_words(direction: Direction) -> str:
    return "unshaped" if direction.rate_bps is None else format_rate(direction.rate_bps)


def _stats_table(stats: LinkStats) -> Table:
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
