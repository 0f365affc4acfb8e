"""What ``howdah archive``, ``profile``, ``select`` and ``report`` do.

What takes numpy, or more, is loaded where it is used, when the arguments are known to be right.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

from howdah import HowdahError, document, interrupt
from howdah._native import format_bytes, parse_bytes, parse_duration, parse_rate
from howdah.archive import Archive, Unreadable, exchange, upkeep
from howdah.archive.store import Selection
from howdah.text import count, printable
from howdah.values.record import Record, id_time
from howdah.words.copy import details, line

if TYPE_CHECKING:
    from howdah.report.contents import Contents


def ls(*, most: int, kind: str | None, sweep: str | None, newer_than: str | None, json: bool) -> None:
    """Prints the newest records. Raises HowdahError."""
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


def show(*, name: str, json: bool) -> None:
    """Prints one record. Raises HowdahError."""
    archive = Archive()
    record = archive.load(name)
    if json:
        document.show(record)
    else:
        print(details(record, archive.root))


def prune(*, older_than: str | None, keep: int | None, dry_run: bool, json: bool) -> None:
    """Removes records and says which. Raises HowdahError."""
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


def gc(*, json: bool) -> None:
    """Removes what belongs to no record, and says how much that was. Raises HowdahError."""
    collected = upkeep.collect(Archive().inbox)
    if json:
        document.show(collected)
        return
    print(f"Freed {format_bytes(collected.freed_bytes)}: removed {count(collected.leavings, 'leaving')}")


def export(*, folder: Path, kind: str | None, sweep: str | None, newer_than: str | None, json: bool) -> None:
    """Writes runs to a folder of Parquet. Raises HowdahError."""
    exported = exchange.export(Archive().inbox, _selection(kind, sweep, newer_than), folder)
    if json:
        document.show(exported)
        return
    print(
        f"Exported {count(exported.runs, 'run')}, {format_bytes(exported.size_bytes)}, to {exported.folder}"
    )


def import_(*, folder: Path, json: bool) -> None:
    """Takes over the runs of an exported folder. Raises HowdahError."""
    _show_received(exchange.import_(Archive().inbox, folder), json=json)


def merge(*, folder: Path, json: bool) -> None:
    """Takes over the runs of another archive. Raises HowdahError."""
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


def profile(
    *,
    path: list[str] | None,
    cc: list[str] | None,
    streams: list[int] | None,
    buffer: list[str] | None,
    sweep: list[str] | None,
    late: bool,
    files: bool,
    json: bool,
) -> None:
    """Prints throughput by RTT of the runs chosen. Raises HowdahError."""
    sizes = _sizes(buffer)
    from rich.console import Console  # noqa: PLC0415

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


def plot(
    *,
    figure: str,
    file: Path,
    path: list[str] | None,
    cc: list[str] | None,
    streams: list[int] | None,
    buffer: list[str] | None,
    rtt: list[str] | None,
    sweep: list[str] | None,
    json: bool,
) -> None:
    """Draws the runs chosen and says what the figure shows. Raises HowdahError as ``figures.plot``."""
    sizes = _sizes(buffer)
    rtts = None if rtt is None else [parse_duration(each) / 1e9 for each in rtt]
    from howdah.profiles.study import runs_with  # noqa: PLC0415
    from howdah.report import figures  # noqa: PLC0415
    from howdah.report.material import Material  # noqa: PLC0415

    chosen = runs_with(
        Archive().runs(),
        path=path,
        congestion_control=cc,
        streams=streams,
        buffer_bytes=sizes,
        rtt_s=rtts,
        sweep=sweep,
    )
    shows = figures.plot(figure, Material(chosen), file)
    if json:
        document.show({"file": str(file), "shows": shows})
    else:
        print("\n".join(map(printable, [f"{file}:", *shows])))


def _sizes(buffer: Sequence[str] | None) -> list[int | None] | None:
    return None if buffer is None else [None if each == "auto" else parse_bytes(each) for each in buffer]


def select(
    *,
    rtt: str | None,
    host: str | None,
    path: str | None,
    size: str | None,
    rate: str | None,
    extrapolate: bool,
    far_howdah: str | None,
    most: int,
    json: bool,
) -> None:
    """Prints what to take for a transfer, and why. Raises HowdahError."""
    from howdah.library import select as selected  # noqa: PLC0415
    from howdah.profiles.selection.answer import in_lines  # noqa: PLC0415

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
    if json:
        document.show(found)
    else:
        print("\n".join(map(printable, in_lines(found, most))))


def report(*, sweep: str | None, path: str | None, output: Path | None, json: bool) -> None:
    """Writes the page and prints what is in it.

    Without ``output`` it is ``report.html``, or with ``json`` not written. Raises HowdahError when nothing
    counts, or the page cannot be written.
    """
    from howdah.profiles.study import runs_with  # noqa: PLC0415
    from howdah.report.contents import contents  # noqa: PLC0415
    from howdah.report.material import Material  # noqa: PLC0415
    from howdah.report.page import render  # noqa: PLC0415

    archive, wanted = Archive(), {"sweep": sweep, "path": path}
    runs = runs_with(
        archive.runs(), **{key: None if value is None else [value] for key, value in wanted.items()}
    )
    material = Material(runs)
    newest = archive.load(str(material.all.id[-1]))
    found, drawn = contents(material, newest)
    target = output or (None if json else Path("report.html"))
    if target is not None:
        _write(target, render(found, drawn).encode())
    if json:
        document.show(found)
    else:
        words = _in_words(document.strange(found), target)
        print(words, file=sys.stderr if str(target) == "-" else sys.stdout)


def _write(file: Path, data: bytes) -> None:
    """Writes a file whole, or the standard output for ``-``. Raises HowdahError when it cannot be written."""
    if str(file) == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        file.write_bytes(data)
    except OSError as error:
        raise HowdahError(f"cannot write {file}: {error.strerror}; give another file with -o") from None


def _in_words(found: "Contents", file: Path | None) -> str:
    """What a person reads of a report: where the page is, and how the statements came out."""
    verdicts = Counter(each.verdict for each in found.statements)
    there = sum(each.lacking is None for each in found.figures)
    lines = [
        f"{file}: {there} of {count(len(found.figures), 'figure')} over {found.path}",
        f"of {count(len(found.statements), 'statement')} of the papers "
        + ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items()),
    ]
    lines += [f"  figure {each.number}: {each.lacking}" for each in found.figures if each.lacking is not None]
    return "\n".join(lines)
