import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec
import pytest
from copying import SLACK_S, STOP_S, Argument, Copier, alive, tree, wait_until

from howdah import lab
from howdah.lab import Lab
from howdah.lab.session import Process
from howdah.values.record import Record

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

SMALL_FILES = 40
LARGE_BYTES = 40_000_000
PART = b".z-large.howdah-part"
MARK = b".howdah-part"
"""What there is of the large file, with which the same command goes on."""


@pytest.fixture(scope="module")
def wan(privilege: None) -> Iterator[Lab]:
    """20 Mb/s: the large file takes 16 s, the small ones a second."""
    with lab.started(lab.symmetric(20_000_000, 40_000_000), sshd=True) as up:
        yield up


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    top.mkdir()
    for number in range(SMALL_FILES):
        (top / f"a-small-{number:02}").write_bytes(os.urandom(30_000))
    (top / "z-large").write_bytes(os.urandom(LARGE_BYTES))
    return top


@contextmanager
def started(cp: Copier, *names: Argument, **environment: str) -> Iterator[Process]:
    """A copy that goes on; whatever is left of it ends with the block.

    It does not listen: on a busy machine the emulated link is late, and the copy would tell of a change.
    """
    process = cp.lab.popen(
        "near",
        cp.argv("--no-listen", *names),
        env={**cp.env, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with alive(process):
        yield process


@contextmanager
def copying(cp: Copier, source: Path, *more: str, pull: bool = False) -> Iterator[Process]:
    """A copy on its way: some files are there, the large one is not."""
    destination = cp.folder / "dst"
    names = (f"far:{source}", destination) if pull else (source, f"far:{destination}")
    with started(cp, *names, *more) as process:
        wait_until(lambda: destination.exists() and len(tree(destination)) > 3, 20)
        assert process.poll() is None
        yield process


def assert_only_whole_files(cp: Copier, source: Path) -> None:
    """What is there is complete, the large file is not there, and nothing else is but its part."""
    arrived = {name: node[3] for name, node in tree(cp.folder / "dst").items() if name not in {PART, MARK}}
    sent = {name: node[3] for name, node in tree(source).items()}
    assert arrived
    assert arrived.items() <= sent.items()
    assert b"z-large" not in arrived


def said(process: Process) -> str:
    assert process.stderr is not None
    text: str = process.stderr.read()
    return text


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_both_ends(cp: Copier, source: Path, number: int, code: int, pull: bool) -> None:
    with copying(cp, source, pull=pull) as process:
        process.send_signal(number)
        wait_until(lambda: process.poll() is not None, STOP_S + SLACK_S)
        assert process.returncode == code
        assert said(process) == f"howdah: interrupted by {signal.Signals(number).name}\n"
    cp.wait_for_nothing_left()
    assert_only_whole_files(cp, source)


def last(cp: Copier) -> Record:
    """The record of the last copy."""
    shown = cp.lab.run(
        "near",
        [sys.executable, "-m", "howdah", "archive", "show", "last", "--json"],
        env=cp.env,
        capture_output=True,
        check=True,
    )
    return msgspec.json.decode(shown.stdout, type=Record)


@contextmanager
def terminal() -> Iterator[tuple[int, Callable[[], None]]]:
    """A standard error and how it breaks: the terminal closes."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "wb"):
        yield slave, lambda: os.close(master)


@contextmanager
def reader() -> Iterator[tuple[int, Callable[[], None]]]:
    """The same of a pipe: its reader goes, as head does."""
    read, write = os.pipe()
    with os.fdopen(write, "wb"):
        yield write, lambda: os.close(read)


@contextmanager
def full() -> Iterator[tuple[int, Callable[[], None]]]:
    """One on a disk that is full from the start on."""
    with open("/dev/full", "wb") as file:  # noqa: PTH123, a device
        yield file.fileno(), lambda: None


@pytest.mark.parametrize("made", [terminal, reader, full])
def test_a_copy_goes_on_where_nothing_can_be_shown_any_more(
    cp: Copier, source: Path, made: Callable[[], AbstractContextManager[tuple[int, Callable[[], None]]]]
) -> None:
    (source / "z-large").write_bytes(os.urandom(6_000_000))
    log, metrics, there = cp.folder / "log", cp.folder / "metrics", cp.folder / "dst"
    with made() as (stderr, breaks):
        argv = cp.argv("--no-listen", "--log-file", log, "--metrics", metrics, source, f"far:{there}")
        process = cp.lab.popen(
            "near", argv, env={**cp.env, "HOWDAH_SSH_KEEP_S": "0"}, stdout=subprocess.PIPE, stderr=stderr
        )
        with alive(process):
            wait_until(lambda: there.exists() and len(tree(there)) > 3, 20)
            assert process.poll() is None
            breaks()
            assert process.wait(20) == 0
    assert tree(there) == tree(source)
    assert log.read_text().endswith(" end complete\n")
    assert 'state="done"} 1.0' in metrics.read_text()
    assert last(cp).error is None


@pytest.mark.parametrize(("json", "code"), [((), 0), (("--json",), 1)])
def test_a_reader_that_has_gone_is_an_error_only_for_what_programs_read(
    cp: Copier, source: Path, json: tuple[str, ...], code: int
) -> None:
    (source / "z-large").unlink()
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb"):
        process = cp.lab.popen(
            "near", cp.argv(*json, source, f"far:{cp.folder / 'dst'}"), env=cp.env, stdout=write
        )
        assert process.wait(20) == code
    assert tree(cp.folder / "dst") == tree(source)
    assert last(cp).error is None


@pytest.mark.parametrize(("asked", "code"), [((), 0), (("--json",), 1), (("--dry-run",), 1)])
def test_a_disk_that_is_full_is_an_error_only_for_what_was_asked_for(
    cp: Copier, source: Path, asked: tuple[str, ...], code: int
) -> None:
    (source / "z-large").unlink()
    with full() as (stdout, _):
        process = cp.lab.popen(
            "near", cp.argv(*asked, source, f"far:{cp.folder / 'dst'}"), env=cp.env, stdout=stdout
        )
        assert process.wait(20) == code
    if "--dry-run" not in asked:
        assert tree(cp.folder / "dst") == tree(source)


@pytest.mark.parametrize("pull", [False, True])
def test_a_near_end_killed_outright_leaves_no_far_end(cp: Copier, source: Path, pull: bool) -> None:
    with copying(cp, source, pull=pull) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    # Nobody was left to end the kept login: it ends by itself, KEEP_S later.
    wait_until(lambda: all("[mux]" in args for args in cp.processes().values()), STOP_S + SLACK_S)
    assert_only_whole_files(cp, source)


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("name", ["TERM", "KILL"])
def test_a_far_end_killed_stops_a_near_one_without_patience(
    cp: Copier, source: Path, name: str, pull: bool
) -> None:
    with copying(cp, source, "--patience", "0", pull=pull) as process:
        cp.kill_far_end(name)
        wait_until(lambda: process.poll() is not None, STOP_S + SLACK_S)
        assert process.returncode == 1
        text = said(process)
    assert text.startswith("howdah: ")
    assert text.count("\n") == 1, text
    cp.wait_for_nothing_left()
    assert_only_whole_files(cp, source)


def test_after_a_signal_the_same_copy_finishes(cp: Copier, source: Path) -> None:
    (source / "z-large").write_bytes(os.urandom(4_000_000))
    with copying(cp, source) as process:
        process.send_signal(signal.SIGINT)
        process.wait(STOP_S + SLACK_S)
    cp.wait_for_nothing_left()
    arrived = len(tree(cp.folder / "dst").keys() - {PART, MARK})
    record = cp.good(f"{source}/.", f"far:{cp.folder}/dst")
    assert record.outcome is not None
    assert record.outcome.files_skipped == arrived
    assert tree(cp.folder / "dst") == tree(source)


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("end", ["near", "far"])
def test_what_was_verified_before_an_end_was_killed_is_not_sent_again(
    cp: Copier, source: Path, end: str, pull: bool
) -> None:
    large = 12_000_000
    (source / "z-large").write_bytes(os.urandom(large))
    part = cp.folder / "dst" / os.fsdecode(PART)
    far, near = (source, cp.folder / "dst") if pull else (cp.folder / "dst", source)
    names = (f"far:{far}/.", near) if pull else (f"{near}/.", f"far:{far}")
    # With patience the copy would go on by itself where the far end is killed.
    with started(cp, "--patience", "0", *names) as process:
        # What lies behind the content in the part is a note of 16 bytes for each piece.
        wait_until(lambda: part.exists() and part.stat().st_size >= large + 24 + 10 * 16, 20)
        if end == "near":
            process.send_signal(signal.SIGKILL)
        else:
            cp.kill_far_end("KILL")
        process.wait()
    wait_until(lambda: all("[mux]" in args for args in cp.processes().values()), STOP_S + SLACK_S)
    record = cp.good(*names)
    assert record.outcome is not None
    # Pieces have 64 KiB at the least.
    assert record.outcome.bytes_resumed >= 10 * 2**16
    moved = record.outcome.bytes + record.outcome.bytes_resumed + record.outcome.bytes_skipped
    assert moved == large + SMALL_FILES * 30_000
    assert tree(cp.folder / "dst") == tree(source)


def test_a_signal_while_ssh_connects(cp: Copier, source: Path) -> None:
    with started(cp, source, "far:/tmp/x", HOWDAH_SSH="ssh -oProxyCommand=tail") as process:
        wait_until(lambda: any(args.startswith("ssh ") for args in cp.processes().values()), 5)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: process.poll() is not None, STOP_S + SLACK_S)
        assert process.returncode == 130
    cp.wait_for_nothing_left()
