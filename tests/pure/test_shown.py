"""Tables on standard output: a row is a line where no terminal says how wide a line is."""

import pytest
from rich.table import Table

from howdah.words.terminal import print_parts


def test_a_row_is_a_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "what", box=None, pad_edge=False)
    table.add_row("long", "word " * 50)
    print_parts(table, "line " * 50)
    heading, row, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["name", "what"]
    assert row.split() == ["long", *["word"] * 50]
    assert line.split() == ["line"] * 50
