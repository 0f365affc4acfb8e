"""What ``howdah archive``, ``profile``, ``select`` and ``report`` do.

What takes numpy, or more, is loaded where it is used, when the arguments are known to be right.
"""

import sys
from itertools import islice
from pathlib import Path
from typing import Any

from howdah import Archive, HowdahError, document, interrupt
from howdah._native import format_bytes
from howdah.library import archive
from howdah.text import count, printable
from howdah.values.record import Record
from howdah.words.copy import details, line


def ls(*, most: int, kind: str | None, sweep: str | None, newer_than: float | None, json: bool) -> None:
    """Prints the newest records. Raises HowdahError."""
    newest = archive.records(kind=kind, sweep=sweep, newer_than_s=newer_than)
    found = list(islice(newest, most))
    records = [each for each in found if isinstance(each, Record)]
    if json:
        sys.stdout.buffer.write(document.line(records))
    elif records:
        for record in records:
            print(line(record))
    elif kind or sweep or newer_than is not None:
        print("no record matches; list all with: howdah archive ls")
    else:
        print("no record yet; each copy leaves one: howdah cp SRC... DST")
    for each in found:
        if not isinstance(each, Record):
            print(f"howdah: {printable(each.problem)}", file=sys.stderr)


def show(*, name: str, json: bool) -> None:
    """Prints one record. Raises HowdahError."""
    here = Archive()
    record = here.load(name)
    if json:
        document.show(record)
    else:
        print(details(record, here.root))


def paths(*, json: bool) -> None:
    """Prints what is remembered of each path. Raises HowdahError."""
    found = archive.paths()
    if json:
        document.show(found)
        return
    if not found:
        print("nothing is remembered yet; each copy of some seconds leaves it: howdah cp SRC... DST")
        return
    from howdah.words.paths import table  # noqa: PLC0415
    from howdah.words.terminal import print_parts  # noqa: PLC0415

    print_parts(table(found))


def prune(*, older_than: float | None, keep: int | None, dry_run: bool, json: bool) -> None:
    """Removes records and says which. Raises HowdahError."""
    pruned = archive.prune(older_than_s=older_than, keep=keep, dry_run=dry_run)
    if json:
        document.show(pruned)
        return
    span = f", {pruned.ids[0]} to {pruned.ids[-1]}" if pruned.ids else ""
    done = "Would remove" if dry_run else "Removed"
    print(f"{done} {count(len(pruned.ids), 'record')}, {format_bytes(pruned.size_bytes)}{span}")


def gc(*, json: bool) -> None:
    """Removes what belongs to no record, and says how much that was. Raises HowdahError."""
    collected = archive.collect()
    if json:
        document.show(collected)
        return
    print(f"Freed {format_bytes(collected.freed_bytes)}: removed {count(collected.leavings, 'leftover')}")


def export(
    *, folder: Path, kind: str | None, sweep: str | None, newer_than: float | None, json: bool
) -> None:
    """Writes runs to a folder of Parquet. Raises HowdahError."""
    exported = archive.export(folder, kind=kind, sweep=sweep, newer_than_s=newer_than)
    if json:
        document.show(exported)
        return
    print(
        f"Exported {count(exported.runs, 'run')}, {format_bytes(exported.size_bytes)}, to {exported.folder}"
    )


def import_(*, folder: Path, json: bool) -> int:
    """Takes over the runs of an exported folder; 1 where some were left out. Raises HowdahError."""
    return _show_received(archive.import_(folder), json=json)


def merge(*, folder: Path, json: bool) -> int:
    """Takes over the runs of another archive; 1 where some were left out. Raises HowdahError."""
    return _show_received(archive.merge(folder), json=json)


def _show_received(received: archive.Received, *, json: bool) -> int:
    for problem in received.unreadable:
        print(f"howdah: {printable(problem)}", file=sys.stderr)
    if json:
        document.show(received)
    else:
        print(f"Imported {count(received.new, 'run')}; {received.known:,} were here already")
    return 1 if received.unreadable else 0


def profile(*, json: bool, **which: Any) -> None:  # noqa: ANN401, those of the library's profile
    """Prints throughput by RTT of the runs chosen. Raises HowdahError."""
    from howdah.library.profile import profile as study  # noqa: PLC0415
    from howdah.words.results import parts  # noqa: PLC0415
    from howdah.words.terminal import print_parts  # noqa: PLC0415

    found = study(**which, intervals=json)
    if json:
        document.show(found)
        return
    print_parts(*parts(document.strange(found)))


def plot(*, figure: str, file: Path, json: bool, **which: Any) -> None:  # noqa: ANN401, those of report.plot
    """Draws the runs chosen and says what the figure shows. Raises HowdahError as ``report.plot``."""
    from howdah.library import report  # noqa: PLC0415

    shows = report.plot(figure, file, **which)
    if json:
        document.show({"file": str(file), "shows": shows})
    else:
        print("\n".join(map(printable, [f"{file}:", *shows])))


def select(*, most: int, json: bool, **question: Any) -> None:  # noqa: ANN401, those of howdah.select
    """Prints what to take for a transfer, and why. Raises HowdahError."""
    from howdah.library.select import select as selected  # noqa: PLC0415
    from howdah.words.results import in_lines  # noqa: PLC0415

    interrupt.install()
    found = selected(**question)
    if json:
        document.show(found)
    else:
        print("\n".join(map(printable, in_lines(found, most))))


def report(*, sweep: str | None, path: str | None, output: Path | None, json: bool) -> None:
    """Writes the page and prints what is in it.

    Without ``output`` it is ``report.html``, or with ``json`` not written. Raises HowdahError when nothing
    counts, the page cannot be written, or both would go to standard output.
    """
    if json and str(output) == "-":
        raise HowdahError(
            "--json and the page would both go to standard output; give -o a file, or leave one of them out"
        )
    from howdah.library.report import report as made  # noqa: PLC0415
    from howdah.words.results import report_in_words  # noqa: PLC0415

    whole = made(path=path, sweep=sweep)
    target = output or (None if json else Path("report.html"))
    if target is not None:
        _write(target, whole.html().encode())
    if json:
        document.show(whole.contents)
    else:
        words = report_in_words(document.strange(whole.contents), target)
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
