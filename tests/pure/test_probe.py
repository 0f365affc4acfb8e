"""Probing without a network: where to, what is said, what is refused."""

import io
import json
import os
import socket
import subprocess
import sys

import msgspec
import pytest
from samples import PROBE, howdah

from howdah import HowdahError
from howdah._native import Prober
from howdah.archive import Archive
from howdah.measure.probe import ProbeDisplay, ProbeRequest, run
from howdah.probing.far_end import Target, endpoint
from howdah.probing.prober import ProbeSample, ProbeUpdate, Probing, Rhythm, probe
from howdah.values.probe import Counts, Gap, Probe, RouteChange
from howdah.words.probe import ProbeLines, in_words


def line(probe: Probe, name: str) -> str:
    (found,) = (line for line in in_words(probe, "dtn2").splitlines() if line.startswith(name))
    return found


def test_what_was_seen_is_said() -> None:
    first, *_ = in_words(PROBE, "dtn2").splitlines()
    assert first == "dtn2 (192.0.2.7) by ICMP echo: 770 probes in 7.04 s, 2 lost (0.26 %)"
    assert line(PROBE, "Base RTT") == "Base RTT  20.02 ms"
    assert line(PROBE, "Room").endswith("free for at most 65.9 % of the time")
    still = msgspec.structs.replace(PROBE, queue_share=0.0)
    assert "no probe met a queue" in line(still, "Room")
    assert line(still, "Queue") == "Queue     none of 0.45 ms or more"
    full = msgspec.structs.replace(PROBE, base_is_seen=False, queue_share=0.9999)
    assert "or less" in line(full, "Base RTT")
    assert "over 99.9 %" in line(full, "Queue")


def test_changes_gaps_and_notes_are_said() -> None:
    worse = msgspec.structs.replace(
        PROBE,
        route_changes=[RouteChange(at_s=3.123, before_s=0.02, after_s=0.06)],
        gaps=[Gap(from_s=1, until_s=2), Gap(from_s=4, until_s=5)],
        notes=["odd"],
    )
    *_, route, gaps, note = in_words(worse, "dtn2").splitlines()
    assert route == "Route     changed after 3.12 s: base RTT 20.00 ms before, 60.00 ms since"
    assert gaps == "warning: no answers from 1.00 to 2.00 s and 4.00 to 5.00 s"
    assert note == "warning: odd"


def test_probes_on_their_way_at_the_end_are_not_lost() -> None:
    early = msgspec.structs.replace(PROBE, counts=Counts(sent=264, answered=234, lost=2))
    assert "264 probes in " in (first := in_words(early, "dtn2").splitlines()[0])
    assert first.endswith(", 2 lost (0.847 %), 28 on their way when it ended")


def test_a_probing_that_is_stopped_counts_nothing_lost_that_may_still_come() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        to = endpoint(*silent.getsockname())
        probing = Probing(way="udp", to=to, token="0" * 32, for_ns=3_600_000_000_000)
        seen = probe(probing, lambda taken: taken.counts.sent > 0)
    assert seen.counts.sent > 0
    assert seen.counts.lost == 0
    assert seen.looks == []


def test_a_log_gets_a_line_every_ten_seconds() -> None:
    stream = io.StringIO()
    lines = ProbeLines(stream)
    looks = [ProbeSample(kind="step", index=0, sent_s=0.0, rtt_s=0.02)]
    for tick in range(251):
        counts = Counts(sent=tick, answered=tick)
        lines.look(ProbeUpdate(looks=looks, counts=counts, elapsed_s=tick / 10, ended=False), 30)
    told = stream.getvalue().splitlines()
    assert told[0] == "howdah: 10.0 of 30 s, least 20.00 ms, now 20.00 ms, 100 of 100 answered"
    assert len(told) == 2


@pytest.mark.parametrize("host", ["", "-x", "a b", "a/b", "[::1", "me@"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(HowdahError, match="is not a host"):
        Target(host)


def test_an_address_is_its_own_and_is_written_as_the_prober_reads_it() -> None:
    assert Target("127.0.0.1").address() == "127.0.0.1"
    assert Target("me@localhost").name == "localhost"
    assert [Target(each).host for each in ("[fd77::2]", "me@[fd77::2]")] == ["fd77::2", "me@fd77::2"]
    assert endpoint("192.0.2.7", 9) == "192.0.2.7:9"
    assert endpoint("fe80::7%3", 9) == "[fe80::7%3]:9"


def test_a_responder_answers_and_what_is_counted_adds_up() -> None:
    code = (
        "import sys; from howdah._native import Responder\n"
        "r = Responder('127.0.0.1'); print(r.port, r.token, flush=True); print(r.run(0))"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as far:
        assert far.stdout is not None
        port, token = far.stdout.readline().split()
        probing = Probing(way="udp", to=endpoint("127.0.0.1", int(port)), token=token, for_ns=300_000_000)
        seen = probe(probing, lambda taken: False)
        assert far.stdin is not None
        far.stdin.close()
        answered = int(far.stdout.read())
    assert seen.counts.sent == len(seen.looks) == seen.counts.answered == answered
    assert seen.counts.sent + seen.counts.skipped == 30 + 10
    assert [look.sent_s for look in seen.looks] == sorted(look.sent_s for look in seen.looks)


def test_a_probing_that_is_enough_ends_early() -> None:
    probing = Probing(way="udp", to="127.0.0.1:9", token="0" * 32, for_ns=3_600_000_000_000)
    assert probe(probing, lambda taken: True).elapsed_s < 60


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Probing(way="udp", to="nowhere", token="0" * 32, for_ns=1), "no address to probe"),
        (Probing(way="udp", to="127.0.0.1:9", for_ns=1), "a responder's token"),
        (Probing(way="udp", to="127.0.0.1:9", token="0" * 3, for_ns=1), "token is none"),
        (
            Probing(way="udp", to="127.0.0.1:9", token="0" * 32, for_ns=1, rhythm=Rhythm(step_ns=1)),
            "of 1 ms",
        ),
    ],
)
def test_a_probing_that_cannot_be_is_refused(wanted: Probing, says: str) -> None:
    with pytest.raises(HowdahError, match=says):
        Prober(msgspec.json.encode(wanted))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["probe"], 2, "Missing argument 'HOST'"),
        (["probe", "nowhere.invalid"], 1, "unknown host nowhere.invalid"),
        (["respond", "now"], 2, "howdah: respond is the far end"),
        (["probe", "--udp", "far"], 1, "howdah on far ended before it answered"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], code: int, says: str) -> None:
    done = howdah(*arguments, HOWDAH_SSH="false")
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("for_s", [0.999, 3600.1])
def test_how_long_is_checked_before_anything_is_sent(for_s: float) -> None:
    with pytest.raises(HowdahError, match=r"for_s=.* is not from 1 s to 1 h"):
        run(ProbeRequest("127.0.0.1", for_s, udp=False, far_howdah=None), ProbeDisplay(), Archive())


def test_the_far_end_ends_with_what_started_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "howdah", "respond"],
        env={**os.environ, "SSH_CONNECTION": "127.0.0.1 1 127.0.0.1 22"},
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    greeting = json.loads(done.stdout)
    assert greeting["address"] == "127.0.0.1"
    assert greeting["port"] > 0
