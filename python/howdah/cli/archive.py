"""``howdah archive ls`` and ``howdah archive show``."""

import sys
from itertools import islice
from typing import Annotated

import msgspec
import typer

from howdah import document
from howdah.archive import Archive, Unreadable
from howdah.record import Record
from howdah.transfer.summary import details, line

app = typer.Typer(help="The records of what was measured.", no_args_is_help=True, rich_markup_mode=None)


@app.command("ls")
def ls(
    count: Annotated[int, typer.Option("-n", min=1, metavar="N", help="At most this many.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print the records as a JSON array.")] = False,
) -> None:
    """List the newest records, newest first."""
    found = list(islice(Archive().newest(), count))
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
