"""A controller: what it says, to whom, and what it waits for."""

from collections.abc import Callable, Collection, Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from howdah.control.leases.controller import Controller, Messages, RatesByAgent
from howdah.control.leases.ledger import longest_ns
from howdah.control.leases.messages import BEATS_PER_LEASE, Call, FlowShare, Grant, Report
from howdah.control.policy.orders import Orders

LEASE_NS = 1_000_000
BEAT_NS = LEASE_NS // BEATS_PER_LEASE
TRUSTED_BPS = 100
MINIMUMS = {"a": {"f/a": 5}, "b": {"f/b": 5}}
FAR_NS = 10**15


def targets(a: int, b: int) -> RatesByAgent:
    return {"a": {"f/a": a}, "b": {"f/b": b}}


def by_asked(orders: Orders, _: Collection[str]) -> RatesByAgent:
    return targets(10, 90) if orders.requested else targets(90, 10)


class Played:
    """A controller, and agents that do as they are told at once unless a test says otherwise."""

    def __init__(
        self,
        allocate: Callable[[Orders, Collection[str]], RatesByAgent] = by_asked,
        minimums: RatesByAgent = MINIMUMS,
        held: Mapping[str, dict[str, FlowShare]] | None = None,
    ) -> None:
        self.controller = Controller(TRUSTED_BPS, minimums, allocate, lease_ns=LEASE_NS)
        self.held = {"a": {}, "b": {}} | dict(held or {})
        self.seqs = {"a": 0, "b": 0}
        self.beat = 0

    def report(
        self,
        agent: str,
        *,
        epoch: int = 1,
        left_ns: int = LEASE_NS,
        incarnation: int = 1,
        idle: frozenset[str] = frozenset(),
    ) -> Report:
        self.beat += 1
        return Report(
            agent=agent,
            incarnation=incarnation,
            beat=self.beat,
            epoch=epoch,
            seq=self.seqs[agent],
            left_ns=left_ns,
            shares=self.held[agent],
            idle=idle,
        )

    def obey(self, messages: Messages) -> list[str]:
        """Whom they were for."""
        for grant in messages:
            assert isinstance(grant, Grant)
            self.held[grant.agent], self.seqs[grant.agent] = grant.shares, grant.seq
        return [message.agent for message in messages]

    def begin(self, now_ns: int = 0) -> None:
        """Both agents have what they are to have, and said so."""
        self.controller.lead(1, FAR_NS, now_ns)
        while self.controller.settled(now_ns) is None:
            for agent in self.held:
                self.obey(self.controller.receive(self.report(agent), now_ns))

    def rates(self) -> list[int]:
        return [share.rate_bps for shares in self.held.values() for share in shares.values()]


def test_what_is_raised_waits_for_the_word_that_the_rest_is_lowered() -> None:
    played = Played()
    played.begin()
    assert played.rates() == [90, 10]
    controller = played.controller
    assert played.obey(controller.order(Orders(revision=1, requested=frozenset({"f"})), 1)) == ["a"]
    assert played.rates() == [10, 10]
    assert controller.settled(1) is None
    assert controller.tick(2) == []
    assert played.obey(controller.receive(played.report("a"), 3)) == ["b"]
    assert played.rates() == [10, 90]
    assert controller.receive(played.report("b"), 4) == []
    assert controller.settled(4) == 1


def test_who_says_nothing_is_waited_for_until_the_lease_has_run_out() -> None:
    played = Played()
    played.begin()
    controller = played.controller
    controller.order(Orders(revision=1, requested=frozenset({"f"})), 1)
    end_ns = longest_ns(LEASE_NS)
    assert controller.wake_ns(1) == end_ns
    controller.receive(played.report("b"), end_ns - 1)
    assert controller.tick(end_ns - 1) == []
    (grant,) = controller.tick(end_ns)
    assert isinstance(grant, Grant)
    assert grant.shares == {"f/b": FlowShare(90, 5)}
    assert controller.wake_ns(end_ns) is None


def test_orders_that_come_late_count_for_nothing() -> None:
    played = Played()
    played.begin()
    assert len(played.controller.order(Orders(revision=2), 1)) == 0
    assert len(played.controller.order(Orders(revision=1, requested=frozenset({"f"})), 1)) == 0
    assert played.controller.settled(1) == 2


def test_each_beat_is_answered_once() -> None:
    played = Played()
    played.begin()
    for beat in range(1, 9):
        now_ns = beat * BEAT_NS
        assert played.obey(played.controller.receive(played.report("a"), now_ns)) == ["a"]
        assert played.controller.receive(played.report("a"), now_ns + BEAT_NS // 3) == [], "no endless talk"


def test_an_agent_that_began_anew_is_answered_at_once() -> None:
    played = Played()
    played.begin()
    played.seqs["a"] = 0
    assert played.obey(played.controller.receive(played.report("a", epoch=0, incarnation=2), 1)) == ["a"]


def test_a_late_report_of_a_forerunner_is_not_news() -> None:
    played = Played()
    played.begin()
    late = played.report("a", idle=frozenset({"f/a"}))
    played.seqs["a"] = 0
    played.obey(played.controller.receive(played.report("a", epoch=0, incarnation=2), 1))
    assert played.controller.receive(late, 2 * BEAT_NS) == []
    assert played.controller.peers["a"].idle == frozenset()
    assert played.obey(played.controller.receive(played.report("a", incarnation=2), 2 * BEAT_NS)) == ["a"]


def test_whose_clock_was_set_back_is_heard_once_its_forerunner_has_been_silent_for_two_beats() -> None:
    played = Played()
    played.begin()
    again = played.report("a", incarnation=0)
    assert played.controller.receive(again, 2 * BEAT_NS) == []
    assert played.obey(played.controller.receive(again, 2 * BEAT_NS + 1)) == ["a"]


def test_a_new_leader_calls_leaves_what_is_and_raises_nothing_until_all_have_answered() -> None:
    played = Played(held={"a": {"f/a": FlowShare(60, 5)}, "b": {"f/b": FlowShare(40, 5)}})
    controller = played.controller
    calls = controller.lead(1, FAR_NS, 0)
    assert calls == [Call(agent="a", epoch=1), Call(agent="b", epoch=1)]
    assert controller.receive(played.report("a", epoch=0), 1) == [Call(agent="a", epoch=1)]
    assert played.obey(controller.receive(played.report("a"), 2)) == ["a"]
    assert played.rates() == [60, 40]
    assert played.obey(controller.receive(played.report("b"), 3)) == ["b"]
    assert played.rates() == [60, 10]
    assert played.obey(controller.receive(played.report("b"), 4)) == ["a"]
    assert played.rates() == [90, 10]


def test_who_never_answers_a_new_leader_is_at_its_minimums_after_a_lease() -> None:
    played = Played()
    controller = played.controller
    controller.lead(1, FAR_NS, 0)
    controller.receive(played.report("a"), 1)
    open_ns = longest_ns(LEASE_NS)
    controller.receive(played.report("a"), open_ns - 1)
    assert controller.wake_ns(open_ns - 1) == open_ns
    played.obey(controller.tick(open_ns))
    assert played.rates() == [90]


def test_what_lies_on_the_bus_tells_of_agents_leases_and_minimums_of_another_policy() -> None:
    gone = Grant(
        agent="gone",
        epoch=1,
        seq=1,
        incarnation=1,
        beat=1,
        lease_ns=5 * LEASE_NS,
        alone="minimum",
        shares={"f/gone": FlowShare(30, 20)},
    )
    played = Played(held={name: {f"f/{name}": FlowShare(5, 5)} for name in ("a", "b")})
    controller = played.controller
    assert Call(agent="gone", epoch=2) in controller.lead(2, FAR_NS, 0, [gone])
    for now_ns in (1, 2, 4 * LEASE_NS):
        for agent in ("a", "b"):
            played.obey(controller.receive(played.report(agent, epoch=2), now_ns))
    assert sum(played.rates()) == 10, "it may still have 90"
    now_ns = longest_ns(5 * LEASE_NS)
    for _ in range(2):
        for agent in ("a", "b"):
            played.obey(controller.receive(played.report(agent, epoch=2), now_ns))
    assert sum(played.rates()) == 80, "it may have 20 for ever"


def test_a_host_of_no_class_is_told_to_let_go() -> None:
    played = Played()
    played.begin()
    played.held["c"], played.seqs["c"] = {"f/c": FlowShare(5, 5)}, 0
    assert played.obey(played.controller.receive(played.report("c"), 1)) == ["c"]
    assert played.held["c"] == {}


def test_minimums_of_another_policy_are_raised_only_where_others_were_lowered() -> None:
    """The former policy left 60 to ``a`` for ever; this one leaves them to ``b``."""
    minimums = {"a": {"f/a": 10}, "b": {"f/b": 60}}
    held = {"a": {"f/a": FlowShare(60, 60)}, "b": {"f/b": FlowShare(40, 10)}}
    played = Played(lambda *_: targets(20, 80), minimums, held)
    controller = played.controller
    controller.lead(1, FAR_NS, 0)
    played.obey(controller.receive(played.report("b"), 1))
    assert played.held["b"] == {"f/b": FlowShare(40, 40)}
    played.obey(controller.receive(played.report("a"), 2))
    assert played.held["a"] == {"f/a": FlowShare(20, 10)}
    assert played.held["b"] == {"f/b": FlowShare(40, 40)}
    played.obey(controller.receive(played.report("a"), 3))
    assert played.held["b"] == {"f/b": FlowShare(80, 60)}


def test_it_is_silent_when_its_term_is_over_and_goes_on_when_that_is_prolonged() -> None:
    played = Played()
    played.begin()
    controller = played.controller
    controller.lead(2, 100, 50)
    played.seqs = {"a": 0, "b": 0}
    assert controller.receive(played.report("a", epoch=2), 99) != []
    assert controller.receive(played.report("a", epoch=2), 100) == []
    assert controller.order(Orders(revision=9), 100) == []
    assert controller.tick(100) == []
    assert controller.wake_ns(100) is None
    assert controller.lead(2, 200, 110) == [], "the same term"
    assert controller.lead(2, 150, 110) == [], "a word that came late"
    assert controller.leads(199)


def test_it_resigns_when_somebody_follows_a_later_epoch() -> None:
    played = Played()
    played.begin()
    controller = played.controller
    assert controller.receive(played.report("a", epoch=8), 1) == []
    assert controller.overtaken == 8
    assert not controller.leads(1)
    assert controller.lead(1, FAR_NS, 2) == []
    assert not controller.leads(2)
    assert len(controller.lead(9, FAR_NS, 3)) == 2
    assert controller.leads(3)


@given(st.permutations(["a", "b"]), st.integers(5, 95), st.integers(0, 2), st.booleans())
def test_any_target_is_reached_and_the_sum_is_never_above(
    order: list[str], target: int, lost: int, doubled: bool
) -> None:
    played = Played(lambda orders, _: targets(target, 100 - target) if orders.requested else targets(50, 50))
    played.begin()
    controller = played.controller
    waiting = controller.order(Orders(revision=1, requested=frozenset({"f"})), 1)[lost:]
    for beat in range(1, 5):
        now_ns = beat * BEAT_NS
        for agent in order:
            played.obey(waiting)
            assert sum(played.rates()) <= TRUSTED_BPS
            report = played.report(agent)
            waiting = controller.receive(report, now_ns)
            if doubled:
                waiting += controller.receive(report, now_ns)
    played.obey(waiting)
    assert played.rates() == [target, 100 - target]


def test_who_went_back_to_ordinary_control_stays_there_until_something_is_free() -> None:
    """Its kernel has a minimum of 0, and so it says; a share of 0 would stop it."""
    played = Played(held={"a": {"f/a": FlowShare(0, 0)}, "b": {"f/b": FlowShare(90, 5)}})
    controller = played.controller
    controller.lead(1, FAR_NS, 0)
    assert controller.receive(played.report("a", left_ns=0), 1) == []
    assert played.obey(controller.receive(played.report("b"), 2)) == ["b", "a"]
    assert played.held["a"] == {"f/a": FlowShare(10, 5)}
    played.obey(controller.receive(played.report("b"), 3))
    assert played.held["a"] == {"f/a": FlowShare(90, 5)}


def test_grants_carry_what_the_policy_says() -> None:
    controller = Controller(100, MINIMUMS, by_asked, lease_ns=LEASE_NS, alone="ordinary")
    controller.lead(3, FAR_NS, 0)
    played = Played(held={"a": {"f/a": FlowShare(5, 5)}})
    (grant,) = controller.receive(msgspec.structs.replace(played.report("a", epoch=3), beat=17), 1)
    assert isinstance(grant, Grant)
    assert (grant.alone, grant.lease_ns, grant.epoch, grant.beat) == ("ordinary", LEASE_NS, 3, 17)


def test_who_has_nothing_to_send_is_lowered_before_others_are_raised() -> None:
    played = Played(lambda _, idle: targets(5, 95) if "f/a" in idle else targets(90, 10))
    played.begin()
    controller, idle = played.controller, frozenset({"f/a"})
    assert played.obey(controller.receive(played.report("a", idle=idle), BEAT_NS)) == ["a"]
    assert played.rates() == [5, 10]
    assert played.obey(controller.receive(played.report("a", idle=idle), BEAT_NS + 1)) == ["b"]
    assert played.rates() == [5, 95]
    assert played.obey(controller.receive(played.report("a"), BEAT_NS + 2)) == ["b"]
    played.obey(controller.receive(played.report("b"), BEAT_NS + 3))
    assert played.rates() == [90, 10]
