"""What a copy removes at its target: what can be asked for, and what is said of what came of it."""

import msgspec
import pytest
from test_summary import finished

from howdah._native import HowdahError
from howdah.cli import app
from howdah.cli.copy_command import request
from howdah.cli.table import read
from howdah.library.copy import Memory, copy_request
from howdah.remote.messages import Progress
from howdah.transfer.again import Earlier
from howdah.transfer.incomplete import in_words
from howdah.transfer.request import Delete, Request
from howdah.values.outcome import FileAction, FilesBeyond, Removal
from howdah.words.copy import summary


def asked(*words: str) -> Request:
    values = read(app.howdah("cp").named()["cp"], list(words), {})
    del values["json"], values["quiet"], values["rsh"]
    return request(**values)


def test_nothing_is_removed_unless_it_is_asked_for() -> None:
    assert asked("run42", "dtn2:d").delete is None
    assert asked("--delete", "run42", "dtn2:d").delete == Delete()
    assert asked("--delete-excluded", "run42", "dtn2:d").delete == Delete(excluded=True)
    assert asked("--delete", "--max-delete", "0", "run42/.", "dtn2:d").delete == Delete(most=0)
    assert asked("--delete", "a", "b", "dtn2:d").delete == Delete()
    assert asked("--delete", "dtn1:a/.", "dtn2:d").delete == Delete()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--max-delete", "5", "a", "dtn2:d"], "bounds what --delete removes; give --delete too"),
        (
            ["--delete", "--max-delete", "-1", "a", "dtn2:d"],
            "--max-delete -1 is below 0; leave it out",
        ),
        (["--delete", "--files-from", "/dev/null", "a", "dtn2:d"], "copy whole folders with --delete"),
        (["--delete", "dtn1:a/.", "dtn1:b", "dtn2:d"], r"copy SRC/\. in a separate command"),
        (["--delete", "a/.", "b", "dtn2:d"], r"copy SRC/\. in a separate command"),
        (["--delete", "dtn2:a/./", "dtn2:b", "d"], r"copy SRC/\. in a separate command"),
        (["--delete", "dtn2:", "dtn2:b", "d"], r"copy SRC/\. in a separate command"),
    ],
)
def test_what_would_remove_something_else_is_refused(words: list[str], says: str) -> None:
    with pytest.raises(HowdahError, match=says):
        asked(*words)


def test_memory_removes_nothing() -> None:
    with pytest.raises(HowdahError, match="memory moves no files, so delete has nothing to remove"):
        copy_request(["dtn2:"], [], memory=Memory(size_bytes=1), delete=True)


def came_to(removed: int, *, failed: int = 0, held: str | None = None) -> Removal:
    return msgspec.convert(
        {"extraneous": 12_000, "removed": removed, "failed": failed, "held": held}, Removal
    )


def test_what_was_not_removed_is_an_error_in_words() -> None:
    bounded = asked("--delete", "--max-delete", "10000", "a", "dtn2:d")

    def said(removal: Removal | None, **more: object) -> str | None:
        outcome = finished(removal=removal, **more).outcome
        assert outcome is not None
        return in_words(bounded, outcome)

    assert said(None) is None
    assert said(came_to(12_000)) is None
    assert said(came_to(0, held="too-many")) == (
        "the target has 12,000 files, folders and links that the source does not have, more than "
        "--max-delete 10000, so none was removed; list them with --dry-run, or allow more"
    )
    by_program = copy_request(["a", "dtn2:d"], [], delete=True, max_delete=10_000)
    outcome = finished(removal=came_to(0, held="too-many")).outcome
    assert outcome is not None
    assert str(in_words(by_program, outcome)).endswith(
        "more than max_delete 10000, so none was removed; list them with dry_run, or allow more"
    )
    unread = said(came_to(0, held="left-out"), left_out=["cannot read x"])
    assert unread is not None
    assert unread.startswith("1 file or folder could not be read")
    assert unread.endswith("nothing was removed, because the source may have what could not be read")
    one = Removal(extraneous=1, removed=0, failed=0, held="too-many")
    assert str(said(one)).startswith(
        "the target has 1 file, folder or link that the source does not have, more"
    )
    dry = asked("--delete", "--dry-run", "a", "dtn2:d")
    outcome = finished(removal=came_to(0, held="left-out"), left_out=["cannot read x"]).outcome
    assert outcome is not None
    assert str(in_words(dry, outcome)).endswith(
        "everything else would be copied; "
        "nothing would be removed, because the source may have what could not be read"
    )
    assert said(came_to(11_999, failed=1)) == (
        "1 file or folder of the target could not be removed; the warnings say why"
    )


def test_the_summary_says_how_much_was_removed() -> None:
    assert "Removed at the target: 7 that the source does not have" in summary(
        finished(removal=came_to(7)), None
    )
    assert "Removed" not in summary(finished(), None)


def test_a_dry_run_lists_what_would_go() -> None:
    actions = [
        FileAction(path=b"old/", size=0, action="remove"),
        FileAction(path=b"old/x", size=0, action="remove"),
        FileAction(path=b"new", size=1000, action="copy"),
    ]
    beyond = FilesBeyond(copy=0, copy_bytes=0, skip=1, remove=5)
    lines = summary(
        finished(dry_run_plan=actions, dry_run_beyond=beyond, removal=came_to(0)), None
    ).splitlines()
    assert lines[-5:-1] == [
        "copy      1.00 kB  new",
        "remove             old/",
        "remove             old/x",
        "… and 6 files more, not listed",
    ]
    assert lines[-1].startswith("Would copy 1 file, 1.00 kB")
    assert lines[-1].endswith("; skip 1; remove 7.")
    held = came_to(0, held="too-many")
    shown = summary(finished(dry_run_plan=actions, dry_run_beyond=beyond, removal=held), None)
    assert shown.endswith("; skip 1; remove none of 7.")


def test_what_lost_sessions_have_removed_counts() -> None:
    lost = msgspec.convert(
        {
            "phase": "finishing",
            "elapsed_s": 3.0,
            "bytes_done": 0,
            "scan_complete": True,
            "files_done": 0,
            "files_skipped": 0,
            "bytes_skipped": 0,
            "streams": 1,
            "retransmissions": 0,
            "removed": 5,
        },
        Progress,
    )
    earlier = Earlier()
    earlier.add(lost, 1.0)
    assert earlier.and_now(lost, 4.0).removed == 10
    outcome = finished(removal=came_to(7)).outcome
    assert outcome is not None
    both = earlier.and_last(outcome, 4.0).removal
    assert both is not None
    assert (both.removed, both.extraneous) == (12, 12_005)
