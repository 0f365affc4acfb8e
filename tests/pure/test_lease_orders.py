"""Orders as values on the bus, and what they make of a policy."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.control.allocation import Targets
from howdah.control.policy.orders import OrderBook, Orders
from howdah.control.policy.policyfile import loads

POLICY = """
name = "lsst"
guarantee = "1Gbit"
[class.replication]
fixed = "5%"
[[class.replication.member]]
host = "base22"
to = "20.20.20.100"
[class.background]
minimum = "1%"
[[class.background.member]]
host = "base23"
to = "20.20.20.100"
[class.images]
minimum = "2%"
priority = 1
active = "asked"
[[class.images.member]]
host = "base20"
to = "20.20.20.100"
[[class.images.member]]
host = "base21"
to = "20.20.20.100"
"""
PERCENT = 10_000_000
TARGETS = Targets(loads(POLICY, "lsst.toml"))


LENDING = Targets(loads(POLICY.replace('active = "asked"', 'active = "asked"\nidle = "lent"'), "lsst.toml"))


def percents(orders: Orders, targets: Targets = TARGETS, idle: Collection[str] = ()) -> dict[str, float]:
    return {agent: sum(flows.values()) / PERCENT for agent, flows in targets(orders, idle).items()}


def test_the_papers_figure_2() -> None:
    assert percents(Orders()) == {"base20": 1, "base21": 1, "base22": 5, "base23": 93}
    asked = Orders(requested=frozenset({"images"}))
    assert percents(asked) == {"base20": 47, "base21": 47, "base22": 5, "base23": 1}


def test_a_drained_host_has_its_minimums_and_the_others_the_rest() -> None:
    orders = Orders(requested=frozenset({"images"}), drained=frozenset({"base20"}))
    assert percents(orders) == {"base20": 1, "base21": 93, "base22": 5, "base23": 1}


def test_a_class_that_lends_has_its_share_as_far_as_it_sends() -> None:
    nobody, asked = Orders(), Orders(requested=frozenset({"images"}))
    idle = ["images/base20", "images/base21"]
    assert percents(asked, LENDING, idle) == percents(nobody)
    assert percents(asked, LENDING, idle[:1]) == {"base20": 1, "base21": 93, "base22": 5, "base23": 1}
    assert percents(asked, LENDING) == percents(asked)
    assert percents(asked, TARGETS, idle) == percents(asked), "it keeps what it has"
    assert percents(asked, LENDING, ["background/base23"]) == percents(asked), "that class does not lend"


def test_what_a_class_changes_for_others_is_theirs_again_while_it_has_nothing_to_send() -> None:
    lends = 'active = "asked"\nidle = "lent"\nothers.background.maximum = "50%"'
    targets = Targets(loads(POLICY.replace('active = "asked"', lends), "lsst.toml"))
    one = Orders(requested=frozenset({"images"}), hosts={"images": frozenset({"base20"})})
    assert percents(one, targets)["base20"] == 93
    assert percents(one, targets, ["images/base20"])["base23"] == 93


def test_terms_change_what_is_above_the_minimum_and_never_the_minimum() -> None:
    assert percents(Orders(changed={"background": {"maximum": "50%"}}))["base23"] == 50
    orders = Orders(changed={"images": {"minimum": "1%"}, "background": {"maximum": "40%"}})
    assert percents(orders)["base23"] == 40, "what cannot be kept counts for nothing, the rest does"
    with pytest.raises(HowdahError, match=r"images/base20 falls back to 10.0 Mb/s .* change the policy file"):
        TARGETS.check(Orders(), "images", {"minimum": "1%"})
    with pytest.raises(HowdahError, match="has no class videos"):
        TARGETS.check(Orders(), "videos", {"minimum": "1%"})
    TARGETS.check(orders, "images", {"minimum": "9%"})


def test_a_class_is_asked_for_as_long_as_anybody_asks() -> None:
    book = OrderBook()
    book.note("order.asked/images/cp-1", b"{}", 1)
    book.note("order.asked/images/cp-2", b"{}", 2)
    book.note("order.asked/images/cp-1", None, 3)
    assert book.orders() == Orders(revision=3, requested=frozenset({"images"}))
    book.note("order.asked/images/cp-2", None, 4)
    assert book.orders() == Orders(revision=4)


def test_a_class_may_be_asked_for_on_behalf_of_single_hosts() -> None:
    book = OrderBook()
    book.note("order.asked/images/cp-1", b'{"host":"base20"}', 1)
    orders = book.orders()
    assert orders == Orders(
        revision=1, requested=frozenset({"images"}), hosts={"images": frozenset({"base20"})}
    )
    book.note("order.asked/images/cp-2", b'{"host":"base21"}', 2)
    assert book.orders().hosts == {"images": frozenset({"base20", "base21"})}
    book.note("order.asked/images/all", b"{}", 3)
    assert book.orders().hosts == {}
    one = percents(orders)
    both = percents(Orders(requested=frozenset({"images"})))
    assert one["base21"] == percents(Orders())["base21"]
    assert one["base20"] == both["base20"] + both["base21"] - one["base21"]
    assert (one["base22"], one["base23"]) == (both["base22"], both["base23"])


def test_all_kinds_of_order() -> None:
    book = OrderBook()
    book.note("order.drained/dtn1.site.org", b"{}", 1)
    book.note("order.changed/background", b'{"maximum":"5%","weight":3}', 2)
    assert book.orders() == Orders(
        revision=2,
        drained=frozenset({"dtn1.site.org"}),
        changed={"background": {"maximum": "5%", "weight": 3}},
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("order.asked/images", b"{}"),
        ("order.stop/images", b"{}"),
        ("order.changed/images", b"5%"),
        ("order.changed/images", b'{"weight":[]}'),
        ("order.changed/images", b"\xff"),
    ],
)
def test_what_is_no_order_is_named_and_not_kept(key: str, value: bytes) -> None:
    book = OrderBook()
    book.note("order.asked/images/cp-1", b"{}", 1)
    with pytest.raises(HowdahError, match=rf"^{key} on the bus is not an order.*; delete it$"):
        book.note(key, value, 2)
    assert book.orders() == Orders(revision=2, requested=frozenset({"images"}))
    book.note(key, None, 3)


keys = st.sampled_from(
    [f"order.asked/{name}/{who}" for name in "ab" for who in "xy"]
    + [f"order.drained/{name}" for name in "cd"]
)


@given(st.lists(st.tuples(keys, st.booleans())))
def test_only_the_last_value_of_a_key_counts(changes: list[tuple[str, bool]]) -> None:
    book = OrderBook()
    for revision, (key, there) in enumerate(changes, 1):
        book.note(key, b"{}" if there else None, revision)
    last = dict(changes)
    there = [key.split("/") for key, there in last.items() if there]
    assert book.orders().requested == {parts[1] for parts in there if len(parts) == 3}
    assert book.orders().drained == {parts[1] for parts in there if len(parts) == 2}
