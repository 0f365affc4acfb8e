"""``howdah select``."""

from typing import Annotated

import typer

from howdah import document, interrupt
from howdah._native import parse_bytes, parse_duration, parse_rate
from howdah.text import printable

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """\b
Examples
  howdah select --rtt 93ms                   from the only profile that covers 93 ms
  howdah select --host dtn2                  at the round trip to dtn2, from its own runs where there are any
  howdah select --rtt 93ms --path dtn2       from the runs to dtn2
  howdah select --rtt 500ms --extrapolate    beyond the profile, by the models, moved by what was measured
  howdah select --rtt 93ms --rate 40Gbit     with no profile: by the models, for this capacity

The one taken has the highest lower bound: with 95 % its next run is at least as fast.
howdah cp --path dedicated takes the same, of what both hosts can use.
"""


@app.command("select", epilog=_EPILOG)
def select(
    *,
    rtt: Annotated[
        str | None, typer.Option(metavar="TIME", help="The round trip.", show_default="measured to --host")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="[USER@]HOST", help="Whose runs to take; measured to without --rtt."),
    ] = None,
    path: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose runs to take: a host, or a lab's link in words.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Of a transfer of this size, where runs are of several."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="The capacity the models are asked for.")
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Outside the profile, ask the models.")
    ] = False,
    most: Annotated[int, typer.Option("-n", min=0, metavar="N", help="Tell why not of N others.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON, with all others.")] = False,
    far_howdah: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where howdah is on the far host, if not in its PATH.")
    ] = None,
) -> None:
    """Say which congestion control, streams and buffers to take at a round trip, how fast, and how sure."""
    # Loaded when it is needed: numpy and the archive take a while.
    from howdah.library import select as selected  # noqa: PLC0415

    interrupt.install()
    found = selected(
        rtt_s=None if rtt is None else parse_duration(rtt) / 1e9,
        host=host,
        path=path,
        size_bytes=None if size is None else parse_bytes(size),
        capacity_bps=None if rate is None else parse_rate(rate),
        extrapolate=extrapolate,
        far_howdah=far_howdah,
    )
    from howdah.profiles.selection.answer import in_lines  # noqa: PLC0415

    if json:
        document.show(found)
    else:
        print("\n".join(map(printable, in_lines(found, most))))
