"""``howdah report``."""

from pathlib import Path
from typing import Annotated

import typer

from howdah.archive import Archive

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """\b
Examples
  howdah report                               report.html from all runs of the path with most
  howdah report --sweep hpdc17-two-hours      of one sweep
  howdah report --path dtn2 -o dtn2.html      of one host
  howdah report --json                        what the page says, without the figures

The page is one file that needs no network. Figures need matplotlib: pip install 'howdah[figures]'
"""


@app.command("report", epilog=_EPILOG)
def report(
    sweep: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this sweep.")] = None,
    path: Annotated[
        str | None, typer.Option(metavar="PATH", help="The path, as howdah profile names it.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The page; - is standard output.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print what the page says; write it only with -o.")
    ] = False,
) -> None:
    """Make a page: what was measured, beside what the papers say, with their figures from our runs."""
    from howdah.cli import report_command as command  # noqa: PLC0415

    command.report(Archive(), sweep=sweep, path=path, file=output, json=json)
