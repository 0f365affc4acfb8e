"""The filter rules of a copy: from the command line and from Python to the one list that is sent."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from howdah._native import HowdahError
from howdah.cli import app
from howdah.cli.copy_command import request
from howdah.cli.table import read
from howdah.library.copy import Memory, copy_request
from howdah.transfer.what import Rule, read_filters

NAMES = ["run42/", "dtn2:d"]


def asked(*words: str) -> list[str]:
    values = read(app.howdah("cp").named()["cp"], [*words, *NAMES], {})
    del values["json"], values["quiet"], values["rsh"]
    return [rule.decode() for rule in request(**values).filters]


def test_options_of_every_kind_keep_the_order_of_the_line(tmp_path: Path) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text("# those\n*.tmp\n+ x\n")
    line = ["--exclude", "*.o", "-f", "+ /a/", f"--include-from={patterns}", "-F", "--include=b", "-f: .g"]
    expected = ["- *.o", "+ /a/", "+ *.tmp", "+ x", ": .rsync-filter", "+ b", ": .g"]
    assert asked(*line) == expected
    assert asked("-qf", "- a", "--exclude=!", "--filter", "H b", "-Fq") == ["-s b", ": .rsync-filter"]
    assert asked("-F", "-f- a", "-FF") == [": .rsync-filter", "- a", "- .rsync-filter"]
    assert asked() == []


def test_rules_come_from_standard_input_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n\xff\n")))
    found = read_filters([("exclude-from", "-"), ("filter", ". -")])
    assert found == (b"- a", b"- \xff")


def test_a_file_of_rules_names_files_that_are_read_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("- a\n. two\n- d\n")
    Path("two").write_text("+ b\n")
    assert read_filters([". one"]) == (b"- a", b"+ b", b"- d")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("*.o", "filter rule '*.o': it begins with no known word; write for example '- PATTERN'"),
        ("-C", "filter rule '-C': the patterns of CVS are not known here; name what to leave out"),
        (". /no/such", "cannot read the filter rules in /no/such: No such file or directory"),
        (("exclude-from", "/"), "cannot read the filter rules in /: Is a directory"),
        ("- a\0b", "NUL"),
    ],
)
def test_what_is_no_rule_is_refused_in_a_line(rule: Rule, says: str) -> None:
    with pytest.raises(HowdahError) as refused:
        copy_request(NAMES, [], filters=[rule])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_requests_that_cannot_be_are_refused() -> None:
    with pytest.raises(HowdahError, match="moves no files"):
        copy_request(["dtn2:"], [], memory=Memory(size_bytes=1), filters=["- a"])
    with pytest.raises(HowdahError, match=r"a list of rules: filters=\['- a'\]"):
        copy_request(NAMES, [], filters="- a")
    with pytest.raises(HowdahError, match="16,384"):
        copy_request(NAMES, [], filters=["- a"] * 20_000)
