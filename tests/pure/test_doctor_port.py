"""What the doctor says of the data port of a far host; tests/lab/test_firewall.py tries real ones."""

import pytest

from howdah.doctor.port import judge_port
from howdah.remote.dataport import Tried

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
    ],
)
def test_a_closed_port_says_what_to_ask_for(changed: dict[str, object], found: str, cost: str) -> None:
    made = judge_port(CLOSED._replace(**changed))  # type: ignore[arg-type]
    assert made.state == "gap"
    assert found in made.found
    assert made.cost is not None
    assert cost in made.cost
    assert made.commands[0].startswith("nft insert rule inet filter input tcp dport ")
