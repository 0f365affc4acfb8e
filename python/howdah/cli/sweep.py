"""``howdah sweep``."""

from typing import Annotated

import typer

from howdah.cli import sweep_command as command

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """\b
Examples
  howdah sweep dtn2                        the path to a host: some minutes
  howdah sweep dtn2 --for 20min            as much as fits in the time
  howdah sweep dtn2 --dry-run              what would be measured, and how long it takes
  howdah sweep scenarios/hpdc17-quick.toml a plan, here in labs on this machine

Each run goes from memory to memory and is a record in the archive, with its trace. A sweep that was stopped,
however that was, goes on when the same command is given again. A plan is TOML:

\b
  name = "dtn2-streams"
  host = "dtn2"                            # or a table [lab] with rate and rtt
  repeats = 3
  [[runs]]                                 # all combinations
  congestion_control = ["cubic", "htcp"]
  streams = [1, 4, 10]
  buffer = ["auto", "256MB"]
  time = "10s"                             # or size = "20GB"

docs/sweep.md has every key.
"""


@app.command("sweep", epilog=_EPILOG)
def sweep(
    what: Annotated[
        str,
        typer.Argument(
            metavar="HOST|PLAN.toml", help="A host as ssh knows it, or a plan.", show_default=False
        ),
    ],
    *,
    lasting: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Of HOST: fit all runs into it, as 20min."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells and the time they take; measure nothing.")
    ] = False,
    beside_others: Annotated[
        bool, typer.Option("--beside-others", help="Measure although another howdah is at work on this host.")
    ] = False,
    far_howdah: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where howdah is on the far host, if not in its PATH.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No line for each run.")] = False,
) -> None:
    """Measure a path with many configurations: congestion controls, streams, buffers."""
    asked = command.Asked(what, lasting, far_howdah, dry_run, beside_others, json, quiet)
    raise typer.Exit(command.run(asked))
