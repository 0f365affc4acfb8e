"""What ``howdah report`` does: reads the archive, makes the page, says what is in it."""

import sys
from collections import Counter
from pathlib import Path

from howdah import HowdahError, document
from howdah.archive import Archive
from howdah.archive.runs import Runs
from howdah.profiles.study import runs_with
from howdah.report import figures
from howdah.report.contents import Contents, contents
from howdah.report.material import Material
from howdah.report.page import render
from howdah.text import count, printable


def report(archive: Archive, *, sweep: str | None, path: str | None, file: Path | None, json: bool) -> None:
    """Writes the page and prints what is in it.

    ``file`` None: with ``json`` no page, else ``report.html``. Raises HowdahError when nothing counts, or the
    page cannot be written.
    """
    wanted = {"sweep": sweep, "path": path}
    runs = runs_with(
        archive.runs(), **{key: None if value is None else [value] for key, value in wanted.items()}
    )
    material = Material(runs)
    newest = archive.load(str(material.all.id[-1]))
    found, drawn = contents(material, newest)
    target = file or (None if json else Path("report.html"))
    if target is not None:
        write(target, render(found, drawn).encode())
    if json:
        document.show(found)
    else:
        words = in_words(document.strange(found), target)
        print(words, file=sys.stderr if str(target) == "-" else sys.stdout)


def write(file: Path, data: bytes) -> None:
    """Writes a file whole, or the standard output for ``-``. Raises HowdahError when it cannot be written."""
    if str(file) == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        file.write_bytes(data)
    except OSError as error:
        raise HowdahError(f"cannot write {file}: {error.strerror}; give another file with -o") from None


def in_words(found: Contents, file: Path | None) -> str:
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


def plot(runs: Runs, family: str, file: Path, *, json: bool) -> None:
    """Draws the runs chosen and says what the figure shows. Raises HowdahError as ``figures.plot``."""
    shows = figures.plot(family, Material(runs), file)
    if json:
        document.show({"file": str(file), "shows": shows})
    else:
        print("\n".join(map(printable, [f"{file}:", *shows])))
