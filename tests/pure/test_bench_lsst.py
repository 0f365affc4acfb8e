"""The LSST paper's experiment: what the scenario says, and how its rows come from a record."""

import pytest

from bench.lsst import judge, scenario, tables
from bench.lsst.senders import said_by_nuttcp
from howdah.control.allocation import allocate

MBPS = 1_000_000
RTT_S, ASKED_S, FULL_S, END_S, ROSE_S = 0.18, 4.0, 4.5, 28.5, 29.0
IMAGES = ("images/base20", "images/base21")


def test_the_scenario_is_the_papers() -> None:
    found = scenario.load()
    assert found.topology.left == ("base20", "base21", "base22", "base23")
    assert 2 * found.image_bytes == pytest.approx(2688e6, rel=1e-4)
    assert found.rtt_s == RTT_S
    at_rest = allocate(found.policy, frozenset(), {})
    assert at_rest["replication/base22"] == 50 * MBPS
    assert at_rest["background/base23"] == 949 * MBPS
    urgent = allocate(found.policy, frozenset({"images"}), {})
    assert urgent == {
        "replication/base22": 50 * MBPS,
        "background/base23": 10 * MBPS,
        "images/base20": 470 * MBPS,
        "images/base21": 470 * MBPS,
    }


def test_what_nuttcp_says() -> None:
    text = " base20: 1281.7578 MB /  24.72 sec =  434.9 Mbps 2 %TX 4 %RX 115 retrans 180.35 msRTT\n"
    assert said_by_nuttcp(text) == {"bytes": 1344020467, "s": 24.72, "retransmissions": 115}


def line(name: str) -> list[str]:
    """A flow that sends what it may, at once; images from FULL_S to END_S."""
    words, sent = [], 0.0
    before_s, before_bps = -2.0, 0.0
    for step in range(-100, 1600):
        t_s = step / 50
        urgent = ASKED_S <= t_s < ROSE_S
        share = {"replication": 50, "background": 10 if urgent else 949, "images": 470 if urgent else 0.5}
        share_bps = share[name.partition("/")[0]] * MBPS
        sending = not name.startswith("images") or FULL_S <= t_s < END_S
        sent += before_bps * (t_s - before_s) / 8
        before_s, before_bps = t_s, share_bps if sending else 0.0
        words.append(f"{t_s:.3f} {share_bps:.0f} {sent:.0f} {sent * 1448 / 1538:.0f}")
    return words


def test_rows_of_a_run_by_hand() -> None:
    names = ("background/base23", *IMAGES, "replication/base22")
    run = {
        "part": "figure",
        "guarantee_bps": 1000 * MBPS,
        "rtt_s": RTT_S,
        "begun_s": 0.0,
        "ended_s": 31.0,
        "images": [{"by": "nuttcp", "asked_s": ASKED_S, "released_s": ROSE_S}],
        "flows": {name: line(name) for name in names},
        "standby": ["0.0 0", "10.0 58000000"],
        "stats": {"lateness": {"spoilt": False}},
    }
    found = {row.what: row for row in judge.rows([run])}
    values = {what.rpartition(": ")[2]: row.value for what, row in found.items()}
    assert values["payload of all flows meanwhile, of 117.6 MB/s"] == pytest.approx(100.0, abs=0.2)
    assert values["2,688 MB from request to last byte acknowledged"] == pytest.approx(
        END_S - ASKED_S, abs=0.03
    )
    assert values["path under-used when they begin"] == pytest.approx(1e3 * (FULL_S - ASKED_S), abs=70)
    assert values["path under-used when they end"] == pytest.approx(1e3 * (ROSE_S - END_S), abs=70)
    assert values["furthest from its share in any second, changes included"] == pytest.approx(0, abs=0.01)
    assert values["log at the standby, whole time (the paper about 5.8)"] == pytest.approx(5.8)
    assert all(row.met is not False for what, row in found.items() if "under-used" not in what)


def test_table_1_is_whole() -> None:
    assert len(tables.paper()) == 60
