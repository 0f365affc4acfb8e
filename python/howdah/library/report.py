"""Figures of the runs in an archive, and the page that holds them against what the papers say."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from howdah.archive import Archive
from howdah.library.ended import Name
from howdah.profiles.study import runs_with
from howdah.report import figures
from howdah.report.contents import Contents, contents
from howdah.report.figures.canvas import DrawnFigure
from howdah.report.material import Material
from howdah.report.page import render


class Report(NamedTuple):
    """A report of one path."""

    contents: Contents
    figures: Mapping[str, DrawnFigure]
    """The figures by their numbers in the paper."""

    def html(self) -> str:
        """The whole page, with its figures inside."""
        return render(self.contents, self.figures)


def report(*, path: str | None = None, sweep: str | None = None, archive: Archive | None = None) -> Report:
    """The report of a path as ``howdah report`` writes it; without ``path`` of the one with most runs.

    ``sweep`` counts the runs of that sweep alone. Raises HowdahError when no run counts.
    """
    archive = archive or Archive()
    wanted = {"path": path, "sweep": sweep}
    runs = runs_with(archive.runs(), **{key: [each] for key, each in wanted.items() if each is not None})
    material = Material(runs)
    return Report(*contents(material, archive.load(str(material.all.id[-1]))))


def plot(
    figure: str,
    file: Name,
    *,
    path: Collection[str] | None = None,
    congestion_control: Collection[str] | None = None,
    streams: Collection[int] | None = None,
    buffer_bytes: Collection[int | None] | None = None,
    rtt_s: Collection[float] | None = None,
    sweep: Collection[str] | None = None,
    archive: Archive | None = None,
) -> list[str]:
    """Draws one figure, as ``howdah profile plot`` names it, to a .svg or .png; returns what it shows.

    The runs are chosen as for ``profile``; ``rtt_s`` are round trips in seconds. Raises HowdahError for
    another kind of file, when there are no such runs, and when they are too few for the figure.
    """
    chosen = runs_with(
        (archive or Archive()).runs(),
        path=path,
        congestion_control=congestion_control,
        streams=streams,
        buffer_bytes=buffer_bytes,
        rtt_s=rtt_s,
        sweep=sweep,
    )
    return figures.plot(figure, Material(chosen), Path(file))
