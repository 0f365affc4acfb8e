import io

import msgspec
from rich.console import Console

from howdah.control.status import AskedStatus, FlowStatus, HostStatus, Status
from howdah.words.control import shown

LEADING = Status(
    unix_s=1000.0,
    policy="lsst",
    guarantee_bps=10**9,
    trusted_bps=990_000_000,
    free_bps=0,
    controller="base1-7",
    leader="base1-7",
    epoch=3,
    revision=9,
    settled=True,
    askable=["images"],
    asked=[
        AskedStatus(traffic_class="images", who="camera", until_unix_s=1042.0),
        AskedStatus(traffic_class="images", who="me", until_unix_s=None),
    ],
    changed={"background": {"maximum": "50%", "weight": 3}},
    hosts=[
        HostStatus(name="base20", heard_s=0.2, lease_left_s=1.81, drained=False),
        HostStatus(name="base21", heard_s=7.0, lease_left_s=0.0, drained=True),
        HostStatus(name="base22", heard_s=None, lease_left_s=None, drained=False),
    ],
    flows=[
        FlowStatus(
            flow="images/base20",
            traffic_class="images",
            host="base20",
            to="20.20.20.100/32",
            ports=(1, 65535),
            share_bps=465_000_000,
            target_bps=465_000_000,
            minimum_bps=8000,
            sent_bps=464_200_000,
            acked_bps=440_000_000,
            connections=1200,
        ),
        FlowStatus(
            flow="replication-of-the-archive/base22",
            traffic_class="replication",
            host="base22",
            to="20.20.20.100/32",
            ports=(1, 65535),
            share_bps=None,
            target_bps=50_000_000,
            minimum_bps=50_000_000,
            sent_bps=None,
            acked_bps=None,
            connections=None,
        ),
    ],
)


def _text(status: Status) -> list[str]:
    console = Console(file=io.StringIO(), width=96)
    console.print(shown(status), highlight=False)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_who_lends_is_said_while_it_is_asked_for() -> None:
    (images, other) = LEADING.flows
    idle = msgspec.structs.replace(LEADING, flows=[msgspec.structs.replace(images, idle=True), other])
    line = "idle, so others have their shares: images/base20"
    assert line in _text(idle)
    assert line not in _text(msgspec.structs.replace(idle, asked=[]))


def test_a_status_in_words() -> None:
    assert _text(LEADING) == [
        "lsst: 1.00 Gb/s guaranteed, 990 Mb/s of it shared out, 0 b/s free",
        "base1-7 leads; everything is in force",
        "asked for: images by camera for 42.0 s more, images by me",
        "changed: background maximum 50%, weight 3",
        "drained: base21",
        "no message yet from: base22",
        "no message from base21 for 7.00 s: its leases have run out",
        "",
        "flow                                  share     target    minimum      sent  conns   lease",
        "images/base20                      465 Mb/s   465 Mb/s  8.00 kb/s  464 Mb/s  1,200  1.80 s",
        "replication-of-the-archive/base22         -  50.0 Mb/s  50.0 Mb/s         -      -       -",
    ]


def test_who_leads_in_words() -> None:
    def says(**changed: object) -> str:
        return _text(msgspec.structs.replace(LEADING, **changed))[1]

    (_, two, three) = LEADING.hosts
    leased = [msgspec.structs.replace(each, heard_s=0.2, lease_left_s=1.0) for each in LEADING.hosts]
    changing = says(settled=False, hosts=leased)
    assert changing == "base1-7 leads; everything is in force except a change under way"
    assert says(settled=False) == "base1-7 leads; everything is in force except on base22"
    unplaced = [msgspec.structs.replace(each, placed=False) for each in LEADING.flows]
    lacking = says(settled=False, hosts=leased, flows=unplaced)
    assert lacking == "base1-7 leads; everything is in force except on base20 and base22"
    silent = says(settled=False, hosts=[two, three], flows=[])
    assert silent == "base1-7 leads; no agent has reported for 7.00 s"
    assert says(settled=False, hosts=[three], flows=[]) == "base1-7 leads; no agent has reported yet"
    assert says(leader="base2-8") == "base2-8 leads; base1-7 stands by"
    assert says(leader=None) == "no controller leads; base1-7 stands by"
    away = says(leader=None, trouble="no answer from the bus")
    assert away == "no controller leads: no answer from the bus; base1-7 stands by"


def test_an_agent_without_a_lease_is_not_said_to_have_lost_one() -> None:
    def says(heard_s: float) -> str:
        host = HostStatus(name="base20", heard_s=heard_s, lease_left_s=0.0, drained=False, leased=False)
        text = _text(msgspec.structs.replace(LEADING, hosts=[host], flows=[]))
        return next(line for line in text if "lease" in line)

    assert says(0.0) == "base20 reports, and has no lease yet"
    assert says(9.0) == "no message from base20 for 9.00 s: it had no lease"


def test_a_lease_that_is_not_there_is_called_so() -> None:
    def last(**changed: object) -> str:
        host = msgspec.structs.replace(LEADING.hosts[0], lease_left_s=0.0, **changed)
        return _text(msgspec.structs.replace(LEADING, hosts=[host], flows=LEADING.flows[:1]))[-1]

    assert last().endswith(" run out")
    assert last(leased=False).endswith(" none yet")


def test_flows_without_a_rule_are_named() -> None:
    bare = [msgspec.structs.replace(each, placed=False) for each in LEADING.flows]
    line = "without a rule on their host, which its agent tells the reason of: images/base20"
    assert line in _text(msgspec.structs.replace(LEADING, flows=bare))
    assert line not in _text(LEADING)


def test_ordinary_control_is_called_so() -> None:
    flow = msgspec.structs.replace(LEADING.flows[0], share_bps=0)
    assert _text(msgspec.structs.replace(LEADING, flows=[flow]))[-1].split()[:2] == [
        "images/base20",
        "ordinary",
    ]
