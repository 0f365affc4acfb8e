"""Copies out of a pipe and into one: ``pg_dump | howdah cp - far:dump`` and back."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from copying import STOP_S, Copier, alive, wait_until

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

SOME_BYTES = 30_000_017
AHEAD_BYTES = 40_000_000
"""More than the writer of a pipe gets ahead of a path of 10 Mb/s: the pipe, a block a stream, the socket."""


def good(cp: Copier, *arguments: str | Path, given: bytes = b"") -> bytes:
    """A copy that must succeed; what came out."""
    done = cp.piped(*arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_pipe_goes_there_and_comes_back(cp: Copier, tmp_path: Path) -> None:
    given, dump = os.urandom(SOME_BYTES), tmp_path / "dump"
    summary = good(cp, "-", f"far:{dump}", "--verify", given=given).decode()
    assert dump.read_bytes() == given
    assert f"To far:{dump}" in summary
    assert "1 file" in summary
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".dump", "dump"))] == ["dump"]
    done = cp.piped(f"far:{dump}", "-")
    assert (done.returncode, done.stdout == given) == (0, True)
    assert b"1 file" in done.stderr
    assert good(cp, f"far:{dump}", "-", "--quiet") == given
    assert good(cp, "-", f"far:{tmp_path}/none", "--json", given=b"").startswith(b"{")
    assert (tmp_path / "none").read_bytes() == b""


def test_a_folder_takes_no_pipe_and_a_pipe_no_folder(cp: Copier, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert b"a pipe has no name; name the file in it" in cp.piped("-", f"far:{tmp_path}/folder").stderr
    assert b"it is a folder; name one file in it" in cp.piped(f"far:{tmp_path}/folder", "-").stderr
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_copy_that_is_cut_leaves_nothing_and_the_writer_waited_for_the_path(
    cp: Copier, tmp_path: Path, how: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    argv = [*cp.argv("-", f"far:{target}/dump", "--streams", "1", "--pace", "10Mbit"), "--quiet"]
    process = cp.lab.popen(
        "near", argv, env=cp.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with alive(process):
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        written, until_s = 0, time.monotonic() + 2.5
        while time.monotonic() < until_s:
            with contextlib.suppress(BlockingIOError):
                written += os.write(process.stdin.fileno(), bytes(65536))
            time.sleep(0.0005)
        assert 1_000_000 < written < AHEAD_BYTES
        if how == "SIGINT":
            process.send_signal(signal.SIGINT)
        else:
            cp.kill_far_end("KILL")
        _, complained = process.communicate(timeout=20)
    assert process.returncode == (130 if how == "SIGINT" else 1)
    if how == "SIGKILL":
        assert b"a pipe gives its bytes once, so run the whole line again" in complained
        assert b"go on" not in complained
    wait_until(lambda: not list(target.iterdir()), STOP_S)


def test_a_reader_that_has_enough_ends_the_copy(cp: Copier, tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(os.urandom(SOME_BYTES))
    line = '"$0" "$@" | head -c 1000; echo "${PIPESTATUS[0]}"'
    argv = ["bash", "-c", line, *cp.argv(f"far:{tmp_path}/dump", "-")]
    done = cp.lab.run("near", argv, env=cp.env, capture_output=True, timeout=60)
    assert done.stdout == (tmp_path / "dump").read_bytes()[:1000] + b"1\n"
    assert b"the program that reads the pipe has ended" in done.stderr
