"""A transfer that listens, from its progress to its steerings, its record and its summary."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from samples import LIMITS, record

from howdah import HowdahError
from howdah.cli import copy_command as command
from howdah.cli import cp
from howdah.cli.table import read
from howdah.remote.messages import Progress, Steering
from howdah.steering import controller, listening, sources
from howdah.steering.listening import Listening, SteeringRequest
from howdah.steering.sources import RttSample, StreamSource
from howdah.steering.tunables import TUNED
from howdah.transfer.request import FAIRNESS
from howdah.values.listened import HeardThen, Listened, RouteMoved, SentThen, Throughput
from howdah.values.outcome import Change
from howdah.values.plan import Plan
from howdah.values.reason import Reason
from howdah.words.expected import in_words

PLAN = Plan(congestion_control="cubic", streams=4, block_bytes=2**20)
RTT_S = 0.04
FINDING = Reason.PROBING_EXCLUSIVITY.value


class Echo:
    """Answers as long as it is alive."""

    by: sources.By = "icmp"
    step_s = 0.01
    begun_s = 0.0

    def __init__(self, *, answers: bool = True) -> None:
        self.answers, self.next, self.closed, self.now_s = answers, 0, False, 0.0

    def take(self, now_s: float, rtt_s: float | None) -> list[RttSample]:
        self.now_s = now_s
        made = []
        while self.next * self.step_s < now_s:
            t_s = (self.next + 0.5) * self.step_s
            made.append(RttSample(t_s, self.rtt_of(t_s) if self.answers else None))
            self.next += 1
        return made

    def rtt_of(self, t_s: float) -> float:
        return RTT_S * (1 + t_s % 1)

    def why_silent(self) -> str | None:
        return None if self.answers or self.now_s < 2 else "192.0.2.7 answers no ICMP echo"

    def close(self) -> None:
        self.closed = True


class Transfer:
    """Moves as fast as its way to send lets it, and takes up each steering at once."""

    def __init__(self, pilot: Listening, refuse: str | None = None) -> None:
        self.pilot, self.refuse = pilot, refuse
        self.control, self.streams, self.latest = "cubic", 4, None
        self.steerings: list[Steering] = []
        self.bytes = 0.0
        self.least_bps = 10e6
        self.now_s = 0.0
        self.total: int | None = None

    def connect(self, until_s: float) -> None:
        """Before the first byte."""
        for tick in range(1, round(until_s * 10) + 1):
            now = msgspec.structs.replace(self.progress(tick / 10), phase="connecting")
            if (steering := self.pilot(now)) is not None:
                self.take(tick / 10, steering)

    def go(self, until_s: float, from_s: float = 0.0) -> None:
        for tick in range(round(from_s * 10) + 1, round(until_s * 10) + 1):
            self.now_s = tick / 10
            self.bytes += 0.1 / 8 * (100e6 if self.control == "bbr" else self.least_bps)
            steering = self.pilot(self.progress(tick / 10))
            if steering is not None:
                self.take(tick / 10, steering)

    def take(self, t_s: float, steering: Steering) -> None:
        self.steerings.append(steering)
        refused = "not here" if self.refuse and steering.congestion_control == self.refuse else None
        if refused is None:
            self.control, self.streams = steering.congestion_control or self.control, steering.streams
        self.latest = Change(
            t_s=t_s,
            congestion_control=self.control,
            streams=steering.streams,
            why=steering.why,
            refused=refused,
        )

    def progress(self, elapsed_s: float) -> Progress:
        return Progress(
            phase="moving",
            elapsed_s=elapsed_s,
            bytes_done=round(self.bytes),
            bytes_total=self.total,
            scan_complete=True,
            files_done=0,
            files_skipped=0,
            bytes_skipped=0,
            streams=self.streams,
            retransmissions=0,
            rtt_s=RTT_S * 1.8,
            acked_bytes=[round(self.bytes / 4)] * 4,
            acked_s=elapsed_s,
            latest=self.latest,
        )


def request() -> SteeringRequest:
    return SteeringRequest(
        plan=PLAN,
        fairness=0.5,
        control_default="cubic",
        controls=("reno", "cubic", "bbr"),
        streams_fixed=False,
        stream_most_bps=1e9,
        rtt_s=RTT_S,
        addresses=["192.0.2.7"],
    )


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Echo:
    made = Echo()
    monkeypatch.setattr(listening, "best_source", lambda addresses: (made, None))
    return made


def heard(monkeypatch: pytest.MonkeyPatch, label: str, *, new: bool = False) -> None:
    said = SimpleNamespace(classes={label: 0.95, "nobody": 0.05}, new=new, heard_s=2.5)
    monkeypatch.setattr(controller, "listen", lambda *asked: said)


def test_it_hears_bbr_and_changes_to_it(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    heard(monkeypatch, "1 bbr")
    transfer = Transfer(Listening(request()))
    transfer.go(4.9)
    assert transfer.steerings == []
    transfer.go(40, 4.9)
    sent = [(each.congestion_control, each.streams) for each in transfer.steerings]
    assert sent == [("cubic", 4), ("cubic", 4), ("cubic", 2), ("cubic", 1), ("bbr", 1)]
    bound, lifted = transfer.steerings[:2]
    assert bound.pacing_bps is not None
    assert bound.pacing_bps * 4 < 10e6
    assert (bound.why, lifted.why, lifted.pacing_bps) == (FINDING, FINDING, None)
    told = transfer.pilot.to_record()
    assert (told.by, told.ended, told.fairness) == ("icmp", None, 0.5)
    assert told.base_rtt_s == pytest.approx(RTT_S, rel=0.05)
    assert [each.background for each in told.heard] == ["1 bbr"]
    assert told.sent[-1].after is not None
    lines = in_words(told, PLAN)
    assert any(line.startswith("Recognised 1 BBR (0.95) after") for line in lines)
    assert any("changed to bbr, 1 stream: 10.0 Mb/s -> 100 Mb/s" in line for line in lines)
    transfer.pilot.close()
    assert echo.closed


def test_where_little_is_carried_no_round_trips_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    heard(monkeypatch, "1 bbr")
    opened: list[Echo] = []

    def best_source(addresses: list[str]) -> tuple[Echo, None]:
        opened.append(Echo())
        opened[-1].next = round(transfer.now_s / 0.01)
        return opened[-1], None

    monkeypatch.setattr(listening, "best_source", best_source)
    transfer = Transfer(Listening(request()))
    transfer.least_bps = 0.5e6
    transfer.go(30)
    assert [each.closed for each in opened] == [True]
    assert opened[0].now_s < TUNED.slow_s + 0.2
    assert all(each.why == FINDING for each in transfer.steerings)
    transfer.least_bps = 10e6
    transfer.go(70, 30)
    assert [each.closed for each in opened] == [True, False]
    assert transfer.control == "bbr"
    assert transfer.pilot.to_record().by == "icmp"


def test_where_a_limit_holds_it_no_round_trips_are_taken(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    heard(monkeypatch, "1 bbr")
    transfer = Transfer(Listening(request()))
    transfer.go(3)
    assert not echo.closed
    transfer.pilot.rest(transfer.progress(3))
    assert echo.closed
    echo.closed = False
    transfer.go(60, 20)
    assert not echo.closed
    assert transfer.control == "bbr"


@pytest.mark.parametrize("limited", [True, False], ids=["a limit", "slow"])
def test_where_nothing_is_measured_any_more_no_bound_stays(
    echo: Echo, monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    """A test whether others fill the path has just bounded the streams."""
    heard(monkeypatch, "1 bbr")
    transfer = Transfer(Listening(request()))
    until_s = 5.0
    while not transfer.steerings:
        transfer.go(until_s + 0.1, until_s)
        until_s += 0.1
    assert transfer.steerings[-1].pacing_bps is not None
    if limited:
        for tick in range(1, 20):
            steering = transfer.pilot.rest(transfer.progress(until_s + tick / 10))
            if steering is not None:
                transfer.take(until_s + tick / 10, steering)
    else:
        transfer.least_bps = 0.1e6
        monkeypatch.setattr(transfer.pilot._rate, "_span_s", 0.5)  # before the test is over
        transfer.go(until_s + 2, until_s)
    assert len(transfer.steerings) == 2
    assert (transfer.steerings[-1].streams, transfer.steerings[-1].pacing_bps) == (4, None)
    assert echo.closed


@pytest.mark.parametrize("limited", [True, False], ids=["a limit", "no limit"])
def test_where_each_change_is_refused_it_gives_up_and_says_so_once(
    echo: Echo, monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    """The first bound is taken, and nothing after it."""
    heard(monkeypatch, "1 bbr")
    transfer = Transfer(Listening(request()))
    until_s = 5.0
    while not transfer.steerings:
        transfer.go(until_s + 0.1, until_s)
        until_s += 0.1
    transfer.refuse = "cubic"
    if limited:
        monkeypatch.setattr(Listening, "__call__", Listening.rest)
    transfer.go(until_s + 300, until_s)
    told = transfer.pilot.to_record()
    assert told.ended == "5 changes in a row were refused, the last one for: not here"
    asked = transfer.steerings[1:]
    assert len(asked) == TUNED.refusals_most + 1
    assert (asked[-1].streams, asked[-1].pacing_bps) == (4, None)
    assert asked[-1].why == told.ended
    assert sum(told.ended in line for line in in_words(told, PLAN)) == 1


def test_where_others_are_heard_before_the_first_byte_it_begins_with_one_stream(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard(monkeypatch, "1 bbr")
    transfer = Transfer(Listening(request()))
    transfer.connect(0.5)
    assert [(each.congestion_control, each.streams) for each in transfer.steerings] == [(None, 1)]
    transfer.go(40, 0.5)
    assert [(each.congestion_control, each.streams) for each in transfer.steerings[1:]] == [("bbr", 1)]
    told = transfer.pilot.to_record()
    began = told.sent[0]
    assert (began.t_s, began.streams, began.why) == (0.0, 1, "competing traffic before the first byte")
    assert in_words(told, PLAN)[0].startswith("Began with cubic, 1 stream: competing traffic")


def test_round_trips_beside_the_copys_own_data_tell_of_nobody_before_the_first_byte(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins_s = 0.1
    monkeypatch.setattr(echo, "rtt_of", lambda t_s: RTT_S if t_s + RTT_S < begins_s else 2 * RTT_S)
    transfer = Transfer(Listening(request()))
    transfer.connect(begins_s)
    transfer.go(1.0, begins_s)
    assert transfer.steerings == []


def test_a_short_copy_that_began_with_one_stream_says_so(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "SharedPathController", pytest.fail)
    transfer = Transfer(Listening(request()._replace(for_s=3.0)))
    transfer.connect(0.5)
    transfer.go(3.0, 0.5)
    assert in_words(transfer.pilot.to_record(), PLAN) == [
        "Began with cubic, 1 stream: competing traffic before the first byte"
    ]


def test_where_listening_fails_one_that_began_with_one_stream_gets_its_plan(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*asked: object) -> None:
        raise HowdahError("it is damaged")

    monkeypatch.setattr(controller, "SharedPathController", fails)
    transfer = Transfer(Listening(request()))
    transfer.connect(0.5)
    transfer.go(5.0, 0.5)
    assert [(each.streams, each.why) for each in transfer.steerings][1:] == [(4, "it is damaged")]


@pytest.mark.parametrize("why_not", ["streams", "model", "quiet"])
def test_it_begins_as_planned(echo: Echo, monkeypatch: pytest.MonkeyPatch, why_not: str) -> None:
    """Where the streams are the user's, no model could tell who is there, or nobody is heard."""
    if why_not == "model":
        monkeypatch.setattr(listening.models, "file", lambda situation: None)
    if why_not == "quiet":
        monkeypatch.setattr(echo, "rtt_of", lambda t_s: RTT_S)
    transfer = Transfer(Listening(request()._replace(streams_fixed=why_not == "streams")))
    transfer.connect(1.0)
    assert transfer.steerings == []


def test_a_refused_control_leaves_all_as_it_is(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    heard(monkeypatch, "1 bbr")
    transfer = Transfer(Listening(request()), refuse="bbr")
    transfer.go(60)
    assert sum(each.congestion_control == "bbr" for each in transfer.steerings) == 1
    assert transfer.control == "cubic"


def test_what_is_like_nothing_seen_changes_no_control(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    heard(monkeypatch, "1 bbr", new=True)
    transfer = Transfer(Listening(request()))
    transfer.go(60)
    assert {each.congestion_control for each in transfer.steerings} == {"cubic"}
    assert [each.background for each in transfer.pilot.to_record().heard] == [None]


def test_where_nobody_can_tell_all_streams_stay(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "there is no model for a path with cubic of our own on it"
    monkeypatch.setattr(controller, "listen", lambda *asked: SimpleNamespace(why=why))
    transfer = Transfer(Listening(request()))
    transfer.go(30)
    assert transfer.steerings == []
    assert in_words(transfer.pilot.to_record(), PLAN) == [
        f"Could not recognise competing traffic by ICMP echo: {why}; kept to the plan"
    ]


def test_with_a_model_of_another_version_it_goes_on_as_planned_and_says_so(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*asked: object) -> None:
        raise HowdahError("model.npz is a model of schema 9; train one: howdah shared train")

    monkeypatch.setattr(controller, "listen", damaged)
    transfer = Transfer(Listening(request()))
    transfer.go(30)
    assert transfer.steerings == []
    assert echo.closed
    assert in_words(transfer.pilot.to_record(), PLAN) == [
        "Measured no competing traffic: model.npz is a model of schema 9; train one: howdah shared train; "
        "kept to the plan"
    ]


def test_a_model_that_fails_on_the_way_brings_the_fair_default_back(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = SimpleNamespace(classes={"1 bbr": 0.95}, new=False, heard_s=2.5)
    calls = []

    def fails(*asked: object) -> SimpleNamespace:
        calls.append(asked)
        if len(calls) > 6:
            raise HowdahError("it is damaged")
        return said

    monkeypatch.setattr(controller, "listen", fails)
    transfer = Transfer(Listening(request()))
    transfer.go(60)
    assert (transfer.control, transfer.streams) == ("cubic", 4)
    assert transfer.steerings[-1].why == "it is damaged"
    assert in_words(transfer.pilot.to_record(), PLAN)[-1].startswith("Stopped measuring: it is damaged")


def test_a_far_end_that_answers_no_echo_is_heard_by_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Echo(answers=False)
    monkeypatch.setattr(listening, "best_source", lambda addresses: (silent, None))
    heard(monkeypatch, "nobody")
    transfer = Transfer(Listening(request()))
    transfer.go(30)
    told = transfer.pilot.to_record()
    assert (told.by, told.not_by_icmp) == ("tcp_info", "192.0.2.7 answers no ICMP echo")
    assert told.verdicts > 5
    assert silent.closed
    assert "Measured by its own streams: 192.0.2.7 answers no ICMP echo" in in_words(told, PLAN)


@pytest.mark.parametrize(
    ("ends_s", "for_s", "total"),
    [(1.9, None, None), (10.0, 10.0, None), (9.0, None, round(9 * 10e6 / 8))],
    ids=["not known", "a time", "a size"],
)
def test_a_transfer_that_ends_soon_loads_nothing(
    echo: Echo, monkeypatch: pytest.MonkeyPatch, ends_s: float, for_s: float | None, total: int | None
) -> None:
    monkeypatch.setattr(controller, "SharedPathController", pytest.fail)
    transfer = Transfer(Listening(request()._replace(for_s=for_s)))
    transfer.total = total
    transfer.go(ends_s)
    assert in_words(transfer.pilot.to_record(), PLAN) == []


def test_what_could_not_be_told_and_routes_that_moved_are_said() -> None:
    listened = Listened(
        by="icmp",
        fairness=0.5,
        cannot_tell="round trips are known of only 20% of the last 10 s",
        moved=[RouteMoved(t_s=12.0, before_s=0.02, after_s=0.05)],
    )
    assert in_words(listened, PLAN) == [
        "Could not recognise competing traffic by ICMP echo: round trips are known of only 20% of the last "
        "10 s; kept to the plan",
        "After 12 s the route changed: base RTT 20 -> 50 ms",
    ]


def test_cubic_streams_that_were_counted_are_said() -> None:
    kept = HeardThen(t_s=6.0, background="1 cubic", probability=0.94)
    listened = Listened(by="icmp", fairness=0.5, heard=[kept], counted=2)
    assert in_words(listened, PLAN)[1] == (
        "Counted 2 CUBIC streams of competing traffic, by how the queue grew between losses"
    )


def test_a_change_that_was_not_kept_says_why() -> None:
    listened = Listened(
        by="icmp",
        fairness=0.5,
        heard=[HeardThen(t_s=6.0, background="1 bbr", probability=0.94)],
        sent=[
            SentThen(
                t_s=7.2,
                congestion_control="bbr",
                streams=1,
                why="recognised 1 bbr (0.94)",
                background="1 bbr",
                probability=0.94,
                before=Throughput(rate_bps=112e6, resent_fraction=0.0),
                after=Throughput(rate_bps=50e6, resent_fraction=0.0),
                undone="it gave 45% of what there was before",
            )
        ],
    )
    assert in_words(listened, PLAN) == [
        "Recognised 1 BBR (0.94) after 7 s; changed to bbr, 1 stream: 112 Mb/s -> 50.0 Mb/s; "
        "undone: it gave 45% of what there was before"
    ]


@pytest.mark.parametrize(
    ("line", "fairness"),
    [
        ("a far:", FAIRNESS),
        ("--fairness 0.8 a far:", 0.8),
        ("--path shared --fairness 100% a far:", 1.0),
        ("--cc bbr a far:", None),
        ("--plan p.json a far:", None),
        ("--no-listen a far:", None),
        ("--path dedicated a far:", None),
    ],
)
def test_who_listens(line: str, fairness: float | None) -> None:
    assert command.request(**_options(line)).fairness == fairness


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--fairness 2 a far:", "--fairness 2 is not from 0 to 1"),
        ("--fairness 0.5 --cc bbr a far:", "changes nothing with --cc"),
        ("--fairness 0.5 --path dedicated a far:", "changes nothing with --path dedicated"),
        ("--fairness 0.5 --no-listen a far:", "changes nothing with --no-listen"),
    ],
)
def test_a_knob_that_cannot_be_is_refused(line: str, problem: str) -> None:
    with pytest.raises(HowdahError, match=problem):
        command.request(**_options(line))


def _options(line: str) -> dict[str, Any]:
    """What of a line of ``cp`` is asked of a copy, and not of ssh or the display."""
    read_line = read(cp.COMMANDS[0], line.split(), {})
    return {key: value for key, value in read_line.items() if key not in {"json", "quiet", "rsh"}}


def test_the_streams_can_be_listened_to() -> None:
    assert StreamSource().why_silent() is None
    assert record().listened is None
    assert "cubic" in LIMITS.congestion_controls_usable
