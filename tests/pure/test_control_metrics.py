"""Metrics, read as Prometheus reads them."""

import math
from collections.abc import Iterator

import pytest
from controlled import Controlled, controlled
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from test_control_api import send, until

from howdah.control.http.application import exposition
from howdah.control.http.client import Client
from howdah.control.status import AskedStatus, FlowStatus, HostStatus, Status

RATE_BPS = st.integers(0, 10**12)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
S = st.floats(0, 1e6)

FLOWS = st.builds(
    FlowStatus,
    flow=NAME,
    traffic_class=NAME,
    host=NAME,
    share_bps=st.none() | RATE_BPS,
    target_bps=st.none() | RATE_BPS,
    minimum_bps=RATE_BPS,
    sent_bps=st.none() | RATE_BPS,
    acked_bps=st.none() | RATE_BPS,
    connections=st.none() | st.integers(0, 99),
)
STATUSES = st.builds(
    Status,
    unix_s=S,
    policy=NAME,
    guarantee_bps=RATE_BPS,
    trusted_bps=RATE_BPS,
    free_bps=st.none() | RATE_BPS,
    controller=NAME,
    leader=st.none() | NAME,
    epoch=st.none() | st.integers(0, 2**40),
    revision=st.integers(0, 2**40),
    settled=st.booleans(),
    askable=st.lists(NAME),
    asked=st.lists(
        st.builds(AskedStatus, traffic_class=NAME, who=NAME, until_unix_s=st.none() | S), max_size=3
    ),
    changed=st.just({}),
    hosts=st.lists(
        st.builds(
            HostStatus, name=NAME, heard_s=st.none() | S, lease_left_s=st.none() | S, drained=st.booleans()
        ),
        max_size=3,
        unique_by=lambda host: host.name,
    ),
    flows=st.lists(FLOWS, max_size=4, unique_by=lambda flow: flow.flow),
)

OF_FLOWS = {
    "howdah_flow_share_bits_per_second": "share_bps",
    "howdah_flow_target_bits_per_second": "target_bps",
    "howdah_flow_minimum_bits_per_second": "minimum_bps",
    "howdah_flow_sent_bits_per_second": "sent_bps",
    "howdah_flow_acked_bits_per_second": "acked_bps",
    "howdah_flow_connections": "connections",
}
OF_HOSTS = {
    "howdah_host_heard_seconds": "heard_s",
    "howdah_host_lease_left_seconds": "lease_left_s",
    "howdah_host_drained": "drained",
}


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """By name and labels."""
    families = list(text_string_to_metric_families(text))
    assert all(family.type == "gauge" and family.documentation for family in families)
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {family.name: {} for family in families}
    assert len(found) == len(families)
    for family in families:
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found[family.name]
            found[family.name][labels] = sample.value
    return found


@given(STATUSES, st.integers(0, 64))
def test_what_is_known_is_told_and_nothing_else(status: Status, watchers: int) -> None:
    found = read(exposition(status, watchers))
    assert found["howdah_control_watchers"] == {(): watchers}
    assert found["howdah_control_trusted_bits_per_second"] == {(): status.trusted_bps}
    assert found["howdah_control_leads"] == {(): status.leader == status.controller}
    free = {} if status.free_bps is None else {(): status.free_bps}
    assert found["howdah_control_free_bits_per_second"] == free
    for name, field in OF_FLOWS.items():
        assert found[name] == {
            (("class", each.traffic_class), ("flow", each.flow), ("host", each.host)): getattr(each, field)
            for each in status.flows
            if getattr(each, field) is not None
        }
    for name, field in OF_HOSTS.items():
        assert found[name] == {
            (("host", each.name),): getattr(each, field)
            for each in status.hosts
            if getattr(each, field) is not None
        }


@pytest.fixture(scope="module")
def path() -> Iterator[Controlled]:
    with controlled() as here:
        yield here


def test_a_scrape(path: Controlled) -> None:
    client = Client(path.url)
    revision = client.ask("images", "camera") or 0
    client.ask("images", "you")
    until(client, lambda status: status.settled and status.revision > revision)
    answer, said = send(path, "GET", "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = read(said.decode())
    assert found["howdah_control_asked"] == {
        (("class", name),): count for name, count in (("background", 0), ("images", 2), ("replication", 0))
    }
    rates = found["howdah_flow_share_bits_per_second"]
    assert math.fsum(rates.values()) == pytest.approx(1e9, rel=1e-6)
    assert len(rates) == 4
