"""``howdah profile``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from howdah import document
from howdah._native import parse_bytes, parse_duration

app = typer.Typer(rich_markup_mode=None, subcommand_metavar="")

_EPILOG = """\b
Examples:
  howdah profile
  howdah profile --cc cubic --cc htcp --streams 4
  howdah profile --path dtn2 --buffer 256MB --buffer auto --json

What each number means is in docs/profiles.md.
"""
_PLOT_EPILOG = """\b
Examples:
  howdah profile plot profile cubic.svg --cc cubic --buffer 1GB
  howdah profile plot traces ramp.png --cc scalable --streams 1 --rtt 183ms --rtt 366ms

What each figure is of is in docs/report.md. They need matplotlib: pip install 'howdah[figures]'
"""


class Figure(StrEnum):
    """What can be drawn of a selection."""

    PROFILE = "profile"
    THROUGHPUT = "throughput"
    SIZES = "sizes"
    BOXES = "boxes"
    FITS = "fits"
    TRANSITIONS = "transitions"
    TRACES = "traces"
    POINCARE = "poincare"
    EXPONENTS = "exponents"
    RELATION = "relation"
    MODELS = "models"


Paths = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="NAME", help="A host, or a lab's link in words.", show_default=False),
]
Controls = Annotated[
    list[str] | None, typer.Option("--cc", metavar="NAME", help="Congestion control.", show_default=False)
]
Streams = Annotated[list[int] | None, typer.Option("--streams", metavar="N", min=1, show_default=False)]
Buffers = Annotated[
    list[str] | None,
    typer.Option("--buffer", metavar="SIZE|auto", help="Socket buffer, as 256MB.", show_default=False),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option("--sweep", metavar="NAME", help="Runs of this sweep.", show_default=False),
]


@app.callback(invoke_without_command=True, epilog=_EPILOG)
def profile(
    context: typer.Context,
    *,
    path: Paths = None,
    cc: Controls = None,
    streams: Streams = None,
    buffer: Buffers = None,
    sweep: Sweeps = None,
    late: Annotated[bool, typer.Option("--late", help="Count runs that this machine spoilt.")] = False,
    files: Annotated[bool, typer.Option("--files", help="Count copies of files as well.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print all numbers as JSON, with the sigmoids' bootstrap.")
    ] = False,
) -> None:
    """Show throughput by RTT, as measured, and where it turns from concave to convex.

    Each option that selects can be given several times.
    """
    if context.invoked_subcommand is not None:
        return
    sizes = _sizes(buffer)
    # Loaded when the arguments are known to be right: numpy and the archive take a while.
    from rich.console import Console  # noqa: PLC0415

    from howdah.archive import Archive  # noqa: PLC0415
    from howdah.profiles.profile import DRAWS  # noqa: PLC0415
    from howdah.profiles.study import runs_with, study  # noqa: PLC0415
    from howdah.words.profile import parts  # noqa: PLC0415

    chosen = runs_with(
        Archive().runs(), path=path, congestion_control=cc, streams=streams, buffer_bytes=sizes, sweep=sweep
    )
    found = study(chosen, late=late, files=files, draws=DRAWS if json else 0)
    if json:
        document.show(found)
        return
    console = Console(soft_wrap=True)
    for part in parts(document.strange(found)):
        console.print(part, highlight=False)


@app.command("plot", epilog=_PLOT_EPILOG)
def plot(
    figure: Annotated[Figure, typer.Argument(metavar="FIGURE", help=", ".join(Figure))],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ends in .svg or .png.")],
    *,
    path: Paths = None,
    cc: Controls = None,
    streams: Streams = None,
    buffer: Buffers = None,
    rtt: Annotated[
        list[str] | None, typer.Option(metavar="TIME", help="As 45.6ms.", show_default=False)
    ] = None,
    sweep: Sweeps = None,
    json: Annotated[bool, typer.Option("--json", help="Print what the figure shows as JSON.")] = False,
) -> None:
    """Draw one figure of the runs chosen: the same kinds that howdah report has."""
    sizes = _sizes(buffer)
    rtts = None if rtt is None else [parse_duration(each) / 1e9 for each in rtt]
    from howdah.archive import Archive  # noqa: PLC0415
    from howdah.cli import report_command as command  # noqa: PLC0415
    from howdah.profiles.study import runs_with  # noqa: PLC0415

    chosen = runs_with(
        Archive().runs(),
        path=path,
        congestion_control=cc,
        streams=streams,
        buffer_bytes=sizes,
        rtt_s=rtts,
        sweep=sweep,
    )
    command.plot(chosen, figure, file, json=json)


def _sizes(buffer: list[str] | None) -> list[int | None] | None:
    return None if buffer is None else [None if each == "auto" else parse_bytes(each) for each in buffer]
