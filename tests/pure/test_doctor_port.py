"""What the doctor says of the data port of a far host; tests/lab/test_firewall.py tries real ones."""

import pytest

from howdah.doctor.judge import judge_port
from howdah.remote.dataport import NOT_KNOWN, Other, Tried

CLOSED = Tried("192.0.2.5", "198.51.100.7", None, [], {43211: "no answer"}, True)


def test_an_open_port_is_good_and_named() -> None:
    found = judge_port(CLOSED._replace(open=[50001, 50002], closed={}, ports=(50000, 50100)))
    assert (found.state, found.cost, found.commands) == ("good", None, [])
    assert found.found == "open: 198.51.100.7 answers at 50001, 50002, of 50000-50100"


def test_a_closed_port_is_good_where_the_far_end_connects_to_this_host() -> None:
    found = judge_port(CLOSED._replace(from_there=True))
    assert (found.state, found.cost, found.commands) == ("good", None, [])
    assert found.found.endswith("no answer, but 198.51.100.7 connects to this host, so copies go straight")


@pytest.mark.parametrize(
    ("changed", "state", "found"),
    [
        ({"open": [9], "closed": {}}, "good", "answers at 9, its kernel chose it; so does 2001:db8::7"),
        (
            {"open": [9], "closed": {}, "other": Other("2001:db8::7", {9: "no answer"})},
            "good",
            "its kernel chose it; 2001:db8::7 does not (9: no answer)",
        ),
        ({}, "note", "no answer, but 2001:db8::7 answers, so copies go there"),
        (
            {"other": Other("2001:db8::7", {9: "no answer"})},
            "note",
            "no answer, but 2001:db8::7 answers, so copies go there",
        ),
        (
            {"other": Other("2001:db8::7", {43211: "no answer"})},
            "gap",
            "no answer; 2001:db8::7 does not answer either (43211: no answer)",
        ),
        ({"far": "fd77::2", "other": None}, "gap", "closed: [fd77::2]:43211: no answer"),
    ],
)
def test_the_other_family_is_named_and_counts_where_the_first_is_closed(
    changed: dict[str, object], state: str, found: str
) -> None:
    made = judge_port(CLOSED._replace(**{"other": Other("2001:db8::7", {}), **changed}))  # type: ignore[arg-type]
    assert (made.state, made.found.endswith(found)) == (state, True), made


@pytest.mark.parametrize(
    ("changed", "found", "cost"),
    [
        ({}, "closed: 198.51.100.7:43211: no answer", "50000-50999, and copy with --ports 50000-50999"),
        (
            {"ports": (5, 9)},
            "closed: 198.51.100.7:43211: no answer",
            "from 192.0.2.5 to 198.51.100.7, ports 5-9",
        ),
        (
            {"open": [6], "ports": (5, 9)},
            "198.51.100.7:43211: no answer; 6 answers",
            "through the ssh connection",
        ),
        ({"through_ssh": False}, "no answer", "or for AllowTcpForwarding yes"),
        ({"near": None}, "no answer", "let in TCP from here to 198.51.100.7"),
        (
            {"near": None, "far": "127.0.0.1", "closed": {9: NOT_KNOWN}},
            "closed: 127.0.0.1:9: its address is not known here",
            "slower; have ssh connect from here to an address of that host",
        ),
    ],
)
def test_a_closed_port_says_what_to_ask_for(changed: dict[str, object], found: str, cost: str) -> None:
    made = judge_port(CLOSED._replace(**changed))  # type: ignore[arg-type]
    assert made.state == "gap"
    assert found in made.found
    assert made.cost is not None
    assert cost in made.cost


@pytest.mark.parametrize(
    ("near", "rule"),
    [
        ("192.0.2.5", "ip saddr 192.0.2.5 tcp dport 5-9 accept"),
        ("2001:db8::5", "ip6 saddr 2001:db8::5 tcp dport 5-9 accept"),
        ("fe80::5%eth0", "ip6 saddr fe80::5 tcp dport 5-9 accept"),
    ],
)
def test_the_line_for_the_firewall_lets_in_the_near_host_alone(near: str, rule: str) -> None:
    made = judge_port(CLOSED._replace(near=near, ports=(5, 9)))
    assert made.commands == [f"nft insert rule inet filter input {rule}"]
    assert made.cost is not None
    assert "the line below lets in this host alone: give the network of your near hosts" in made.cost


def test_there_is_no_line_for_the_firewall_where_the_near_address_is_unknown() -> None:
    assert judge_port(CLOSED._replace(near=None)).commands == []
