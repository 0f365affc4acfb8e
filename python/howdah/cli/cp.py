"""``howdah cp``."""

import sys
from pathlib import Path
from typing import Annotated, get_args

import typer

from howdah._native import format_bytes, format_rate, parse_bytes, parse_rate
from howdah.archive import Archive
from howdah.plan import PathKind
from howdah.record import dumps, printable_command
from howdah.transfer.endpoints import route
from howdah.transfer.run import Display, Given, Request, run
from howdah.transfer.summary import summary

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """\b
Examples
  howdah cp run42/ dtn2:/archive/          the folder run42 into /archive
  howdah cp run42/. dtn2:/archive/42/      what is in run42 into /archive/42, made if missing
  howdah cp me@dtn2:a.h5 me@dtn2:b.h5 .    two files from there to here
  howdah cp 'me@[2001:db8::7]:/d' /data    an IPv6 address
  howdah cp --memory 10GiB dtn2:           memory to memory: what the path carries, no disk
  howdah cp --dry-run run42/ dtn2:/d       the plan, its reasons, and what would be copied

What is at the destination already with the same size and time is skipped. A file appears under its
name when it is whole. The far end needs howdah installed, and is started over ssh.
"""


@app.command("cp", epilog=_EPILOG)
def cp(
    names: Annotated[
        list[str],
        typer.Argument(metavar="SRC... DST", help="One side is [user@]host:path.", show_default=False),
    ],
    *,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Send this much from memory to memory; DST is HOST:")
    ] = None,
    plaintext: Annotated[
        bool, typer.Option("--plaintext", help="No encryption of the data: for a fibre you own.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and what would be copied; copy nothing.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the record as JSON, and nothing else; its `error` is null when all went well.",
        ),
    ] = False,
    streams: Annotated[int | None, typer.Option(metavar="N", help="TCP connections.")] = None,
    cc: Annotated[str | None, typer.Option(metavar="NAME", help="Congestion control.")] = None,
    buffer: Annotated[str | None, typer.Option(metavar="SIZE", help="Socket buffers of each stream.")] = None,
    pace: Annotated[str | None, typer.Option(metavar="RATE", help="Most each stream sends.")] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A plan, or a record whose plan is used again.")
    ] = None,
    path: Annotated[
        str, typer.Option(metavar="KIND", help=f"Who else is on the path: {', '.join(get_args(PathKind))}.")
    ] = "shared",
    far_howdah: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where howdah is on the far host, if not in its PATH.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
) -> None:
    """Copy files and folders to or from another host."""
    request = Request(
        command=printable_command(sys.argv),
        route=route(names, memory=memory is not None),
        memory_bytes=None if memory is None else parse_bytes(memory),
        dry_run=dry_run,
        encrypt=not plaintext,
        path=_kind(path),
        plan_file=plan,
        given=_given(streams, cc, buffer, pace),
        far_howdah=far_howdah,
    )
    done = run(request, _display(quiet or json), Archive())
    if json:
        sys.stdout.buffer.write(dumps(done.record))
    elif not quiet and done.record.outcome is not None:
        print(summary(done.record, done.file))
    for problem in (done.record.error, done.archive_error):
        if problem is not None:
            print(f"howdah: {problem}", file=sys.stderr)
    raise typer.Exit(done.exit_code)


def _kind(text: str) -> PathKind:
    kinds: tuple[PathKind, ...] = get_args(PathKind)
    for kind in kinds:
        if text == kind:
            return kind
    raise typer.BadParameter(f"--path {text}: it is one of {', '.join(kinds)}")


def _given(streams: int | None, cc: str | None, buffer: str | None, pace: str | None) -> tuple[Given, ...]:
    given = []
    if streams is not None:
        given.append(Given("streams", streams, "--streams", f"{streams} streams"))
    if cc is not None:
        given.append(Given("congestion_control", cc, "--cc", f"Congestion control {cc}"))
    if buffer is not None:
        size = parse_bytes(buffer)
        given.append(Given("buffer_bytes", size, "--buffer", f"Buffers of {format_bytes(size)}"))
    if pace is not None:
        rate = parse_rate(pace)
        given.append(Given("pacing_bps", rate, "--pace", f"At most {format_rate(rate)} a stream"))
    return tuple(given)


def _display(silent: bool) -> Display:
    from howdah.transfer import display  # noqa: PLC0415

    if silent:
        return display.Quiet()
    return display.Terminal() if sys.stderr.isatty() else display.Lines()
