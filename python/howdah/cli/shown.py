"""Tables and lines on standard output: within a terminal's width, and elsewhere a row a line."""

from rich.console import Console

_WIDEST = 1000
"""The columns where no terminal says how many there are; a row that is broken in two is none for grep."""


def print_parts(*parts: object) -> None:
    """Prints each part below the other."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDEST)
    for part in parts:
        console.print(part)
