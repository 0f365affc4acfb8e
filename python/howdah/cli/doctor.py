"""``howdah doctor``."""

from typing import Annotated

import typer

from howdah import document, interrupt
from howdah._native import parse_duration, parse_rate
from howdah.doctor.report import examine
from howdah.words.doctor import in_words

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("doctor")
def doctor(
    host: Annotated[
        str | None,
        typer.Argument(metavar="[HOST]", help="A far host to look at as well.", show_default=False),
    ] = None,
    *,
    rate: Annotated[str, typer.Option(metavar="RATE", help="Judge for this rate.")] = "10Gbit",
    rtt: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Judge for this round trip.  [default: measured to HOST, else 100ms]"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    far_howdah: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where howdah is on the far host, if not in its PATH.")
    ] = None,
) -> None:
    """Say what this host can and cannot do, what each gap costs, and the lines that mend it.

    Exits with 0 when nothing found holds a transfer below the rate, with 1 when something does (GAP).
    """
    interrupt.install()
    report = examine(
        rate_bps=parse_rate(rate),
        rtt_s=None if rtt is None else parse_duration(rtt) / 1e9,
        host=host,
        far_howdah=far_howdah,
    )
    if json:
        document.show(report)
    else:
        print(in_words(document.strange(report)))
    raise typer.Exit(0 if report.ready else 1)
