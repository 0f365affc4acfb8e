"""``howdah archive``: what is kept, one of its records, and what keeps it small."""

import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import typer

from howdah import HowdahError, document
from howdah._native import format_bytes, parse_duration
from howdah.archive import Archive, Unreadable, exchange, upkeep
from howdah.archive.store import Selection
from howdah.text import count, printable
from howdah.values.record import Record, id_time
from howdah.words.copy import details, line

app = typer.Typer(help="The records of what was measured.", no_args_is_help=True, rich_markup_mode=None)


Kind = Annotated[str | None, typer.Option(metavar="KIND", help="Only transfer, traffic, link or bench.")]
Sweep = Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this sweep.")]
NewerThan = Annotated[str | None, typer.Option(metavar="AGE", help="Only newer ones, as 7d.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


@app.command("ls")
def ls(
    most: Annotated[int, typer.Option("-n", min=1, metavar="N", help="At most this many.")] = 20,
    kind: Kind = None,
    sweep: Sweep = None,
    newer_than: NewerThan = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the records, without their samples, as a JSON array.")
    ] = False,
) -> None:
    """List the newest records, newest first."""
    found = list(islice(Archive().newest(_selection(kind, sweep, newer_than)), most))
    records = [each for each in found if isinstance(each, Record)]
    if json:
        sys.stdout.buffer.write(document.line(records))
    else:
        for record in records:
            print(line(record))
    for each in found:
        if isinstance(each, Unreadable):
            print(f"howdah: {printable(each.problem)}", file=sys.stderr)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="ID|last", help="An id, its beginning, or last.")],
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON, samples and all.")] = False,
) -> None:
    """Show one record: what was done, by which plan, and why."""
    archive = Archive()
    record = archive.load(name)
    if json:
        document.show(record)
    else:
        print(details(record, archive.root))


@app.command("prune")
def prune(
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove what is older, for example 90d.")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=0, metavar="N", help="Keep the newest N records.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json: AsJson = False,
) -> None:
    """Remove old records and their digests; with both options, what is older and not among the newest."""
    if older_than is None and keep is None:
        raise HowdahError("nothing says which records to remove; give --older-than 90d, --keep 1000, or both")
    age_s = 0.0 if older_than is None else parse_duration(older_than) / 1e9
    pruned = upkeep.prune(Archive().inbox, older_than_s=age_s, keep=keep or 0, dry_run=dry_run)
    if json:
        document.show(pruned)
        return
    span = f", {pruned.ids[0]} to {pruned.ids[-1]}" if pruned.ids else ""
    done = "Would remove" if dry_run else "Removed"
    print(f"{done} {count(len(pruned.ids), 'record')}, {format_bytes(pruned.size_bytes)}{span}")


@app.command("gc")
def gc(json: AsJson = False) -> None:
    """Remove what belongs to no record, and give unused room back."""
    collected = upkeep.collect(Archive().inbox)
    if json:
        document.show(collected)
        return
    print(f"Freed {format_bytes(collected.freed_bytes)}: removed {count(collected.leavings, 'leaving')}")


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new one.")],
    kind: Kind = None,
    sweep: Sweep = None,
    newer_than: NewerThan = None,
    json: AsJson = False,
) -> None:
    """Write runs and traces to a folder of Parquet, for analysis elsewhere or for import."""
    exported = exchange.export(Archive().inbox, _selection(kind, sweep, newer_than), folder)
    if json:
        document.show(exported)
        return
    print(
        f"Exported {count(exported.runs, 'run')}, {format_bytes(exported.size_bytes)}, to {exported.folder}"
    )


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What export wrote.")],
    json: AsJson = False,
) -> None:
    """Take over the runs of an exported folder."""
    _show_received(exchange.import_(Archive().inbox, folder), json=json)


@app.command("merge")
def merge(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="As ~/.local/share/howdah/records.")],
    json: AsJson = False,
) -> None:
    """Take over the runs of another archive, as a colleague's or another host's."""
    _show_received(exchange.merge(Archive().inbox, folder), json=json)


def _show_received(received: exchange.Received, *, json: bool) -> None:
    for problem in received.unreadable:
        print(f"howdah: {printable(problem)}", file=sys.stderr)
    if json:
        document.show(received)
        return
    print(f"Took over {count(received.new, 'run')}; {received.known:,} were here already")


def _selection(kind: str | None, sweep: str | None, newer_than: str | None) -> Selection:
    kinds = get_args(get_type_hints(Record)["kind"])
    if kind is not None and kind not in kinds:
        raise HowdahError(f"--kind {kind} is no kind of record; give {', '.join(kinds)}")
    since = None
    if newer_than is not None:
        since = id_time(datetime.now(UTC) - timedelta(microseconds=parse_duration(newer_than) / 1e3))
    return Selection(kind=kind, sweep=sweep, since=since)
