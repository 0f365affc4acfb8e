"""The ledger beside a plain list of all that was ever sent."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from howdah.control.leases.ledger import DRIFT_MARGIN, Account, Ledger, longest_ns
from howdah.control.leases.messages import FlowShare

FLOWS = ("images/a", "background/a")


class Sent(NamedTuple):
    """One Grant."""

    shares: dict[str, FlowShare]
    until_ns: int


@st.composite
def all_shares(draw: st.DrawFn) -> dict[str, FlowShare]:
    minimums = {flow: draw(st.integers(0, 20)) for flow in FLOWS}
    return {flow: FlowShare(least + draw(st.integers(0, 100)), least) for flow, least in minimums.items()}


def most_bps(before: dict[str, int], sent: list[Sent], confirmed: int, now_ns: int) -> int:
    """The most that any agent could have in force that confirmed so much, without a ledger."""
    possible = sent[max(0, confirmed - 1) :]
    least = [*([before] if not confirmed else [])]
    least += [{flow: share.minimum_bps for flow, share in each.shares.items()} for each in possible]
    floor = {flow: max(minimums[flow] for minimums in least) for flow in FLOWS}
    sums = [
        sum(max(share.rate_bps, floor[flow]) for flow, share in each.shares.items())
        for each in possible
        if each.until_ns > now_ns
    ]
    return max([sum(floor.values()), *sums])


@given(
    st.fixed_dictionaries({flow: st.integers(0, 20) for flow in FLOWS}),
    st.lists(st.tuples(all_shares(), st.integers(1, 50)), max_size=6),
    st.data(),
)
def test_the_bound_covers_all_that_may_be_in_force(
    before: dict[str, int], grants: list[tuple[dict[str, FlowShare], int]], data: st.DataObject
) -> None:
    account, sent, confirmed, now_ns = Account(before), list[Sent](), 0, 0
    for seq, (shares, lease_ns) in enumerate(grants, 1):
        now_ns += data.draw(st.integers(0, 30))
        until_ns = max([now_ns + lease_ns, *(each.until_ns for each in sent)])
        account.count(seq, shares, now_ns, until_ns)
        sent.append(Sent(shares, until_ns))
        assert account.bound_bps(now_ns) >= most_bps(before, sent, confirmed, now_ns)
        confirmed = max(confirmed, data.draw(st.integers(0, seq)))
        if confirmed:
            account.confirm(confirmed)
        assert account.bound_bps(now_ns) >= most_bps(before, sent, confirmed, now_ns)
    if sent:
        # When all is known, nothing is held back.
        account.confirm(len(sent))
        assert account.bound_bps(now_ns) == most_bps(before, sent, len(sent), now_ns)
        assert account.bound_bps(sent[-1].until_ns) == sum(
            share.minimum_bps for share in sent[-1].shares.values()
        )


def test_a_grant_counts_until_a_later_one_is_confirmed() -> None:
    account = Account({"f": 1})
    account.count(1, {"f": FlowShare(9, 1)}, 0, 100)
    account.count(2, {"f": FlowShare(3, 1)}, 0, 100)
    assert account.bound_bps(0) == 9
    account.confirm(1)
    assert account.bound_bps(0) == 9
    account.confirm(2)
    assert account.bound_bps(99) == 3
    assert account.falls_ns(0) == 100
    assert account.bound_bps(100) == 1
    assert account.falls_ns(100) is None


def test_rate_moves_between_flows_of_an_agent_without_counting_twice() -> None:
    account = Account({"f": 1, "g": 1})
    account.count(1, {"f": FlowShare(9, 1), "g": FlowShare(1, 1)}, 0, 100)
    account.count(2, {"f": FlowShare(1, 1), "g": FlowShare(9, 1)}, 0, 100)
    assert account.bound_bps(0) == 10


def test_nothing_is_free_until_all_are_heard_or_old_leases_have_run_out() -> None:
    ledger = Ledger(100, open_ns=50)
    ledger.accounts += [Account({"f": 10}), Account({"g": 10})]
    assert (ledger.free_bps(0), ledger.free_bps(50)) == (0, 80)
    ledger.accounts[0].inherit({"f": FlowShare(60, 10)}, 0, 40)
    assert ledger.free_bps(0) == 0
    ledger.accounts[1].inherit({"g": FlowShare(30, 20)}, 0, 20)
    assert (ledger.free_bps(0), ledger.free_bps(20), ledger.free_bps(40)) == (10, 20, 70)


def test_more_promised_than_there_is_shows_as_less_than_nothing_free() -> None:
    ledger = Ledger(100, open_ns=0)
    ledger.accounts += [Account({"f": 10})]
    ledger.accounts[0].inherit({"f": FlowShare(160, 10)}, 0, 40)
    assert ledger.free_bps(0) == -60


@given(st.integers(0, 10**12), st.floats(-0.0049, 0.0049), st.floats(-0.0049, 0.0049))
def test_the_margin_covers_two_clocks_that_run_apart(span_ns: int, one: float, other: float) -> None:
    true_ns = span_ns / (1 + one)
    assert longest_ns(span_ns) >= true_ns * (1 + other) - 1
    assert longest_ns(span_ns, 0.0) == span_ns + 1
    assert longest_ns(span_ns) <= span_ns * (1 + DRIFT_MARGIN) + 2
