"""The contents as one HTML file that needs nothing else: no network, no script, no other file.

Every text is escaped in ``text``, ``element`` and ``_figure``, and nowhere else.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from howdah.report.cells import gigabits, in_ms
from howdah.report.contents import MODELS, Contents, FigureEntry
from howdah.report.figures import canvas
from howdah.report.figures.canvas import DrawnFigure
from howdah.report.statements import JudgedStatement
from howdah.report.statements.statement import HPDC, NOTE
from howdah.report.statements.transitions import ENOUGH

_SOURCES = (
    "Beside it stand Rao et al., TCP Throughput Profiles Using Measurements Over Dedicated Connections, "
    f"{HPDC}, and Sustained Wide-Area TCP Memory Transfers Over Dedicated Connections, {NOTE}."
)


def render(found: Contents, drawn: Mapping[str, DrawnFigure]) -> str:
    """The page; ``drawn`` has the figures by number."""
    judged = {each.key: each for each in found.statements}
    sections = [
        ("setting", "What was measured", _setting(found)),
        ("statements", "What the papers say, and what was measured", _statements(found)),
        ("figures", "Figures", *(_figure(each, drawn.get(each.number), judged) for each in found.figures)),
        ("transitions", "Transition RTTs", _transitions(found)),
        ("modelled", "Models", _models(found, drawn.get(MODELS))),
        ("selection", "What to choose", _selection(found)),
    ]
    links = [element("li", text("a", title, href=f"#{key}")) for key, title, *_ in sections]
    return page(
        f"Throughput over {found.path}",
        files("howdah.report").joinpath("style.css").read_text(),
        text(
            "p",
            f"Made {found.made_at:%Y-%m-%d %H:%M} UTC by howdah {found.version} from its archive. {_SOURCES} "
            "Every sentence about ours is computed from the runs.",
        ),
        element("nav", element("ol", *links)),
        *(section(key, title, *parts) for key, title, *parts in sections),
    )


def _setting(found: Contents) -> str:
    return table(("", "ours", "the paper's"), found.setting)


def _statements(found: Contents) -> str:
    counts = {
        verdict: sum(each.verdict == verdict for each in found.statements)
        for verdict in ("agrees", "differs", "cannot tell")
    }
    rows = [
        (each.says, each.source, each.verdict, ". ".join([each.numbers, *each.why]), each.rule)
        for each in found.statements
    ]
    head = ("statement", "source", "ours", "numbers, and why where it differs", "agrees when")
    return text("p", ", ".join(f"{verdict}: {number}" for verdict, number in counts.items())) + table(
        head, rows, classes=("", "", "verdict")
    )


def _figure(shown: FigureEntry, drawn: DrawnFigure | None, judged: Mapping[str, JudgedStatement]) -> str:
    title = text("h3", f"Figure {shown.number}. {shown.title}", id=f"figure-{shown.number}")
    paper = element("p", text("b", "Paper"), " ", escape(shown.paper))
    if drawn is None:
        return title + paper + text("p", f"No figure: {shown.lacking}", class_="lacking")
    ours = element("p", text("b", "Ours"), " ", escape(" ".join(shown.ours)))
    compared = [_compared(judged[key]) for key in shown.statements]
    picture = canvas.inline(drawn.figure, f"figure-{shown.number}", shown.title)
    return title + element("figure", picture, element("figcaption", paper, ours, items(compared)))


def _compared(judged: JudgedStatement) -> str:
    why = f" Where: {'; '.join(judged.why)}." if judged.why else ""
    return f"“{judged.says}” {judged.verdict.capitalize()}: {judged.numbers}.{why}"


def _transitions(found: Contents) -> str:
    rows = [
        (
            each.configuration,
            each.shape,
            in_ms(each.rtt_s),
            f"{in_ms(each.low_s)} to {in_ms(each.high_s)}",
            in_ms(each.sigmoids_s),
        )
        for each in found.transitions
    ]
    if not rows:
        return text("p", f"None: needs configurations {ENOUGH}.", class_="lacking")
    head = ("configuration", "profile", "transition RTT, ms", "bootstrap interval, ms", "by sigmoids, ms")
    return table(head, rows)


def _models(found: Contents, drawn: DrawnFigure | None) -> str:
    if drawn is None:
        return text("p", "None: no congestion control that was measured has a model.", class_="lacking")
    rows = [
        (
            each.configuration,
            f"{each.ratio_median:.3g}",
            f"{each.ratio_least:.3g} to {each.ratio_most:.3g}",
            in_ms(each.worst_rtt_s),
            f"{each.inside} of {each.runs}",
        )
        for each in found.models
    ]
    picture = canvas.inline(drawn.figure, MODELS, "The model beside what was measured")
    head = (
        "configuration",
        "measured / predicted, median",
        "least and most",
        "farthest at RTT, ms",
        "runs in the 90 % interval",
    )
    said = text("figcaption", " ".join(drawn.shows))
    return element("figure", picture, said) + table(head, rows)


def _selection(found: Contents) -> str:
    rows = [
        (
            in_ms(each.rtt_s),
            each.configuration,
            f"{gigabits(each.rate_mid_bps)}, {gigabits(each.rate_low_bps)} to {gigabits(each.rate_high_bps)}",
            "none" if each.second_low_bps is None else f"{each.second}, from {gigabits(each.second_low_bps)}",
        )
        for each in found.selection
    ]
    head = ("RTT, ms", "surest to be fast", "its next run, with 90 %", "the next best")
    return table(head, rows) + text("p", found.left_out)


def element(tag: str, *children: str, **attributes: str) -> str:
    """``children`` are HTML; a trailing ``_`` of an attribute's name is dropped, as in ``class_``."""
    given = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{tag}{given}>{''.join(children)}</{tag}>"


def text(tag: str, words: str, **attributes: str) -> str:
    """An element with a text in it."""
    return element(tag, escape(words), **attributes)


def items(sentences: Iterable[str]) -> str:
    """A list; nothing where there is nothing to list."""
    found = [text("li", sentence) for sentence in sentences]
    return element("ul", *found) if found else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, classes: Sequence[str] = ()) -> str:
    """A table; ``classes`` are those of the columns."""
    by_column = [*classes, *[""] * (len(head) - len(classes))]
    cells = [
        element("tr", *(text("td", cell, class_=kind) for cell, kind in zip(row, by_column, strict=True)))
        for row in rows
    ]
    header = element("thead", element("tr", *(text("th", words, scope="col") for words in head)))
    return element("div", element("table", header, element("tbody", *cells)), class_="wide")


def section(key: str, title: str, *children: str) -> str:
    """A part of the page that a link can go to."""
    return element("section", text("h2", title), *children, id=key)


def page(title: str, style: str, *children: str) -> str:
    """The whole document, with everything in it."""
    head = element(
        "head",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        text("title", title),
        element("style", style),
    )
    body = element("body", element("main", text("h1", title), *children))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
