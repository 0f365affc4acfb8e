"""What a copy sends at once of what is remembered: how much, and when nothing."""

import msgspec
import pytest
from samples import LIMITS

from howdah.cc import programs
from howdah.cc.programs import Loaded, Program
from howdah.library.congestion import destinations
from howdah.remote.endpoints import route
from howdah.transfer.attributing import known_bps
from howdah.transfer.request import Request
from howdah.transfer.resuming import Resuming
from howdah.values.limit import Limits
from howdah.values.memory import LIFETIME_S, PastCopy, PathMemory, Resume, Resumed, recall
from howdah.values.path import Path as KnownPath
from howdah.values.plan import Later, Plan, Prediction, Why
from howdah.words.expected import came_of_it

REQUEST = Request([], route(["run42", "dtn2:"], memory=False), dry_run=True)
PLAN = Plan(streams=8, congestion_control="cubic", block_bytes=2**20)
ROOT = msgspec.structs.replace(LIMITS, privileged=True)
LOADED = [*LIMITS.congestion_controls_available, "hd_resume"]
PREDICTED = Prediction(rate_low_bps=8e9, rate_mid_bps=9e9, rate_high_bps=9.5e9)


def memory(
    *rates_bps: float, age_s: float = 60.0, rtt_s: float = 0.1, others: bool | None = None
) -> PathMemory:
    past = [PastCopy(age_s, rtt_s, each, True, others, "192.0.2.7") for each in rates_bps]
    found = recall("dtn2", "push", past, 0.1, None)
    assert found is not None
    return found


def path(known: PathMemory | None, sender: object = ROOT) -> KnownPath:
    return KnownPath(sender=sender, receiver=LIMITS, rtt_s=0.1, host="dtn2", memory=known)


def planned(
    known: PathMemory | None,
    request: Request = REQUEST,
    plan: Plan = PLAN,
    sender: object = ROOT,
    others: bool = False,
) -> Plan:
    return Resuming(request).planned(plan, path(known, sender), lambda _: others)


def test_half_of_the_median_is_sent_at_once_where_others_may_be() -> None:
    plan = planned(memory(9e9, 8e9, 10e9))
    assert plan.resume == Resume(capacity_bytes=round(9e9 / 8 * 0.1), rtt_s=0.1, part=0.5)
    assert plan.why.summary == [
        "56.2 MB are sent at once, 50% of a round trip's worth (howdah's hd_resume); cubic goes on."
    ]
    assert "56.2 MB at once" in plan.in_short()
    assert msgspec.structs.replace(plan, resume=None, why=Why()) == PLAN
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_never_more_than_half_of_the_newest_copy() -> None:
    plan = planned(memory(2e9, 9e9, 9e9))
    assert plan.resume is not None
    assert plan.resume.jump_bytes == 2e9 / 8 * 0.1 / 2


@pytest.mark.parametrize(("newest_bps", "least_bps"), [(9e9, 8e9), (3e9, 3e9)])
def test_on_a_dedicated_path_the_lower_bound_is_sent_at_once(newest_bps: float, least_bps: float) -> None:
    own = msgspec.structs.replace(PLAN, path="dedicated", why=Why(prediction=PREDICTED))
    plan = planned(memory(newest_bps, 9e9, 9e9), REQUEST._replace(path="dedicated"), own)
    assert plan.resume == Resume(capacity_bytes=round(least_bps / 8 * 0.1), rtt_s=0.1, part=1.0)
    unpredicted = planned(
        memory(9e9), REQUEST._replace(path="dedicated"), msgspec.structs.replace(own, why=Why())
    )
    assert unpredicted.resume is not None
    assert unpredicted.resume.part == 0.5


@pytest.mark.parametrize(
    ("known", "others", "why"),
    [
        (memory(9e9, age_s=LIFETIME_S + 1), False, "it is older than 7 days"),
        (memory(9e9, others=True), False, "competing traffic was recognised here 1 min ago"),
        (memory(9e9), True, "competing traffic was measured before the first byte"),
    ],
)
def test_nothing_is_sent_at_once_and_the_plan_says_why(known: PathMemory, others: bool, why: str) -> None:
    plan = planned(known, others=others)
    assert plan.resume is None
    assert plan.why.summary == [f"Nothing is sent at once: {why}."]


@pytest.mark.parametrize(
    ("known", "request_", "plan"),
    [
        (None, REQUEST, PLAN),
        (memory(9e9, rtt_s=0.02), REQUEST, PLAN),
        (memory(1e6), REQUEST, PLAN),
        (memory(9e9), REQUEST._replace(route=route(["dtn2:run42", "."], memory=False)), PLAN),
        (memory(9e9), REQUEST._replace(route=route(["dtn1:run42", "dtn2:"], memory=False)), PLAN),
        (memory(9e9), REQUEST._replace(limits=Limits.parse("1Gbit")), PLAN),
        (memory(9e9), REQUEST, msgspec.structs.replace(PLAN, pacing_bps=10**9)),
        (memory(9e9), REQUEST, msgspec.structs.replace(PLAN, changes=[Later(at_s=1.0, streams=1)])),
        (memory(9e9), REQUEST, msgspec.structs.replace(PLAN, path="guaranteed")),
    ],
    ids=["none", "route", "small", "pull", "between", "limit", "pace", "schedule", "guaranteed"],
)
def test_where_there_is_nothing_to_send_at_once_nothing_is_said(
    known: PathMemory | None, request_: Request, plan: Plan
) -> None:
    assert planned(known, request_, plan) == plan


def test_a_plan_from_a_file_sends_nothing_at_once() -> None:
    made = planned(memory(9e9))
    assert made.resume is not None
    assert planned(None, plan=made).resume is None


@pytest.mark.parametrize(
    ("available", "allowed", "used"),
    [
        (LIMITS.congestion_controls_available, LIMITS.congestion_controls_allowed, False),
        (LOADED, LIMITS.congestion_controls_allowed, False),
        (LOADED, LOADED, True),
    ],
    ids=["not loaded", "not allowed", "allowed"],
)
def test_without_root_it_is_what_root_has_told(available: list[str], allowed: list[str], used: bool) -> None:
    sender = msgspec.structs.replace(
        LIMITS, congestion_controls_available=available, congestion_controls_allowed=allowed
    )
    plan = planned(memory(9e9), sender=sender)
    assert (plan.resume is not None) is used
    said = (
        "as far as root has told hd_resume"
        if used
        else "only root can change that: sudo howdah cc load resume"
    )
    assert said in plan.why.summary[0]


def listing(monkeypatch: pytest.MonkeyPatch, *, here: bool, in_kernel: bool = True) -> list[str]:
    """Has the kernel look so; what is loaded then."""
    was = Loaded(version="1", current=True, understood=True, settings=[])
    program = Program("resume", "hd_resume", "", [], [], [], was if here else None, in_kernel)
    loads: list[str] = []
    monkeypatch.setattr(programs, "listed", lambda: [program])
    monkeypatch.setattr(programs, "load", loads.append)
    return loads


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "copy"])
def test_a_plan_knows_whether_the_program_was_loaded_elsewhere(
    monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    there = msgspec.structs.replace(ROOT, congestion_controls_available=LOADED)
    request = REQUEST._replace(dry_run=dry_run)
    loads = listing(monkeypatch, here=False)
    elsewhere = planned(memory(9e9), request, sender=there)
    assert elsewhere.resume is None
    assert elsewhere.why.summary == [
        "Nothing is sent at once: hd_resume was loaded elsewhere, as from within a lab, "
        "and can be told nothing from here."
    ]
    listing(monkeypatch, here=True)
    assert planned(memory(9e9), request, sender=there).resume is not None
    assert loads == []


def test_only_a_copy_loads_the_program_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = listing(monkeypatch, here=False, in_kernel=False)
    assert planned(memory(9e9)).resume is not None
    assert loads == []
    assert planned(memory(9e9), REQUEST._replace(dry_run=False)).resume is not None
    assert loads == ["resume"]


def test_destinations_are_those_that_this_host_sends_to_and_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOWDAH_LAB_LINK", raising=False)
    known = [
        memory(9e9, age_s=3600.0),
        msgspec.structs.replace(memory(9e9), direction="pull"),
        msgspec.structs.replace(memory(9e9), path="old", age_s=LIFETIME_S + 1),
        msgspec.structs.replace(memory(9e9), path="busy", others_age_s=1.0, others_latest=True),
        msgspec.structs.replace(memory(9e9), path="lab 10 Gb/s"),
        msgspec.structs.replace(memory(9e9), path="no-such-host.invalid", address=None),
        msgspec.structs.replace(memory(9e9), path="192.0.2.9", address=None),
    ]
    found = destinations(known, "bbr")
    assert [(path, to.to) for path, (to, _) in found.items()] == [
        ("dtn2", "192.0.2.7"),
        ("192.0.2.9", "192.0.2.9"),
    ]
    _, saved = found["dtn2"]
    assert (saved.capacity_bytes, saved.rtt_s, saved.streams, saved.jump_part) == (112_500_000, 0.1, 1, None)
    assert (saved.valid_s, saved.then) == (LIFETIME_S - 3600.0, "bbr")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((8, 8, 8, 0, 0), "At once: 56.2 MB by 8 streams, all acknowledged without a loss"),
        ((8, 8, 7, 0, 0), "At once: 56.2 MB by 8 streams, 40.0 MB acknowledged without a loss"),
        (
            (8, 8, 7, 1, 0),
            "At once: 56.2 MB by 8 streams, 40.0 MB acknowledged; 1 stream lost some of it and took",
        ),
        ((8, 0, 0, 0, 8), "At once: nothing was sent, because the round trip was that of another route"),
        ((0, 0, 0, 0, 0), "At once: nothing was sent"),
    ],
)
def test_the_summary_says_what_came_of_it(counts: tuple[int, ...], said: str) -> None:
    from test_memory import copied

    names = ("connections", "jumps", "validated", "retreats", "other_paths")
    resumed = Resumed(
        **dict(zip(names, counts, strict=True)), jumped_bytes=56_250_000, validated_bytes=40_000_000
    )
    plan = msgspec.structs.replace(PLAN, why=Why(memory=memory(9e9)))
    record = copied(0, plan=plan, resumed=resumed, carried=None)
    (line,) = came_of_it(record)
    assert line.startswith(said)


def test_what_copies_carried_is_what_the_path_has_given_unless_a_host_held_them_all() -> None:
    known = memory(9e9, 7e9, 8e9)
    assert known_bps(Why(memory=known, prediction=PREDICTED)) == 8e9
    for other in (
        None,
        msgspec.structs.replace(known, at_least=True),
        msgspec.structs.replace(known, same_route=False),
    ):
        assert known_bps(Why(memory=other, prediction=PREDICTED)) == 9e9
        assert known_bps(Why(memory=other)) is None
