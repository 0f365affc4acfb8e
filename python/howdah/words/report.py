"""A report in some lines: where the page is, and how the statements came out."""

from collections import Counter
from pathlib import Path

from howdah.report.contents import Contents
from howdah.text import count


def in_words(found: Contents, file: Path | None) -> str:
    """What a person reads of a report: where the page is, and how the statements came out."""
    plural = {"agrees": "agree", "differs": "differ"}
    verdicts = Counter(each.verdict for each in found.statements)
    there = sum(each.lacking is None for each in found.figures)
    lines = [
        f"{file}: {there} of {count(len(found.figures), 'figure')} over {found.path}",
        f"of {count(len(found.statements), 'statement')} of the papers "
        + ", ".join(
            f"{number} {verdict if number == 1 else plural.get(verdict, verdict)}"
            for verdict, number in verdicts.items()
        ),
    ]
    lines += [f"  figure {each.number}: {each.lacking}" for each in found.figures if each.lacking is not None]
    return "\n".join(lines)
