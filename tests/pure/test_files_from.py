"""The list of names of a copy: where it comes from, and requests that cannot be."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from howdah._native import HowdahError
from howdah.cli import app
from howdah.cli.copy_command import request
from howdah.cli.table import read
from howdah.library.copy import Memory, copy_request
from howdah.transfer.request import Request


def asked(*words: str) -> Request:
    values = read(app.howdah("cp").named()["cp"], list(words), {})
    del values["json"], values["quiet"], values["rsh"]
    return request(**values)


def test_a_file_is_read_where_it_is(tmp_path: Path) -> None:
    names = tmp_path / "list"
    names.write_text("a\n")
    made = asked("--files-from", str(names), "run42", "dtn2:d")
    assert made.names == (os.fsencode(names), False, None)
    assert made.route.sources == [b"run42/."]
    assert asked("run42", "dtn2:d").names is None


def test_what_can_be_read_once_is_kept_for_a_copy_that_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\0b\0")))
    made = asked("-0", "--files-from=-", "dtn2:run42/", ".")
    assert made.names is not None and made.names.nul_separated
    for _ in range(2):
        assert Path(os.fsdecode(made.names.path)).read_bytes() == b"a\0b\0"
    reading, writing = os.pipe()
    os.write(writing, b"c\n")
    os.close(writing)
    piped = asked("--files-from", f"/dev/fd/{reading}", "run42", "dtn2:d").names
    os.close(reading)
    assert piped is not None
    assert Path(os.fsdecode(piped.path)).read_bytes() == b"c\n"


def test_nul_bytes_set_rules_apart_too(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_bytes(b"a\nb\0#c\0")
    made = asked("--from0", "--exclude-from", str(rules), "run42", "dtn2:d")
    assert made.filters == (b"- a\nb",)


def test_requests_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HowdahError, match=r"list of names /no/such: No such file .*; check the name"):
        asked("--files-from", "/no/such", "run42", "dtn2:d")
    with pytest.raises(HowdahError, match="takes one source"):
        asked("--files-from", str(tmp_path), "a", "b", "dtn2:d")
    with pytest.raises(HowdahError, match="filters and lists of names mean nothing"):
        copy_request(["dtn2:"], [], memory=Memory(size_bytes=1), files_from="x")
