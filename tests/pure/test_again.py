"""A copy whose connection was lost: when it begins again, and what its sessions come to together."""

import random
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from howdah.remote import answers, ssh
from howdah.remote.messages import Progress
from howdah.transfer import run
from howdah.transfer.again import LEAST_UNANSWERED_S, Earlier, Patience, unanswered
from howdah.values.outcome import Change, Outcome, Sample

NOW = Progress(
    phase="moving",
    elapsed_s=2.0,
    bytes_done=1000,
    bytes_total=5000,
    scan_complete=True,
    files_done=3,
    files_total=10,
    files_skipped=3,
    bytes_skipped=1000,
    streams=4,
    retransmissions=2,
    connections_replaced=4,
    outages=1,
    outage_s=30.0,
)
SAMPLE = Sample(
    t_s=0.5,
    stream=0,
    bytes_acked=1,
    cwnd=10,
    rtt_s=0.1,
    min_rtt_s=0.1,
    retransmissions=0,
    delivery_rate_bps=1,
    notsent_bytes=0,
)
OUTCOME = Outcome(
    direction="push",
    bytes=4000,
    files=7,
    folders=1,
    links=0,
    files_skipped=3,
    bytes_skipped=1000,
    elapsed_s=5.0,
    setup_s=0.5,
    moving_s=4.0,
    encrypted=True,
    connections_replaced=1,
    outages=1,
    outage_s=10.0,
    samples=[SAMPLE],
    changes=[Change(t_s=1.0, streams=1, why="a test's")],
)


def test_pauses_grow_and_the_patience_ends() -> None:
    patience = Patience(300.0)
    patience.lost(0.0, None, 5.0)
    assert [patience.pause_s() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert patience.left_s(5.0) == 300.0
    patience.lost(100.0, None, 130.0)
    assert patience.left_s(130.0) == 175.0
    assert patience.left_s(305.0) == 0.0


def test_a_session_that_brought_something_for_a_while_begins_the_patience_anew() -> None:
    patience = Patience(300.0)
    patience.lost(0.0, 4.0, 5.0)
    assert patience.left_s(6.0) == 299.0
    patience.pause_s()
    patience.lost(10.0, 100.0, 160.0)
    assert patience.left_s(160.0) == 240.0, "from its last byte on"
    assert patience.pause_s() == 1.0
    # A far end that dies after its first bytes, again and again, does not.
    for number in range(50):
        patience.lost(200.0 + number, 201.0 + number, 202.0 + number)
    assert patience.left_s(400.0) == 0.0


def test_what_sessions_come_to_together() -> None:
    earlier = Earlier()
    assert earlier.and_now(NOW, 2.0) is NOW
    assert earlier.and_last(OUTCOME, 0.0) is OUTCOME
    earlier.add(msgspec.structs.replace(NOW, files_skipped=0, bytes_skipped=0), 4.0)
    shown = earlier.and_now(NOW, 9.0)
    assert (shown.elapsed_s, shown.bytes_done, shown.bytes_total) == (9.0, 2000, 6000)
    assert (shown.files_done, shown.files_total, shown.files_skipped, shown.bytes_skipped) == (6, 13, 0, 0)
    whole = earlier.and_last(OUTCOME, 7.0)
    assert (whole.bytes, whole.files, whole.files_skipped, whole.bytes_skipped) == (5000, 10, 0, 0)
    assert (whole.elapsed_s, whole.setup_s, whole.moving_s) == (12.0, 0.5, 11.0)
    assert (whole.connections_replaced, whole.outages, whole.outage_s, whole.restarts) == (5, 2, 44.0, 1)
    assert (whole.samples[0].t_s, whole.changes[0].t_s) == (7.5, 8.0)


def test_what_is_known_in_all_does_not_grow_with_a_session() -> None:
    earlier = Earlier()
    first = msgspec.structs.replace(NOW, files_done=0, files_total=1, files_skipped=0, bytes_skipped=0)
    earlier.add(first, 0.0)
    begun = msgspec.structs.replace(
        first, bytes_done=0, bytes_total=None, files_total=None, scan_complete=False
    )
    scanned = msgspec.structs.replace(first, bytes_done=0)
    found = msgspec.structs.replace(first, bytes_done=200, bytes_total=4000, bytes_resumed=1000)
    # The target had lost 300 of what the first session moved.
    sent = msgspec.structs.replace(first, files_done=1, bytes_done=4300, bytes_total=4300, bytes_resumed=700)
    shown = [earlier.and_now(each, 9.0) for each in (begun, scanned, found, sent)]
    assert [each.bytes_total for each in shown] == [5000] * 4
    assert [each.bytes_done for each in shown] == [1000, 1000, 1200, 5000]
    assert [each.files_total for each in shown] == [1] * 4
    assert [each.files_done for each in shown] == [0, 0, 0, 1]


def test_parts_that_the_copy_left_itself_are_not_an_interrupted_copys() -> None:
    earlier = Earlier()
    earlier.add(msgspec.structs.replace(NOW, files_done=0, files_skipped=0, bytes_skipped=0), 0.0)
    last = msgspec.structs.replace(OUTCOME, files_skipped=0, bytes_skipped=0, bytes_resumed=1000)
    whole = earlier.and_last(last, 7.0)
    assert (whole.bytes, whole.bytes_skipped, whole.bytes_resumed) == (5000, 0, 0)
    assert whole.moving_bps == 5000 * 8 / 11.0
    # What was moved and not kept is sent again, and counts once.
    whole = earlier.and_last(msgspec.structs.replace(last, bytes=4400, bytes_resumed=600), 7.0)
    assert (whole.bytes, whole.bytes_resumed) == (5000, 0)


def test_holes_of_a_lost_session_stay_apart_from_what_it_sent() -> None:
    earlier = Earlier()
    none = {"files_skipped": 0, "bytes_skipped": 0}
    first = msgspec.structs.replace(NOW, **none, files_done=0, files_total=2, hole_bytes=90_000)
    earlier.add(first, 0.0)
    # A file of 70,500 bytes was whole, of which 500 were sent; of the other one 500 are there.
    there = {"files_skipped": 1, "bytes_skipped": 70_500, "bytes_resumed": 500}
    now = msgspec.structs.replace(NOW, **there, bytes_done=0, bytes_total=25_000, hole_bytes=0)
    shown = earlier.and_now(now, 9.0)
    assert (shown.bytes_done, shown.hole_bytes, shown.bytes_resumed) == (1000, 70_000, 0)
    assert shown.bytes_total == 26_000
    last = msgspec.structs.replace(OUTCOME, **there, bytes=4000, hole_bytes=21_000)
    whole = earlier.and_last(last, 7.0)
    assert (whole.bytes, whole.hole_bytes) == (5000, 91_000)
    assert (whole.bytes_skipped, whole.bytes_resumed) == (0, 0)


def test_what_was_there_before_the_copy_stays_told() -> None:
    earlier = Earlier()
    first = msgspec.structs.replace(NOW, bytes_resumed=500)
    earlier.add(first, 0.0)
    # The first session has finished three files; 200 of what it moved, and what was resumed, is in a part.
    last = msgspec.structs.replace(
        OUTCOME, bytes=2000, files=4, files_skipped=6, bytes_skipped=1800, bytes_resumed=700
    )
    whole = earlier.and_last(last, 7.0)
    assert (whole.bytes, whole.files) == (3000, 7)
    assert (whole.files_skipped, whole.bytes_skipped, whole.bytes_resumed) == (3, 1000, 500)


def test_a_first_session_that_moved_nothing_changes_no_count() -> None:
    earlier = Earlier()
    earlier.add(
        msgspec.structs.replace(NOW, bytes_done=0, files_done=0, files_skipped=0, bytes_skipped=0), 0.0
    )
    last = msgspec.structs.replace(OUTCOME, bytes_resumed=500)
    whole = earlier.and_last(last, 7.0)
    assert (whole.bytes, whole.files) == (last.bytes, last.files)
    assert (whole.files_skipped, whole.bytes_skipped, whole.bytes_resumed) == (3, 1000, 500)


@pytest.mark.parametrize("seed", range(100))
def test_sessions_drawn_by_seed_come_to_what_a_copy_without_loss_tells(seed: int) -> None:
    drawn = random.Random(seed)  # noqa: S311
    sizes = [drawn.randrange(1, 1000) for _ in range(drawn.randrange(1, 30))]
    there = [drawn.choice([0, 0, drawn.randrange(size), size]) for size in sizes]
    before = Counts.of(sizes, there)
    earlier, held = Earlier(), list(there)
    for _ in range(drawn.randrange(1, 4)):
        found = Counts.of(sizes, held)
        if earlier.restarts:
            check_in_all(earlier, drawn, sizes, there, held)
        moved, files = 0, 0
        for number in drawn.sample(range(len(sizes)), drawn.randrange(len(sizes))):
            add = drawn.randrange(sizes[number] - held[number] + 1)
            held[number] += add
            moved += add
            files += add > 0 and held[number] == sizes[number]
        # The near end may not have been told of the last of it.
        told = drawn.choice([1.0, 0.9])
        earlier.add(
            msgspec.structs.replace(
                known(sizes, found),
                bytes_done=int(moved * told),
                files_done=int(files * told),
                **found._asdict(),
            ),
            1.0,
        )
        # The far end may not have kept the last of what it took.
        for number, size in enumerate(sizes):
            if there[number] < held[number] < size:
                held[number] = drawn.randrange(there[number], held[number] + 1)
    found = Counts.of(sizes, held)
    outcome = msgspec.structs.replace(
        OUTCOME,
        bytes=sum(sizes) - sum(held),
        files=len(sizes) - found.files_skipped,
        **found._asdict(),
    )
    whole = earlier.and_last(outcome, 7.0)
    assert (whole.bytes, whole.files) == (sum(sizes) - sum(there), len(sizes) - before.files_skipped)
    assert (whole.files_skipped, whole.bytes_skipped, whole.bytes_resumed) == before


def known(sizes: list[int], found: "Counts") -> Progress:
    """A session that has found so much and moved nothing."""
    return msgspec.structs.replace(
        NOW,
        bytes_done=0,
        files_done=0,
        bytes_total=sum(sizes) - found.bytes_skipped - found.bytes_resumed,
        files_total=len(sizes) - found.files_skipped,
        **found._asdict(),
    )


def check_in_all(
    earlier: Earlier, drawn: random.Random, sizes: list[int], there: list[int], held: list[int]
) -> None:
    """Whatever part a session has found of what the target holds, the copy is as large as it was."""
    before = Counts.of(sizes, there)
    looked_at = drawn.randrange(len(sizes) + 1)
    shown = earlier.and_now(
        known(sizes, Counts.of(sizes, held[:looked_at] + [0] * (len(sizes) - looked_at))), 9.0
    )
    assert shown.bytes_total == sum(sizes) - before.bytes_skipped - before.bytes_resumed
    assert shown.files_total == len(sizes) - before.files_skipped
    assert 0 <= shown.bytes_done <= shown.bytes_total
    assert 0 <= shown.files_done <= shown.files_total


class Counts(NamedTuple):
    """What a session finds of files of these sizes, of which it holds so much."""

    files_skipped: int
    bytes_skipped: int
    bytes_resumed: int

    @classmethod
    def of(cls, sizes: list[int], held: list[int]) -> "Counts":
        whole = [size for size, there in zip(sizes, held, strict=True) if there == size]
        return cls(len(whole), sum(whole), sum(held) - sum(whole))


@pytest.mark.parametrize(
    ("status", "stderr", "passes"),
    [
        (255, "ssh: connect to host dtn2 port 22: Connection refused", True),
        (255, "kex_exchange_identification: read: Connection reset by peer", True),
        (255, "", True),
        (-9, "", True),
        (137, "", True),
        (255, "me@dtn2: Permission denied (publickey).", False),
        (255, "Host key verification failed.", False),
        (127, "sh: howdah: not found", False),
        (1, "howdah: no space left", False),
    ],
)
def test_what_ended_ssh_may_pass_or_not(status: int, stderr: str, passes: bool) -> None:
    assert answers.may_pass(status, stderr) == passes


def test_digests_of_later_sessions_go_before_those_of_earlier_ones(tmp_path: Path) -> None:
    kept, own = tmp_path / "digests", tmp_path / "digests.again"
    kept.write_bytes(b"aa  one\nbb  two\n")
    run._join_digests(kept, own)
    own.write_bytes(b"cc  two\ndd  three\n")
    run._join_digests(kept, own)
    assert kept.read_bytes() == b"aa  one\ncc  two\ndd  three\n"
    assert not own.exists()
    run._join_digests(kept, kept)
    assert kept.exists()


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("", True),
        ("Host else\nServerAliveInterval 30\n", True),
        ("Host far\nServerAliveInterval 30\n", False),
        ("ServerAliveCountMax 3\n", False),
        ("ServerAliveInterval 0\n", False),
    ],
)
def test_how_long_ssh_lives_without_answers_is_the_users_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, ours: bool
) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    monkeypatch.setattr(ssh, "_ASKED", ssh._ASKED.replace("{home}/.ssh/config", str(config)))
    monkeypatch.delenv("HOWDAH_SSH", raising=False)
    monkeypatch.setenv("HOWDAH_SSH_KEEP_S", "300")
    # The name of a socket must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        login = ssh.Login("far")
    assert login.control is not None
    options = login._options(True, 300.0)
    alive = [option for option in options if option.startswith("ServerAlive")]
    assert alive == (["ServerAliveInterval=5", "ServerAliveCountMax=84"] if ours else [])


@pytest.mark.parametrize(
    ("silent_s", "patience_s", "left"),
    [
        (12.0, 300.0, "4 min 48 s"),
        (8.3, 8.0, "7 s"),
        (14.7, 8.0, "1 s"),
        (16.0, 0.0, "0 s"),
        (299.8, 300.0, "1 s"),
    ],
)
def test_what_is_left_of_the_patience_counts_down_to_the_end(
    silent_s: float, patience_s: float, left: str
) -> None:
    said = unanswered("dtn2", silent_s, patience_s)
    assert said.startswith("no answer from dtn2 for ")
    assert said.endswith(f"; trying again for another {left}")


def test_the_least_patience_is_that_of_the_data_plane() -> None:
    there = Path(__file__).parents[2] / "crates" / "transfer" / "src" / "session" / "reachability.rs"
    assert f"LEAST_PATIENCE: Duration = Duration::from_secs({LEAST_UNANSWERED_S:.0f});" in there.read_text()
    assert f"at least {LEAST_UNANSWERED_S:.0f} s" in Path(there.parents[4] / "docs/transfer.md").read_text()
