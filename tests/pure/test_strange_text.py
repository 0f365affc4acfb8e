"""What another host says and what files are called reaches a terminal as printable lines only."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from howdah import document
from howdah.remote import process
from howdah.text import printable
from howdah.values.record import HostLimits

OSC52 = "\x1b]52;c;ZWNobyBoaQ==\x07"
TURNED = "\u202egpj.exe"
_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def _is_plain(line: str) -> bool:
    # Cn: this Python may be older than a character.
    return all(each == " " or unicodedata.category(each) == "Cn" or _shows(each) for each in line)


def _shows(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZ"


@given(st.binary() | _TEXT)
@example("\u200b\u2028\u2029\u061c\u2066\ufeff\ue000\x9b\x7f")
@example("\ud800\udcff")
def test_any_text_is_one_plain_line_and_stays_it(text: bytes | str) -> None:
    line = printable(text)
    assert _is_plain(line)
    assert printable(line) == line


@given(st.lists(st.binary(max_size=100)), st.booleans())
def test_standard_error_of_a_far_end_is_plain_lines(pieces: list[bytes], twice: bool) -> None:
    said = process.StandardError()
    for piece in pieces:
        said.add(piece)
    lines = [*(said.lines(to_end=False) if twice else []), *said.lines(to_end=True)]
    assert all(_is_plain(line) for line in lines)
    assert said.lines(to_end=True) == []


def test_of_endless_complaints_the_beginning_and_the_end_are_kept() -> None:
    said, bytes_said = process.StandardError(), 0
    for number in range(20_000):
        line = b"line %d\n" % number
        said.add(line)
        bytes_said += len(line)
    lines = said.lines(to_end=True)
    assert lines[0] == "line 0"
    assert lines[-1] == "line 19999"
    assert f"({bytes_said - 2 * process.KEPT_BYTES} bytes left out)" in lines
    assert sum(map(len, lines)) < 2 * process.KEPT_BYTES + 100


@given(_TEXT)
@example(OSC52 + TURNED + "\x9b2J\x7f\U000e0041")
def test_json_is_exact_and_obeyed_by_no_terminal(text: str) -> None:
    for shown in (document.encode({"text": text}), document.line({"text": text})):
        assert json.loads(shown) == {"text": text}
        assert all(_is_plain(line) for line in shown.decode().split("\n"))


def test_a_document_that_another_host_told_is_printable_throughout() -> None:
    limits = msgspec.structs.replace(
        HostLimits.here(), kernel=OSC52, congestion_controls_available=[TURNED, "x" * 100_000]
    )
    shown = document.strange(limits)
    assert shown.kernel == r"\u{1b}]52;c;ZWNobyBoaQ==\u{7}"
    assert shown.congestion_controls_available[0] == r"\u{202e}gpj.exe"
    assert len(shown.congestion_controls_available[1].encode()) == 8192
    assert document.strange(HostLimits.here()) == HostLimits.here()


_FAR_END = """#!{python}
import os, subprocess, sys
if "-G" in sys.argv:
    print("hostname 127.0.0.1")
    sys.exit(0)
osc, turned = "\\x1b]52;c;ZWNobyBoaQ==\\x07", "\\u202egpj.exe"
sys.stderr.write(osc + "\\nhowdah: password: \\r\\n" + turned + "\\n" + {endless})
sys.stderr.flush()
sys.exit(subprocess.call([sys.executable, "-P", "-m", "howdah", "serve"]))
"""


def _cp(folder: Path, endless: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """A real copy whose ssh is a program that runs the far end here, and its peak of memory in bytes."""
    fake = folder / "ssh"
    fake.write_text(_FAR_END.format(python=sys.executable, endless=endless))
    fake.chmod(0o755)
    (folder / "source").write_bytes(os.urandom(1 << 20))
    told = folder / "memory"
    script = (
        "import resource, sys\n"
        "from howdah.__main__ import main\n"
        "try:\n    main()\nfinally:\n"
        f"    open({str(told)!r}, 'w').write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))\n"
    )
    found = subprocess.run(
        [sys.executable, "-P", "-c", script, "cp", "--no-listen", "source", "far:target"],
        cwd=folder,
        env={**os.environ, "HOWDAH_SSH": str(fake), "HOME": str(folder), "XDG_DATA_HOME": str(folder)},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        check=False,
    )
    return found, int(told.read_text()) * 1024


def test_nothing_that_a_far_end_writes_is_obeyed(tmp_path: Path) -> None:
    found, _ = _cp(tmp_path, '""')
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "target").read_bytes() == (tmp_path / "source").read_bytes()
    assert all(_is_plain(line) for line in found.stderr.split("\n")), found.stderr
    said = found.stderr.splitlines()
    assert said[:3] == [
        r"far end: \u{1b}]52;c;ZWNobyBoaQ==\u{7}",
        "far end: howdah: password: ",
        r"far end: \u{202e}gpj.exe",
    ]


def test_a_far_end_that_never_stops_complaining_costs_no_memory(tmp_path: Path) -> None:
    _, plain_bytes = _cp(tmp_path, '""')
    (tmp_path / "target").unlink()
    found, peak_bytes = _cp(tmp_path, '("y" * 999 + "\\n") * 200_000')
    assert found.returncode == 0, found.stderr[-2000:]
    assert (tmp_path / "target").read_bytes() == (tmp_path / "source").read_bytes()
    assert peak_bytes - plain_bytes < 32 << 20
    assert len(found.stderr) < 64 << 10
    assert "bytes left out" in found.stderr
