"""Copies of which one end is a pipe: what can be asked for, and what is said where one ends early."""

from pathlib import Path

import pytest
from samples import howdah
from test_delete import asked

from howdah import HowdahError, streams
from howdah.cli import copy_command
from howdah.remote.endpoints import Route, route
from howdah.transfer import incomplete, sources


def test_a_dash_is_a_pipe_and_a_name_is_a_name() -> None:
    assert route(["-", "far:d"], memory=False) == Route("push", "far", [b"-"], b"d", False, None, True)
    assert route(["far:a", "-"], memory=False) == Route("pull", "far", [b"a"], b"-", False, None, True)
    assert not route(["./-", "far:d"], memory=False).pipe
    assert not route(["far:-", "d"], memory=False).pipe
    # Its size is nobody's to know, and it is no file here.
    way = route(["-", "far:d"], memory=False)
    sources.check(way)
    assert sources.size(way) is None


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["-", "a", "far:d"], "- is a pipe, which carries one file"),
        (["far:a", "far:b", "-"], "- is a pipe, which carries one file"),
        (["-", "far:"], "^far: is a folder, and data from a pipe has no name; write far:NAME$"),
        (["-", "far:~/"], "write far:NAME$"),
        (["-", "far:/"], "write far:/NAME$"),
        (["-", "far:/d/"], "write far:/d/NAME$"),
        (["-", "-"], "both pipes of this host; write HOST:PATH"),
        (["-", "d"], "on this host"),
        (["a", "-"], "on this host"),
    ],
)
def test_a_pipe_is_of_one_file_with_a_name(names: list[str], says: str) -> None:
    with pytest.raises(HowdahError, match=says):
        route(names, memory=False)


@pytest.mark.parametrize(("names", "number"), [(["-", "far:d"], 0), (["far:a", "-"], 1)])
def test_a_closed_standard_stream_is_no_pipe(
    names: list[str], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CLOSED", {1 - number})
    asked(*names)
    monkeypatch.setattr(streams, "CLOSED", {number})
    with pytest.raises(HowdahError, match=f"standard {['input', 'output'][number]} is closed"):
        asked(*names)


@pytest.mark.parametrize(
    "option",
    [
        ["--dry-run"],
        ["--exclude", "*.o"],
        ["--files-from", "/dev/null"],
        ["--update"],
        ["--ignore-times"],
        ["--delete"],
        ["-a"],
        ["--sparse"],
    ],
)
@pytest.mark.parametrize("names", [["-", "far:d"], ["far:a", "-"]])
def test_options_of_files_are_refused(option: list[str], names: list[str]) -> None:
    with pytest.raises(HowdahError, match="is for files and folders, and - is a pipe; leave it out"):
        asked(*option, *names)


@pytest.mark.parametrize("option", [["--verify"], ["--manifest", "x.sha256"]])
def test_what_reads_the_target_again_needs_one(option: list[str]) -> None:
    assert asked(*option, "-", "far:d").route.pipe
    with pytest.raises(HowdahError, match="reads the target again, which is impossible for a pipe"):
        asked(*option, "far:a", "-")


def test_json_is_not_mixed_with_the_data() -> None:
    with pytest.raises(HowdahError, match="afterwards: howdah archive show last --json"):
        copy_command.copy(json=True, quiet=False, names=["far:a", "-"])


def test_a_log_is_not_mixed_with_the_data(tmp_path: Path) -> None:
    log, stdout, ssh = str(tmp_path / "log"), "/dev/stdout", {"HOWDAH_SSH": "false"}
    done = howdah("cp", "--log-file", stdout, "far:x", "-", **ssh)
    assert (done.returncode, done.stdout) == (1, "")
    why = "--log-file /dev/stdout is standard output, which carries the data; give another file"
    assert done.stderr == f"howdah: {why}\n"
    # The far end does not answer, and the log says so.
    howdah("cp", "--log-file", log, "far:x", "-", **ssh)
    assert "ended before it answered" in Path(log).read_text()
    assert "ended before it answered" in howdah("cp", "--log-file", stdout, "far:x", log, **ssh).stdout


def test_what_failed_is_not_told_to_go_on() -> None:
    gone = "the far end has gone; its ssh connection closed; run the same command again to go on"
    push, pull = route(["-", "far:d"], memory=False), route(["far:a", "-"], memory=False)
    assert incomplete.ended_early(push, gone, moved=True) == (
        "the far end has gone; its ssh connection closed; nothing new is at the target; "
        "a pipe gives its bytes once, so run the whole line again"
    )
    full = (
        "far end: no space left to write /d; make room (df, df -i and quota show where) and run the same "
        "command again, it goes on where this one stopped"
    )
    assert incomplete.ended_early(push, full, moved=True) == (
        "far end: no space left to write /d; make room (df, df -i and quota show where); "
        "nothing new is at the target; a pipe gives its bytes once, so run the whole line again"
    )
    unreached = "no answer; check the network between the ends, then run the same command again to go on"
    assert incomplete.ended_early(push, unreached, moved=False) == (
        "no answer; check the network between the ends; nothing new is at the target; "
        "a pipe gives its bytes once, so run the whole line again"
    )
    written = "no space left to write standard output; make room (df, df -i and quota show where)"
    assert incomplete.ended_early(pull, written, moved=True) == (
        f"{written}; the output until then is correct, but incomplete; "
        "a pipe gives its bytes once, so run the whole line again"
    )
    assert "the output until then is correct, but incomplete" in incomplete.ended_early(
        pull, "x; it goes on", moved=True
    )
    assert "there was no output" in incomplete.ended_early(pull, "no such file", moved=False)


@pytest.mark.parametrize(
    "why",
    [
        "far end: cannot write /d: its file system is read-only",
        "far end: this copy moves more than is left of 1 MB; copy less, or go on after midnight UTC",
    ],
)
def test_what_is_refused_for_good_is_not_told_to_run_again(why: str) -> None:
    push = route(["-", "far:d"], memory=False)
    assert incomplete.ended_early(push, why, moved=False) == f"{why}; nothing new is at the target"
