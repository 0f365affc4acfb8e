"""The examples of the Python interface, in its document and its docstrings, as programs."""

import doctest
import re
from pathlib import Path

import howdah
from howdah.library.profile import profile

ROOT = Path(__file__).parents[1]
HOST = "dtn2"
"""The far host of the examples; a lab calls it far."""
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


def programs() -> dict[str, str]:
    """Each example by where it stands."""
    found = {}
    for document in ("docs/library.md", "README.md", "docs/transfer.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for number, block in enumerate(_BLOCK.finditer(text)):
            heading = _HEADING.findall(text[: block.start()])[-1]
            found[f"{document}, {heading}, {number}"] = block[1]
    for call in (
        howdah.copy,
        howdah.plan_for,
        howdah.probe,
        howdah.select,
        howdah.examine,
        howdah.verify,
        profile,
    ):
        examples = doctest.DocTestParser().get_examples(call.__doc__ or "")
        found[f"{call.__module__}.{call.__name__}"] = "import howdah\n" + "".join(
            each.source for each in examples
        )
    return found


def needs_a_network(program: str) -> bool:
    """Whether it reaches another host, or makes a lab."""
    return HOST in program or "howdah.Lab(" in program
