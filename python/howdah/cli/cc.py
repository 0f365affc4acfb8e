"""``howdah cc``: list, load, unload, set, status, attach, detach."""

import sys
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from howdah import document
from howdah._native import CC_PROGRAMS, HowdahError, parse_rate
from howdah.cc import programs
from howdah.cc.choose import choose
from howdah.cc.places import ALL_PORTS, Place
from howdah.values.record import HostLimits
from howdah.words import cc as report

app = typer.Typer(
    help="Congestion control as programs, loaded into the running kernel, for any application.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

T = TypeVar("T")

Name = Annotated[str, typer.Argument(metavar="NAME", help=", ".join(CC_PROGRAMS), show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Verbose = Annotated[bool, typer.Option("--verbose", help="On refusal, print what the kernel said as well")]
Rate = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="On the wire, for each connection, as 400Mbit", show_default=False),
]
Window = Annotated[
    int | None, typer.Option(metavar="PACKETS", help="In flight, for each connection", show_default=False)
]
To = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="PREFIX", help="Far ends, as 10.9.0.0/16 or 2001:db8::/32", show_default=False
    ),
]
Ports = Annotated[
    str,
    typer.Option(
        "--ports",
        metavar="A-B",
        help="Ports of either end, as 5000-5100 or 5201. Default: all",
        show_default=False,
    ),
]
Cgroup = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Only of processes in this cgroup or below it, as /system.slice/postgresql.service",
        show_default=False,
    ),
]
Namespace = Annotated[
    int | None,
    typer.Option(
        metavar="INODE", help="Only in this network namespace, as lsns -t net lists it", show_default=False
    ),
]


@app.command("list")
def list_controls(json: Json = False) -> None:
    """List the kernel's congestion controls and howdah's, loaded or not, with their connections.

    Without root, connections of this network namespace alone are counted.

    \b
    Examples:
      howdah cc list
      howdah cc list --json
    """
    found = programs.controls()
    if json:
        document.show(found)
    else:
        _print(report.controls(found))


@app.command(
    epilog="\b\nParameters, their defaults and ranges are in: howdah cc list --json; in words in docs/cc.md."
)
def load(
    name: Name,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAMETER=VALUE", help="As guard_loss=5%", show_default=False),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Load a program into the kernel, until it is unloaded or the host restarts. Needs root.

    One that is loaded is swapped in place: its connections go on under the new program. Parameters not
    given then stay as they are.

    \b
    Examples:
      howdah cc load scalable
      howdah cc load hold --set guard_loss=5% --set headroom=2%
    """
    settings = [_pair(text) for text in parameters or ()]
    _tell(lambda: programs.load(name, settings), report.loading, json, verbose)


@app.command()
def unload(name: Name, json: Json = False, verbose: Verbose = False) -> None:
    """Take a program out of the kernel. Needs root.

    Connections on it go on with the default control of their network namespace. One that cannot be
    reached keeps the program until it ends, but no new one gets it.

    \b
    Example:
      howdah cc unload scalable
    """
    _tell(lambda: programs.unload(name), report.unloading, json, verbose)


@app.command("set")
def set_target(
    name: Annotated[str, typer.Argument(metavar="hold", help="The program to tune", show_default=False)],
    *,
    rate: Rate = None,
    window: Window = None,
    none: Annotated[bool, typer.Option("--none", help="Hold nothing: an ordinary control")] = False,
    flow: Annotated[
        str | None,
        typer.Option(
            metavar="[LOCAL-]REMOTE",
            help="Only these connections, as 10.9.0.2:5201 or 10.9.0.1:40000-10.9.0.2:5201",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Set what hold holds, for each connection or for those of --flow. Needs root.

    Live connections follow with their next ACKs.

    \b
    Examples:
      howdah cc set hold --rate 400Mbit
      howdah cc set hold --window 738 --flow 10.9.0.2:5201
      howdah cc set hold --none
    """
    if name.removeprefix("hd_") != "hold":
        raise HowdahError(f"{name} has nothing to set while it runs; parameters: howdah cc load {name} --set")
    if [rate is not None, window is not None, none].count(True) != 1:
        raise HowdahError("say what to hold: one of --rate RATE, --window PACKETS and --none")
    rate_bps = _rate(rate)
    _tell(lambda: programs.set_target(rate_bps, window, flow), report.targeted, json, verbose)


@app.command()
def status(json: Json = False, verbose: Verbose = False) -> None:
    """Show what is loaded, with its parameters, targets, rules and connections. Needs root.

    \b
    Examples:
      howdah cc status
      howdah cc status --json
    """
    found = _guarded(programs.status, verbose)
    if json:
        document.show(found)
        return
    for number, part in enumerate(report.status(found)):
        if number and not isinstance(part, str):
            print()
        _print(part)


@app.command()
def attach(
    *,
    to: To = None,
    ports: Ports = ALL_PORTS,
    cgroup: Cgroup = None,
    cc: Annotated[str, typer.Option("--cc", metavar="NAME", help="What they get", show_default=False)],
    rate: Rate = None,
    window: Window = None,
    namespace: Namespace = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Give connections of any program on this host a congestion control, by whose they are and where they go.

    Needs root. New connections get it when they are made, in either direction; those that live are moved. All
    others keep theirs. It lasts until it is detached or the host restarts. Give --to, --cgroup or both.

    \b
    Examples:
      howdah cc attach --to 10.9.0.0/16 --ports 5000-5100 --cc hold --rate 400Mbit
      howdah cc attach --to 2001:db8::/32 --ports 22 --cc scalable
      howdah cc attach --cgroup /system.slice/postgresql.service --cc hold --rate 50Mbit
    """
    place = Place(to, ports, namespace, cgroup)
    place.check()
    rate_bps = _rate(rate)
    control = choose(cc, HostLimits.here().congestion_controls_available).control
    _tell(
        lambda: programs.attach(place, control, rate_bps, window),
        lambda done: report.attaching(done, ended=False),
        json,
        verbose,
    )


@app.command()
def detach(
    *,
    to: To = None,
    ports: Ports = ALL_PORTS,
    cgroup: Cgroup = None,
    namespace: Namespace = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """End what attach began: connections get back the control they had. Needs root.

    \b
    Example:
      howdah cc detach --to 10.9.0.0/16 --ports 5000-5100
    """
    place = Place(to, ports, namespace, cgroup)
    place.check()
    _tell(
        lambda: programs.detach(place),
        lambda done: report.attaching(done, ended=True),
        json,
        verbose,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise HowdahError(f"--set {text} has no value; write for example --set guard_loss=5%")
    return name.strip(), value.strip()


def _rate(text: str | None) -> int | None:
    return None if text is None else parse_rate(text)


def _tell(act: Callable[[], T], words: Callable[[T], str], json: bool, verbose: bool) -> None:
    done = _guarded(act, verbose)
    if json:
        document.show(done)
    else:
        print(words(done))


def _guarded(act: Callable[[], T], verbose: bool) -> T:
    """What ``act`` gives. What the kernel said to a refused program is a note of the exception."""
    try:
        return act()
    except HowdahError as error:
        if verbose:
            print("\n".join(getattr(error, "__notes__", [])), file=sys.stderr)
        raise


def _print(part: object) -> None:
    Console(soft_wrap=True).print(part, highlight=False)
