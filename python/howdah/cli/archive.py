"""``howdah archive ls``, ``howdah archive show`` and ``howdah archive prune``."""

import sys
from itertools import islice
from typing import Annotated

import msgspec
import typer

from howdah import HowdahError, document
from howdah._native import format_bytes, parse_duration
from howdah.archive import Archive, Unreadable
from howdah.record import Record
from howdah.transfer.summary import details, line
from howdah.words import count

app = typer.Typer(help="The records of what was measured.", no_args_is_help=True, rich_markup_mode=None)


@app.command("ls")
def ls(
    most: Annotated[int, typer.Option("-n", min=1, metavar="N", help="At most this many.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print the records as a JSON array.")] = False,
) -> None:
    """List the newest records, newest first."""
    found = list(islice(Archive().newest(), most))
    records = [each for each in found if isinstance(each, Record)]
    if json:
        sys.stdout.buffer.write(msgspec.json.encode(records) + b"\n")
    else:
        for record in records:
            print(line(record))
    for each in found:
        if isinstance(each, Unreadable):
            print(f"howdah: {each.problem}", file=sys.stderr)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="ID|last", help="An id, its beginning, or last.")],
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Show one record: what was done, by which plan, and why."""
    archive = Archive()
    record = archive.load(name)
    if json:
        document.show(record)
    else:
        print(details(record, archive.file(record.id)))


@app.command("prune")
def prune(
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove what is older, for example 90d.")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=0, metavar="N", help="Keep the newest N records.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was removed as JSON.")] = False,
) -> None:
    """Remove old records and their digests; with both options, what is older and not among the newest."""
    if older_than is None and keep is None:
        raise HowdahError("nothing says which records to remove; give --older-than 90d, --keep 1000, or both")
    age_s = 0.0 if older_than is None else parse_duration(older_than) / 1e9
    pruned = Archive().prune(older_than_s=age_s, keep=keep or 0, dry_run=dry_run)
    if json:
        document.show(pruned)
        return
    span = f", {pruned.ids[0]} to {pruned.ids[-1]}" if pruned.ids else ""
    done = "Would remove" if dry_run else "Removed"
    print(f"{done} {count(len(pruned.ids), 'record')}, {format_bytes(pruned.size_bytes)}{span}")
