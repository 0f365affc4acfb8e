from pathlib import Path

import msgspec
import pytest
from samples import howdah, record

from howdah.archive import Archive
from howdah.remote.endpoints import route
from howdah.transfer.request import Request
from howdah.transfer.standing import Watched
from howdah.transfer.valve import Valve
from howdah.values.outcome import Change, FileAction, FilesBeyond, Outcome, StreamOutcome
from howdah.values.plan import Plan
from howdah.values.record import Record
from howdah.words.copy import details, line, slash_note, summary

OUTCOME = Outcome(
    direction="push",
    bytes=4_000_000_000,
    files=1,
    folders=2,
    links=0,
    files_skipped=3,
    bytes_skipped=5000,
    elapsed_s=4.0,
    setup_s=0.5,
    moving_s=3.2,
    encrypted=True,
    congestion_control="cubic",
    streams=[StreamOutcome(bytes=1, retransmissions=7, congestion_control="cubic")] * 2,
)


def finished(**changed: object) -> Record:
    outcome = msgspec.structs.replace(OUTCOME, **changed)
    plan = Plan(streams=2, congestion_control="cubic", block_bytes=2**20)
    return msgspec.structs.replace(
        record(), host="dtn2", plan=plan, outcome=outcome, connect_s=0.3, rtt_s=0.1
    )


def test_a_summary_by_hand() -> None:
    made = finished()
    assert summary(made, Path("x")).splitlines() == [
        "4.00 GB in 4.00 s: 8.00 Gb/s (10.0 Gb/s after 500 ms of setup)",
        "1 file, 2 folders, 3 skipped, there already (5.00 kB)",
        "Plan: 2 streams, cubic, buffers autotuned, encrypted",
        "RTT 100 ms, 14 retransmissions, 300 ms of login before",
        f"Record: howdah archive show {made.id}",
    ]


def test_an_ipv6_address_stands_in_brackets_before_a_path() -> None:
    made = msgspec.structs.replace(finished(target="dir"), host="fd77::2")
    assert "To [fd77::2]:dir" in summary(made, None).splitlines()
    request = Request([], route(["me@[fd77::2]:a", "b"], memory=False))
    now = Watched(request, made.id, made.started_at, Valve(None)).now()
    assert (now.from_, now.to) == (["me@[fd77::2]:a"], "b")


@pytest.mark.parametrize(
    ("ridden", "said"),
    [
        ({"connections_replaced": 1}, "1 broken connection replaced on the way"),
        ({"outages": 1, "outage_s": 60.0}, "Rode through 1 outage, 1 min 00 s in all"),
        ({"restarts": 1}, "Far end started again once"),
        (
            {"outages": 2, "outage_s": 63.0, "connections_replaced": 3, "restarts": 2},
            "Rode through 2 outages, 1 min 03 s in all; 3 broken connections replaced on the way; "
            "far end started again 2 times",
        ),
    ],
)
def test_what_was_ridden_through_is_shown_wherever_it_is_shown(ridden: dict[str, float], said: str) -> None:
    made = finished(**ridden)
    assert said in summary(made, None).splitlines()
    assert said in details(made, Path("x")).splitlines()


def test_data_that_went_through_ssh_is_told_wherever_it_is_shown(tmp_path: Path) -> None:
    said = "Through the ssh connection, because the data port was closed (10.9.0.2:50017: no answer)"
    made = finished(through_ssh="10.9.0.2:50017: no answer")
    assert said in summary(made, None).splitlines()
    assert said in details(made, tmp_path).splitlines()


def test_what_was_there_from_an_interrupted_copy_is_said() -> None:
    words = "resumed: 9.20 GB were there from an interrupted copy, compared and not sent again"
    assert summary(finished(bytes_resumed=9_200_000_000), None).splitlines()[2] == words
    assert "resumed" not in summary(finished(), None)
    assert finished(bytes_resumed=1).outcome.moving_bps is None, "no rate of the path to learn from"


def test_holes_are_said_and_leave_no_rate_of_the_path() -> None:
    some = finished(hole_bytes=1_099_000_000_000)
    assert summary(some, None).splitlines()[2] == "holes: 1.10 TB of zeros were not sent"
    assert some.outcome.moving_bps is None, "most of the time went into digests of zeros"
    few = finished(hole_bytes=1)
    assert few.outcome.moving_bps == finished().outcome.moving_bps
    assert "holes" not in summary(finished(), None)
    assert summary(finished(bytes=0, hole_bytes=7), None).startswith("Nothing to send, in ")


@pytest.mark.parametrize(("direction", "where"), [("push", "dtn2:t/run42"), ("pull", "t/run42")])
def test_a_summary_says_where_it_went(direction: str, where: str) -> None:
    made = finished(direction=direction, target="t/run42")
    assert summary(made, None).splitlines()[2] == f"To {where}"
    assert f"\nTo {where}\n" in details(made, Path("x"))


@pytest.mark.parametrize(
    ("names", "target", "note"),
    [
        (["run42/", "far:t"], "t/run42", "run42/ is the folder itself, with or without the slash; "),
        (["/a/run42/", "far:t/"], "t/run42", "for its content write /a/run42/."),
        (["far:run42//", "."], "run42", "for its content write far:run42/."),
        (["run42", "far:t"], "t/run42", None),
        (["run42/", "far:t/new"], "t/new", None),
        (["run42/", "far:t/run42"], "t/run42", None),
        (["run42/.", "far:t"], "t/run42", None),
        (["run42/", "run43/", "far:t"], "t", None),
        (["run42/", "far:t"], None, None),
        (["./", "far:t"], "t/.", None),
    ],
)
def test_a_slash_behind_a_folder_is_explained_where_rsync_means_something_else(
    names: list[str], target: str | None, note: str | None
) -> None:
    said = slash_note(names, finished(target=target).outcome)
    assert said is None if note is None else said is not None and note in said


def test_nothing_to_move() -> None:
    assert summary(finished(bytes=0, moving_s=None), None).startswith("Nothing to move, in 4.00 s")


@pytest.mark.parametrize(
    ("changed", "first", "to"),
    [
        ({"files": 0, "folders": 0, "files_skipped": 0}, "Nothing was copied, in 4.00 s", False),
        ({"files": 0, "folders": 0}, "Nothing was copied, in 4.00 s", True),
        ({"files": 0, "folders": 1}, "No file was copied, in 4.00 s", True),
        ({"files": 1}, "0 B in 4.00 s", True),
    ],
)
def test_what_could_not_be_copied_was_not_nothing_to_move(
    changed: dict[str, int], first: str, to: bool
) -> None:
    why = "/run42/a: it changed while it was read; run the same command again"
    shown = summary(finished(bytes=0, moving_s=None, target="t/a", left_out=[why], **changed), None)
    assert shown.splitlines()[0] == first
    assert ("\nTo dtn2:t/a\n" in shown) is to


def test_a_spoilt_run_and_warnings_are_shown_wherever_it_is_shown() -> None:
    made = msgspec.structs.replace(finished(warnings=["odd"]), flags=["lateness"])
    assert "warning: odd" in summary(made, None)
    assert "too slow for the link" in summary(made, None)
    assert "[lateness]" in line(made)
    assert "lateness" in details(made, Path("x"))


def test_changes_on_the_way_are_shown_wherever_it_is_shown() -> None:
    taken = Change(t_s=5.031, congestion_control="bbr", streams=4, pacing_bps=10**8, why="BBR heard")
    refused = Change(t_s=9.0, streams=1, why="a whim", refused="no such control")
    made = finished(changes=[taken, refused])
    for shown in (summary(made, None), details(made, Path("x"))):
        assert "After 5.03 s: bbr, 4 streams, paced at 100 Mb/s a stream (BBR heard)" in shown.splitlines()
        assert (
            "After 9.00 s refused, so nothing changed: the same congestion control, 1 stream, unbounded "
            "(a whim): no such control" in shown.splitlines()
        )


def test_what_was_counted_and_not_kept_is_told() -> None:
    made = finished(warnings=["odd"], warnings_more=2000, left_out=["x: gone"], left_out_more=1)
    assert "warning: 2,000 more, not listed" in summary(made, None).splitlines()
    shown = details(made, Path("x")).splitlines()
    assert shown.index("warning: 2,000 more, not listed") == shown.index("warning: odd") + 1
    assert shown.index("left out: 1 more, not listed") == shown.index("left out: x: gone") + 1


def test_special_files_are_counted_apart_from_links() -> None:
    shown = summary(
        finished(files=2, folders=1, links=1, special_files=3, files_skipped=0), None
    ).splitlines()
    assert "2 files, 1 folder, 1 link, 3 special files" in shown


def test_a_dry_run_lists_names_as_one_line_each() -> None:
    actions = [
        FileAction(path=b"a\nb\xff", size=1000, action="copy"),
        FileAction(path=b"there", size=5, action="skip"),
    ]
    text = summary(finished(dry_run_plan=actions), None)
    assert "copy    1.00 kB  a\\nb\\xff" in text.splitlines()
    assert text.endswith("Would copy 1 file, 1.00 kB; skip 1.")
    some = [FileAction(path=name, size=1, action="copy") for name in (b"b/2", b"b/10", b"a")]
    links = [FileAction(path=name, size=0, action="copy", kind="link") for name in (b"c", b"d")]
    # Of five links that the scan has found three are there already.
    would = finished(dry_run_plan=[*some, *links], links=5, target="t/src")
    whole = summary(would, None).splitlines()
    assert [row.split()[-1] for row in whole[-6:-1]] == ["a", "b/10", "b/2", "c", "d"]
    assert whole[-1] == "Would copy 3 files, 3 B, 2 links, to dtn2:t/src; skip 0."
    pipes = [FileAction(path=b"p%d" % each, size=0, action="copy", kind="special") for each in range(3)]
    special = summary(finished(dry_run_plan=[*some, links[0], *pipes], links=1, special_files=3), None)
    assert special.endswith("Would copy 3 files, 3 B, 1 link, 3 special files; skip 0.")
    nothing = summary(finished(dry_run_plan=[actions[1]], links=1, special_files=3), None)
    assert nothing.endswith("Would copy 0 files, 0 B; skip 1.")
    warned = summary(finished(dry_run_plan=some, warnings=["would remove x"]), None).splitlines()
    assert warned[-2:] == ["warning: would remove x", "Would copy 3 files, 3 B; skip 0."]
    beyond = FilesBeyond(copy=2_999, copy_bytes=1_000_000, skip=4_000)
    more = summary(finished(dry_run_plan=actions, dry_run_beyond=beyond), None).splitlines()
    assert more[-2:] == ["… and 6,999 files more, not listed", "Would copy 3,000 files, 1.00 MB; skip 4,001."]


def test_a_dry_run_says_what_each_name_is() -> None:
    actions = [
        FileAction(path=b"a.c", size=1, action="copy"),
        FileAction(path=b"a/", size=0, action="copy", kind="folder"),
        FileAction(path=b"a/b", size=1000, action="copy", kind="hard-link"),
        FileAction(path=b"a/l", size=0, action="copy", kind="link"),
        FileAction(path=b"old/", size=0, action="remove", kind="folder"),
    ]
    beyond = FilesBeyond(copy=0, copy_bytes=0, skip=0, make=2)
    lines = summary(finished(dry_run_plan=actions, dry_run_beyond=beyond, links=2), None).splitlines()
    assert lines[-7:] == [
        "copy     folder  a/",
        "copy  hard link  a/b",
        "copy       link  a/l",
        "copy        1 B  a.c",
        "remove     folder  old/",
        "… and 2 names more, not listed",
        "Would copy 1 file, 1 B, 2 links; skip 0.",
    ]


def test_the_archive_is_listed_and_shown(tmp_path: Path) -> None:
    store = Archive(tmp_path / "howdah" / "records")
    made = finished()
    failed = msgspec.structs.replace(record(1), error="no space left; make room")
    store.save(made)
    store.save(failed)
    broken = store.save(record(2))
    broken.write_text("{")
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    listed = howdah("archive", "ls", **environment)
    assert listed.returncode == 0
    assert [row.split()[0] for row in listed.stdout.splitlines()] == [failed.id, made.id]
    assert "[failed]" in listed.stdout.splitlines()[0]
    assert str(broken) in listed.stderr
    assert len(howdah("archive", "ls", "-n", "2", **environment).stdout.splitlines()) == 1
    as_json = howdah("archive", "ls", "--json", **environment).stdout
    assert msgspec.json.decode(as_json, type=list[Record]) == [failed, made]
    shown = howdah("archive", "show", made.id, **environment).stdout
    assert "4.00 GB in 4.00 s" in shown
    assert "Plan (shared path)" in shown
    same = howdah("archive", "show", made.id[:22], "--json", **environment).stdout
    assert msgspec.json.decode(same, type=Record) == made
    assert "no space left" in howdah("archive", "show", failed.id, **environment).stdout


def test_an_empty_list_says_so(tmp_path: Path) -> None:
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    none = howdah("archive", "ls", **environment)
    assert none.stdout == "no record yet; each copy leaves one: howdah cp SRC... DST\n"
    assert howdah("archive", "ls", "--json", **environment).stdout == "[]\n"
    for chosen in (("--sweep", "x"), ("--newer-than", "0s")):
        other = howdah("archive", "ls", *chosen, **environment)
        assert other.stdout == "no record matches; list all with: howdah archive ls\n"


@pytest.mark.parametrize("arguments", [("archive", "ls", "-n", "0"), ("archive", "show")])
def test_wrong_archive_lines(arguments: tuple[str, ...]) -> None:
    assert howdah(*arguments).returncode == 2
