"""The few HTML elements that a page is made of; every text is escaped here and nowhere else."""

from collections.abc import Iterable, Sequence
from html import escape


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
