"""``howdah cp``."""

from typing import Annotated, get_args

import typer

from howdah.cli import copy_command as command
from howdah.cli.arguments import Arguments
from howdah.values.plan import PathKind

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """\b
Examples
  howdah cp run42/ dtn2:/archive/          the folder run42 into /archive
  howdah cp run42/. dtn2:/archive/42/      what is in run42 into /archive/42, made if missing
  howdah cp me@dtn2:a.h5 me@dtn2:b.h5 .    two files from there to here
  howdah cp 'me@[2001:db8::7]:/d' /data    an IPv6 address
  howdah cp --memory 10s dtn2:             memory to memory: what the path carries, no disk
  howdah cp --path dedicated big dtn2:/d   by what was measured on this path (howdah sweep)
  howdah cp --path guaranteed --class images run42/ dtn2:/d
                                           at the share that its controller gives images
  howdah cp --dry-run run42/ dtn2:/d       the plan, its reasons, and what would be copied

What is at the destination already with the same size and time is skipped. A file appears under its
name when it is whole. The controller of a guaranteed path is at HOWDAH_CONTROL (docs/control.md). The far
end needs howdah installed, and is started over ssh.
"""


@app.command("cp", epilog=_EPILOG)
def cp(
    names: Annotated[
        list[str],
        typer.Argument(metavar="SRC... DST", help="One side is [user@]host:path.", show_default=False),
    ],
    *,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE|TIME", help="Send so much, or so long, from memory to memory; DST is HOST:"
        ),
    ] = None,
    plaintext: Annotated[
        bool, typer.Option("--plaintext", help="No encryption of the data: for a fibre you own.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and what would be copied; copy nothing.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the record, and nothing else; error is null when all went well."),
    ] = False,
    streams: Annotated[str | None, typer.Option(metavar="N", help="TCP connections.")] = None,
    cc: Annotated[str | None, typer.Option(metavar="NAME", help="Congestion control.")] = None,
    buffer: Annotated[str | None, typer.Option(metavar="SIZE", help="Socket buffers of each stream.")] = None,
    pace: Annotated[str | None, typer.Option(metavar="RATE", help="Most each stream sends.")] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="FILE", help="A plan, or a record whose plan is used again.")
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(metavar="KIND", help=f"Who else is on the path: {', '.join(get_args(PathKind))}."),
    ] = None,
    traffic_class: Annotated[
        str | None,
        typer.Option("--class", metavar="NAME", help="Whose share of a guaranteed path it asks for."),
    ] = None,
    fairness: Annotated[
        str | None,
        typer.Option(
            metavar="0..1", help="On a shared path: 0, its own rate; 1, what others lose; default 0.5."
        ),
    ] = None,
    no_listen: Annotated[
        bool, typer.Option("--no-listen", help="Listen to nobody on a shared path, and change nothing.")
    ] = False,
    far_howdah: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where howdah is on the far host, if not in its PATH.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
) -> None:
    """Copy files and folders to or from another host."""
    values = {
        "--memory": memory,
        "--streams": streams,
        "--cc": cc,
        "--buffer": buffer,
        "--pace": pace,
        "--plan": plan,
        "--path": path,
        "--class": traffic_class,
        "--fairness": fairness,
        "--far-howdah": far_howdah,
    }
    flags = {
        "--plaintext": plaintext,
        "--dry-run": dry_run,
        "--no-listen": no_listen,
        "--json": json,
        "--quiet": quiet,
    }
    given = {option: value for option, value in values.items() if value is not None}
    raise typer.Exit(command.copy(Arguments(names, given, {option for option, on in flags.items() if on})))
