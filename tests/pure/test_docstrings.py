"""Docstrings of howdah stand on their own: none begins in mid-sentence."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "python" / "howdah"
CLIPPED = (
    *("Also", "As", "At", "Beside", "Because", "But", "By", "For", "From", "If", "In", "Of", "On", "Or"),
    *("So", "Than", "Though", "To", "Until", "Whose", "With"),
)
"""Words that tie what follows to a sentence that is not there."""


def docstrings(code: ast.Module) -> Iterator[str]:
    for node in ast.walk(code):
        body = getattr(node, "body", [])
        for statement in body if isinstance(body, list) else []:
            match statement:
                case ast.Expr(ast.Constant(str(text))):
                    yield text.strip()


@pytest.mark.parametrize("suffix", ["py", "pyi"])
def test_each_docstring_begins_as_a_sentence_does(suffix: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}: {text.splitlines()[0]}"
        for file in sorted(ROOT.rglob(f"*.{suffix}"))
        for text in docstrings(ast.parse(file.read_text(encoding="utf-8")))
        if text[0].islower() or text.split()[0] in CLIPPED
    ]
    assert found == []
