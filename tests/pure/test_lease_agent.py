"""An agent: which Grants it obeys, in which order it writes, and what it says."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah.control.leases.agent import AFTER_NS, Agent, Held
from howdah.control.leases.messages import BEATS_PER_LEASE, Call, FlowShare, Grant, Measured, Report
from howdah.control.policy import Alone

LEASE_NS = 1000


class Table:
    """A kernel's table of shares that keeps every state it was in."""

    def __init__(self, held: dict[str, Held] | None = None) -> None:
        self.table = dict(held or {})
        self.states = [dict(self.table)]
        self.full = False
        self.waiting = 0

    def held(self) -> dict[str, Held]:
        return dict(self.table)

    def hold(self, flow: str, held: Held) -> None:
        if self.full:
            raise OSError("no room")
        self.table[flow] = held
        self.states.append(dict(self.table))

    def release(self, flow: str) -> None:
        del self.table[flow]
        self.states.append(dict(self.table))

    def measured(self) -> dict[str, Measured]:
        return {flow: Measured(10, 5, 1, self.waiting) for flow in self.table}

    def sums_bps(self, now_ns: int) -> list[int]:
        return [
            sum(held.rate_bps if now_ns < held.until_ns else held.minimum_bps for held in state.values())
            for state in self.states
        ]


def agent_of(table: Table, incarnation: int = 7) -> tuple[Agent, Report]:
    agent = Agent("a", incarnation, table, LEASE_NS)
    report = agent.tick(0)
    assert report is not None
    return agent, report


def grant_of(
    rates: dict[str, int],
    *,
    seq: int = 1,
    beat: int = 1,
    epoch: int = 1,
    incarnation: int = 7,
    alone: Alone = "minimum",
) -> Grant:
    return Grant(
        agent="a",
        epoch=epoch,
        seq=seq,
        incarnation=incarnation,
        beat=beat,
        lease_ns=LEASE_NS,
        alone=alone,
        shares={flow: FlowShare(rate, 1) for flow, rate in rates.items()},
    )


def test_a_lease_begins_when_the_report_was_sent() -> None:
    table = Table()
    agent, _ = agent_of(table)
    agent.receive(grant_of({"f": 50}), 400)
    assert table.table == {"f": Held(50, 1, LEASE_NS)}


def test_a_grant_that_comes_after_its_lease_changes_nothing() -> None:
    table = Table()
    agent, _ = agent_of(table)
    report = agent.receive(grant_of({"f": 50}), LEASE_NS)
    assert table.table == {}
    assert report is not None
    assert (report.epoch, report.seq) == (1, 0)


@pytest.mark.parametrize(
    "late",
    [
        grant_of({"f": 90}, seq=2, epoch=1),
        grant_of({"f": 90}, seq=2, epoch=2),
        grant_of({"f": 90}, seq=3, epoch=2),
        grant_of({"f": 90}, seq=4, epoch=2, incarnation=6),
        grant_of({"f": 90}, seq=4, epoch=2, beat=9),
        grant_of({"f": 90}, seq=4, epoch=2, beat=1),
    ],
    ids=["older epoch", "older", "the same again", "for its forerunner", "no such report", "an older report"],
)
def test_what_is_out_of_date_is_ignored(late: Grant) -> None:
    table = Table()
    agent, _ = agent_of(table)
    agent.tick(LEASE_NS // BEATS_PER_LEASE)
    agent.receive(grant_of({"f": 50}, seq=3, epoch=2, beat=2), 300)
    before = dict(table.table)
    assert agent.receive(late, 310) is None
    assert table.table == before


def test_it_says_at_once_what_is_different_and_only_that() -> None:
    agent, first = agent_of(Table())
    assert (first.beat, first.epoch, first.seq, first.shares) == (1, 0, 0, {})
    called = agent.receive(Call(agent="a", epoch=5), 10)
    assert called is not None
    assert (called.beat, called.epoch, called.seq) == (2, 5, 0)
    assert agent.receive(Call(agent="a", epoch=5), 20) is None
    granted = agent.receive(grant_of({"f": 50}, epoch=5, beat=2), 30)
    assert granted is not None
    assert (granted.seq, granted.shares, granted.left_ns) == (1, {"f": FlowShare(50, 1)}, LEASE_NS - 20)
    assert agent.receive(grant_of({"f": 50}, epoch=5, seq=2, beat=3), 40) is None, "a renewal"
    lowered = agent.receive(grant_of({"f": 20}, epoch=5, seq=3, beat=3), 50)
    assert lowered is not None
    assert lowered.shares == {"f": FlowShare(20, 1)}
    assert lowered.measured == {"f": Measured(10, 5, 1)}


def test_it_reports_at_every_beat() -> None:
    agent, _ = agent_of(Table())
    beat_ns = LEASE_NS // BEATS_PER_LEASE
    assert agent.tick(beat_ns - 1) is None
    assert agent.wake_ns == beat_ns
    assert agent.tick(beat_ns) is not None
    assert agent.wake_ns == 2 * beat_ns


def test_one_that_starts_again_says_what_the_kernel_has_and_raises_nothing() -> None:
    table = Table({"f": Held(70, 1, 500), "g": Held(30, 2, 100)})
    agent, _ = agent_of(table)
    report = agent.tick(250)
    assert report is not None
    assert report.shares == {"f": FlowShare(70, 1), "g": FlowShare(2, 2)}
    assert report.left_ns == 250
    assert len(table.states) == 1


def test_it_says_at_once_who_has_nothing_to_send_and_who_has_again() -> None:
    table = Table()
    agent, _ = agent_of(table)
    assert agent.look(["f"], 1) is None, "no Grant has said what its minimum is"
    agent.receive(grant_of({"f": 50, "g": 50}), 2)
    assert agent.look(["f"], 3) is None
    idle = agent.look(["f"], 3 + AFTER_NS)
    assert idle is not None
    assert idle.idle == {"f"}
    assert agent.look(["f"], 4 + AFTER_NS) is None
    table.waiting = 1
    busy = agent.look(["f"], 5 + AFTER_NS)
    assert busy is not None
    assert busy.idle == frozenset()


def test_one_that_starts_again_knows_from_the_kernel_what_is_left_to_who_is_idle() -> None:
    agent, _ = agent_of(Table({"f": Held(50, 10, LEASE_NS), "ordinary": Held(50, 0, LEASE_NS)}))
    assert agent.look(["f", "ordinary"], 1) is None
    idle = agent.look(["f", "ordinary"], 1 + AFTER_NS)
    assert idle is not None
    assert idle.idle == {"f"}


def test_flows_no_longer_granted_are_let_go() -> None:
    table = Table({"old": Held(70, 1, 500)})
    agent, _ = agent_of(table)
    agent.receive(grant_of({"f": 50}), 10)
    assert table.table.keys() == {"f"}


def test_what_the_kernel_refuses_is_not_confirmed() -> None:
    table = Table()
    agent, _ = agent_of(table)
    table.full = True
    with pytest.raises(OSError, match="no room"):
        agent.receive(grant_of({"f": 50}), 10)
    table.full = False
    report = agent.tick(250)
    assert report is not None
    assert report.seq == 0
    assert agent.receive(grant_of({"f": 50}, seq=2, beat=2), 260) is not None
    assert table.table["f"].rate_bps == 50


def test_alone_it_may_go_back_to_ordinary_congestion_control() -> None:
    table = Table()
    agent, _ = agent_of(table)
    agent.receive(grant_of({"f": 50}, alone="ordinary"), 10)
    assert table.table == {"f": Held(50, 0, LEASE_NS)}


rates = st.fixed_dictionaries({flow: st.integers(1, 100) for flow in "fgh"})


@given(st.lists(rates, min_size=2, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_at_no_write_is_the_sum_above_what_it_was_and_what_it_will_be(
    grants: list[dict[str, int]], beats: Iterable[bool]
) -> None:
    table = Table()
    agent, _ = agent_of(table)
    now_ns = beat = 1
    for seq, (wanted, next_beat) in enumerate(zip(grants, beats, strict=False), 1):
        now_ns += 300 if next_beat else 0
        report = agent.tick(now_ns)
        beat = report.beat if report else beat
        before = sum(table.sums_bps(now_ns)[-1:])
        table.states = table.states[-1:]
        said = agent.receive(grant_of(wanted, seq=seq, beat=beat), now_ns)
        beat = said.beat if said else beat
        if table.states[0]:
            assert max(table.sums_bps(now_ns)) <= max(before, sum(wanted.values()))
        assert table.sums_bps(now_ns)[-1] == sum(wanted.values())
