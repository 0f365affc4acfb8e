"""The line that a copy leaves in the log, read from real sockets."""

import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from howdah.site import log
from howdah.site.audit import Copy
from howdah.site.policy import Policy, Refused


@pytest.fixture
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the log's sockets are; there are none yet."""
    monkeypatch.setattr(log, "JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setattr(log, "SYSLOG", str(tmp_path / "log"))
    return tmp_path


class Listener:
    """A log that keeps what it takes."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(5)

    def next(self) -> bytes:
        return self._socket.recv(2**20)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def journal(sockets: Path) -> Iterator[Listener]:
    made = Listener(sockets / "journal")
    yield made
    made.close()


@pytest.fixture
def syslog(sockets: Path) -> Iterator[Listener]:
    made = Listener(sockets / "log")
    yield made
    made.close()


def copy(**changes: object) -> Copy:
    known = {
        "sends": True,
        "sources": [b"/data/run42"],
        "destination": b"/archive",
        "encrypted": True,
        "record": "20260501T000000-abcd",
        **changes,
    }
    return Copy("near", "me@dtn2", **known)  # type: ignore[arg-type]


def required() -> Policy:
    made = Policy()
    made.audit, made.set_by = "required", {"audit": "/etc/howdah/policy.toml"}
    return made


def fields(datagram: bytes) -> dict[str, str]:
    """The fields of the native protocol whose values have no line breaks."""
    lines = datagram.decode().splitlines()
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", line) for line in lines), lines
    return dict(line.split("=", 1) for line in lines)


def said(message: str) -> dict[str, object]:
    head, _, text = message.partition(" ")
    assert head == "copy"
    found: dict[str, object] = json.loads(text)
    return found


def test_the_journal_gets_fields_and_one_line(journal: Listener, syslog: Listener, tmp_path: Path) -> None:
    digests = tmp_path / "digests"
    digests.write_bytes(b"ab" * 32 + b"  run42/file\n")
    copy().end(
        Policy(),
        "complete",
        None,
        bytes_moved=5,
        files=1,
        elapsed_s=1.23456,
        digest_sum="ab" * 32,
        digests=digests,
    )
    taken = fields(journal.next())
    line = said(taken.pop("MESSAGE"))
    assert taken == {
        "PRIORITY": "6",
        "SYSLOG_FACILITY": "10",
        "SYSLOG_IDENTIFIER": "howdah",
        "SYSLOG_PID": str(os.getpid()),
        "HOWDAH_OUTCOME": "complete",
        "HOWDAH_USER": str(line["user"]),
        "HOWDAH_PEER": "me@dtn2",
        "HOWDAH_BYTES": "5",
        "HOWDAH_RECORD": "20260501T000000-abcd",
    }
    assert line == {
        "schema": 1,
        "end": "near",
        "outcome": "complete",
        "error": None,
        "uid": os.getuid(),
        "user": line["user"],
        "peer": "me@dtn2",
        "other": None,
        "sends": True,
        "sources": ["/data/run42"],
        "sources_more": 0,
        "destination": "/archive",
        "encrypted": True,
        "dry_run": False,
        "bytes": 5,
        "files": 1,
        "elapsed_s": 1.235,
        "digest_sum": "ab" * 32,
        "digests_sha256": hashlib.sha256(digests.read_bytes()).hexdigest(),
        "record": "20260501T000000-abcd",
    }


def test_without_a_journal_syslog_gets_the_line(syslog: Listener) -> None:
    copy().end(Policy(), "failed", "no space left", bytes_moved=0, files=0, elapsed_s=0)
    text = syslog.next().decode()
    head = re.fullmatch(r"<85>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d howdah\[(\d+)\]: (.*)", text)
    assert head is not None, text
    assert int(head[1]) == os.getpid()
    line = said(head[2])
    assert (line["outcome"], line["error"]) == ("failed", "no space left")


def test_names_cannot_forge_a_line_or_a_field(journal: Listener) -> None:
    evil = b"a\nMESSAGE=forged\nHOWDAH_USER=root \x1b]52;c;AAAA\x07 \xff \xe2\x80\xae \xe2\x80\xa8 \xc2\x85"
    made = Copy("far", "e\nvil", sends=False, sources=[evil], destination=evil, encrypted=True)
    made.end(Policy(), "failed", "it said \n\x1b[2J", bytes_moved=0, files=0, elapsed_s=0)
    datagram = journal.next()
    assert datagram.decode().replace("\n", "").isprintable()
    taken = fields(datagram)
    assert taken["HOWDAH_PEER"] == "e\\nvil"
    line = said(taken["MESSAGE"])
    assert str(line["sources"][0]).startswith("a\\nMESSAGE=forged")  # type: ignore[index]
    assert line["error"] == "it said \\n\\u{1b}[2J"


@pytest.mark.parametrize(
    "name", [b"\xff" * 4000, b"\\" * 4000, "\u202e".encode() * 2000, "é".encode() * 2000]
)
def test_a_line_fits_whatever_the_names(syslog: Listener, name: bytes) -> None:
    made = Copy("far", "h" * 4000, sends=True, sources=[name] * 5000, destination=name, encrypted=True)
    made.end(Policy(), "failed", name.decode(errors="replace"), bytes_moved=0, files=0, elapsed_s=0)
    datagram = syslog.next()
    assert len(datagram) <= 8192
    line = said(datagram.decode().partition(": ")[2])
    assert len(line["sources"]) == 6  # type: ignore[arg-type]
    assert line["sources_more"] == 4994


def test_where_no_log_is_a_copy_goes_on(sockets: Path) -> None:
    made = copy()
    made.begin(Policy())
    made.end(Policy(), "complete", None, bytes_moved=0, files=0, elapsed_s=0)
    made.end(None, "refused", "a broken policy", bytes_moved=0, files=0, elapsed_s=0)


def test_only_where_it_is_required_a_first_line_is_written(journal: Listener) -> None:
    made = copy()
    made.begin(Policy())
    made.begin(required())
    made.end(required(), "complete", None, bytes_moved=7, files=1, elapsed_s=0)
    outcomes = [fields(journal.next())["HOWDAH_OUTCOME"] for _ in range(2)]
    assert outcomes == ["begun", "complete"]


def test_a_log_that_is_required_and_not_there_refuses(sockets: Path) -> None:
    made = copy()
    with pytest.raises(
        Refused, match=r"no log of this host takes a line .* audit.* nothing is copied; start"
    ):
        made.begin(required())
    with pytest.raises(Refused, match=r"no log of this host takes a line .* what was copied is there"):
        made.end(required(), "complete", None, bytes_moved=1, files=1, elapsed_s=0)
