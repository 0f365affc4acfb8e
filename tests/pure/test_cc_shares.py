"""Shares as Python and people see them."""

import io

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from howdah.cc.programs import Attaching, HoldTarget, KernelStatus, Ports, Rule
from howdah.cc.shares import Place, Share
from howdah.words import cc as report

SHARE = Share(
    number=3,
    owner="base22",
    name="images",
    rate_bps=400_000_000,
    minimum_bps=10_000_000,
    until_ns=1_500_000_000,
    left_s=0.5,
    connections=4,
    active=2,
    sent_bytes=2_000_000,
    acked_bytes=1_900_000,
)
RULE = Rule(
    number=1,
    cgroup=None,
    to="10.9.0.2/32",
    ports=Ports(5000, 5001),
    namespace=4026532000,
    control="hd_hold",
    target=HoldTarget(rate_bps=0, window_packets=0, share=3),
    chosen=7,
    refused=0,
)


def printed(*shares: Share) -> str:
    status = KernelStatus(
        programs=[], default_target=None, rules=[RULE], shares=list(shares), memories=[], connections=[]
    )
    console = Console(file=io.StringIO(), width=200)
    for part in report.status(status):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(
    st.integers(8_000, 10**12),
    st.one_of(st.just(0), st.integers(8_000, 10**12)),
    st.floats(0, 1e9, allow_nan=False),
)
def test_the_minimum_is_in_force_once_the_lease_has_run_out(
    rate_bps: int, minimum_bps: int, left_s: float
) -> None:
    share = msgspec.structs.replace(SHARE, rate_bps=rate_bps, minimum_bps=minimum_bps, left_s=left_s)
    assert share.in_force_bps == (rate_bps if left_s > 0 else minimum_bps)
    assert msgspec.json.decode(msgspec.json.encode(share), type=Share) == share


def test_status_tells_of_shares_and_which_rules_give_them() -> None:
    text = printed(SHARE)
    share = next(line for line in text.splitlines() if "base22" in line)
    for word in ("3", "images", "400 Mb/s", "500 ms", "10.0 Mb/s", "2 of 4 connections", "2.00 MB"):
        assert word in share, (word, share)
    rule = next(line for line in text.splitlines() if "10.9.0.2/32" in line)
    for word in ("5000-5001", "4026532000", "share 3", "7"):
        assert word in rule, (word, rule)


def test_status_says_what_holds_when_a_lease_has_run_out() -> None:
    out = msgspec.structs.replace(SHARE, left_s=0.0)
    assert "run out" in printed(out)
    assert "400 Mb/s" not in printed(out)
    assert "ordinary" in printed(msgspec.structs.replace(out, minimum_bps=0))


def test_a_rule_of_one_namespace_is_told_as_detach_takes_it() -> None:
    ended = report.attaching(Attaching(rule=RULE, moved=1, rules=0), ended=True)
    assert "--to 10.9.0.2/32 --ports 5000-5001 --namespace 4026532000: hd_hold at share 3" in ended


def test_a_rule_of_a_cgroup_is_told_as_detach_takes_it() -> None:
    rule = msgspec.structs.replace(RULE, cgroup="/db.slice", to=None, namespace=None)
    ended = report.attaching(Attaching(rule=rule, moved=1, rules=0), ended=True)
    assert "--cgroup /db.slice --ports 5000-5001: hd_hold at share 3" in ended
    assert rule.place == Place(to=None, ports="5000-5001", cgroup="/db.slice")
