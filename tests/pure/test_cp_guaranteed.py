"""A share for a copy: which flow it is, asking for it, the plan it makes, and what cannot be."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
import pytest
from controlled import FIGURE_2, Controlled, controlled
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import hosts

from howdah import HowdahError
from howdah import decide as paths
from howdah.control.http.address import Listening
from howdah.control.http.client import Client
from howdah.control.share import Here, ShareRequest, own_flow, unenforced
from howdah.control.status import AskedStatus, FlowStatus, HostStatus, Status
from howdah.decide import Share
from howdah.remote.endpoints import route
from howdah.transfer.request import Request
from howdah.transfer.service import service
from howdah.values import sizes
from howdah.values.path import ASSUMED_RTT_S
from howdah.values.plan import PathKind
from howdah.values.record import HostLimits, Shared, ShareSample

FAR = ["20.20.20.100"]
PORTS = (32768, 60999)


@pytest.fixture(scope="module")
def lsst() -> Iterator[Controlled]:
    with controlled() as here:
        yield here


def status(*flows: FlowStatus, host: HostStatus | None = None) -> Status:
    names = sorted({flow.host for flow in flows})
    heard = [HostStatus(name=name, heard_s=0.1, lease_left_s=1.0, drained=False) for name in names]
    return Status(
        unix_s=0.0,
        policy="lsst",
        guarantee_bps=10**9,
        trusted_bps=10**9,
        free_bps=0,
        controller="base1-7",
        leader="base1-7",
        epoch=1,
        revision=1,
        settled=True,
        askable=["images"],
        asked=[],
        changed={},
        hosts=[host] if host else heard,
        flows=list(flows),
    )


def flow(name: str, host: str, to: str = "20.20.20.0/24", ports: tuple[int, int] = (1, 65535)) -> FlowStatus:
    return FlowStatus(
        flow=f"{name}/{host}",
        traffic_class=name,
        host=host,
        to=to,
        ports=ports,
        share_bps=8000,
        target_bps=8000,
        minimum_bps=8000,
        sent_bps=None,
        acked_bps=None,
        connections=None,
    )


BASE20 = Here("base20", PORTS, "/", None)
IMAGES = status(flow("images", "base20"), flow("images", "base21"), flow("background", "base20", "9.0.0.0/8"))


def test_without_root_a_host_is_known_by_its_name() -> None:
    assert own_flow(IMAGES, "images", FAR, Here("base21", PORTS, "/", None)).flow == "images/base21"


def test_for_root_the_rules_say_whose_share_it_is_whatever_the_host_is_called() -> None:
    here = Here("vm", PORTS, "/", {"images/base20", "background/base20"})
    assert own_flow(IMAGES, "images", FAR, here).flow == "images/base20"


def test_the_deepest_cgroup_of_a_process_says_whose_share_it_is() -> None:
    def of_cgroup(name: str) -> FlowStatus:
        there = msgspec.structs.replace(flow("images", "base20"), cgroup=name, to=None)
        return msgspec.structs.replace(there, flow=f"images/{name}")

    known = status(flow("images", "base20"), of_cgroup("/a"), of_cgroup("/a/b"))
    for own_cgroup, whose in (("/a", "images//a"), ("/a/b/c", "images//a/b"), ("/ab", "images/base20")):
        here = Here("base20", PORTS, own_cgroup, None)
        assert own_flow(known, "images", FAR, here).flow == whose


@pytest.mark.parametrize(
    ("known", "name", "here", "line"),
    [
        (
            IMAGES,
            "image",
            BASE20,
            "lsst has no such class; it has background, images",
        ),
        (
            IMAGES,
            "images",
            Here("vm", PORTS, "/", None),
            "vm to 20.20.20.100 is not of images in lsst, which means",
        ),
        (
            IMAGES,
            "images",
            BASE20._replace(enforced=set()),
            "no rule on this host holds connections to 20.20",
        ),
        (
            IMAGES,
            "background",
            BASE20,
            "base20 to 20.20.20.100 is not of background",
        ),
        (
            status(flow("images", "base20", ports=(5000, 5100))),
            "images",
            BASE20,
            "base20 to 20.20.20.0/24 ports 5000-5100",
        ),
        (
            status(
                flow("images", "base20"),
                host=HostStatus(name="base20", heard_s=None, lease_left_s=None, drained=False),
            ),
            "images",
            BASE20,
            "has no message from the agent of base20",
        ),
        (
            status(
                flow("images", "base20"),
                host=HostStatus(name="base20", heard_s=0.1, lease_left_s=1.0, drained=True),
            ),
            "images",
            BASE20,
            "base20 is drained",
        ),
    ],
)
def test_what_would_be_held_by_nobody_is_refused(known: Status, name: str, here: Here, line: str) -> None:
    with pytest.raises(HowdahError) as caught:
        own_flow(known, name, FAR, here)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def ask(
    lsst: Controlled, name: str = "images", host: str = "base20", *, look_only: bool = False
) -> ShareRequest:
    here = Here(host, PORTS, "/", None)
    client = Client(lsst.url)
    return ShareRequest(client, name, lambda seen: own_flow(seen, name, FAR, here), look_only=look_only)


def who_asks(lsst: Controlled) -> list[AskedStatus]:
    return Client(lsst.url).status().asked


def test_a_share_is_in_force_when_it_begins_and_given_back_when_it_ends(lsst: Controlled) -> None:
    with ask(lsst) as mine:
        assert (mine.share.flow, mine.share.rate_bps) == ("images/base20", 939_992_000)
        assert mine.share.most_bps == 10**9
        assert [each.traffic_class for each in who_asks(lsst)] == ["images"]
    assert who_asks(lsst) == []
    told = mine.to_record()
    assert (told.flow, told.policy, told.asked) == ("images/base20", "lsst", True)
    assert told.range_bps == (939_992_000, 939_992_000)


def test_it_is_given_back_after_an_error_too(lsst: Controlled) -> None:
    with pytest.raises(KeyError), ask(lsst):
        raise KeyError
    assert who_asks(lsst) == []


def test_it_is_renewed_and_ends_by_itself_when_nobody_renews_it(
    lsst: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("howdah.control.share.REQUEST_S", 1)
    monkeypatch.setattr("howdah.control.share.RENEWED_S", 0.2)
    monkeypatch.setattr("howdah.control.share.LOOK_S", 0.1)
    killed = ask(lsst)
    with ask(lsst) as living:
        living.begin(0)
        time.sleep(1.6)
        assert len(who_asks(lsst)) == 1
        monkeypatch.setattr("howdah.control.share.RENEWED_S", 3600)
        killed.__enter__()
        assert len(who_asks(lsst)) == 2
    deadline = time.monotonic() + 10
    while who_asks(lsst):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    killed.__exit__(None, None, None)


def test_it_is_kept_while_ssh_logs_in(lsst: Controlled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howdah.control.share.REQUEST_S", 1)
    monkeypatch.setattr("howdah.control.share.RENEWED_S", 0.3)
    with ask(lsst) as mine:
        time.sleep(1.6)
        assert len(who_asks(lsst)) == 1
        before = len(mine.to_record().samples)
        mine.begin(0)
        time.sleep(1.6)
        assert len(who_asks(lsst)) == 1
        assert before == 1, "the record is of the copy alone"
        assert len(mine.to_record().samples) > before
    assert who_asks(lsst) == []


def test_where_there_is_enough_to_connect_it_is_asked_for_when_payload_comes() -> None:
    policy = FIGURE_2.replace("priority = 1", 'priority = 1\nminimum = "1Mbit"')
    with controlled(policy=policy) as here, ask(here) as mine:
        assert who_asks(here) == []
        assert mine.share.rate_bps == 500_000
        mine.begin(0.05)
        deadline = time.monotonic() + 10
        while mine.to_record().waited_s is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(who_asks(here)) == 1
        assert mine.to_record().range_bps == (939_500_000, 939_500_000)


def test_a_class_that_always_has_its_share_is_not_asked_for(lsst: Controlled) -> None:
    with ask(lsst, "background", "base23") as mine:
        assert who_asks(lsst) == []
        assert not mine.to_record().asked
        assert mine.share.rate_bps == 949_984_000


def test_a_dry_run_asks_for_nothing(lsst: Controlled) -> None:
    with ask(lsst, look_only=True) as mine:
        assert who_asks(lsst) == []
        assert mine.share.rate_bps == 8000


def test_an_agent_that_is_not_heard_of_yet_is_waited_for(
    lsst: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, looks = Here("base20", PORTS, "/", None), 0

    def find(seen: Status) -> FlowStatus:
        nonlocal looks
        looks += 1
        if looks < 3:
            seen = msgspec.structs.replace(
                seen, hosts=[msgspec.structs.replace(each, lease_left_s=0.0) for each in seen.hosts]
            )
        return own_flow(seen, "images", FAR, here)

    with ShareRequest(Client(lsst.url), "images", find) as mine:
        assert mine.share.rate_bps == 939_992_000
    assert looks == 3
    monkeypatch.setattr("howdah.control.share.FOUND_S", 0.0)
    looks = 0
    with (
        pytest.raises(HowdahError, match="no message from the agent of base20"),
        ShareRequest(Client(lsst.url), "images", find),
    ):
        pass


def test_a_controller_that_goes_while_a_copy_runs_is_told_once_and_so_is_its_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("howdah.control.share.PATIENCE_S", 0.3)
    monkeypatch.setattr("howdah.control.share.LOOK_S", 0.1)

    def told(mine: ShareRequest) -> str:
        deadline = time.monotonic() + 10
        while (said := mine.news()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return said

    with ExitStack() as ends:
        with controlled() as here:
            address = Client(here.url).address
            mine = ends.enter_context(ask(here))
            mine.begin(0)
            time.sleep(0.5)
            assert mine.news() is None
        gone = told(mine)
        assert gone.startswith(f"no controller reached at {address} (")
        assert gone.endswith("; meanwhile images/base20 may be at its minimum")
        assert mine.to_record().samples[-1].share_bps is None
        time.sleep(0.8)
        assert mine.news() is None
        with controlled(Listening(address=address.removeprefix("http://"))):
            assert told(mine) == f"the controller at {address} answers again"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_share_is_renewed_again_after_an_unforeseen_error_while_ssh_logged_in(
    lsst: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    class FailingOnce(Client):
        def ask(self, name: str, who: str, for_s: float, host: str | None = None) -> int | None:
            nonlocal asked
            asked += 1
            if asked == 2:
                raise ZeroDivisionError
            return super().ask(name, who, for_s, host)

    monkeypatch.setattr("howdah.control.share.RENEWED_S", 0.01)
    here = Here("base20", PORTS, "/", None)
    with ShareRequest(
        FailingOnce(lsst.url), "images", lambda seen: own_flow(seen, "images", FAR, here)
    ) as mine:
        wait_until(lambda: asked == 2 and not mine._thread.is_alive())
        mine.begin(0.0)
        wait_until(lambda: asked > 3)
    assert who_asks(lsst) == []


def wait_until(there: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 10
    while not there():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_what_a_share_gave() -> None:
    samples = [ShareSample(t_s=t, share_bps=60 - 10 * (t > 3), sent_bps=50 + t) for t in range(6)]
    shared = Shared(
        controller="c",
        policy="p",
        traffic_class="i",
        flow="i/h",
        asked=True,
        waited_s=0.1,
        samples=samples,
    )
    assert shared.range_bps == (50, 60)
    assert shared.sent_bps == 53.5


@settings(max_examples=50)
@given(
    sender=hosts(),
    receiver=hosts(),
    rtt_s=st.none() | st.floats(1e-4, 1.0),
    most_bps=st.integers(8000, 10**12),
    bytes_total=st.none() | st.integers(0, 2**45),
    streams=st.none() | st.integers(1, 128),
)
def test_a_plan_leaves_congestion_control_to_the_rule_and_has_buffers_that_the_hosts_give(
    *,
    sender: HostLimits,
    receiver: HostLimits,
    rtt_s: float | None,
    most_bps: int,
    bytes_total: int,
    streams: int | None,
) -> None:
    share = Share(flow="images/base20", rate_bps=most_bps // 2, most_bps=most_bps, policy="lsst")
    path = paths.Path(
        sender=sender,
        receiver=receiver,
        rtt_s=rtt_s,
        kind="guaranteed",
        bytes_total=bytes_total,
        share=share,
        streams=streams,
    )
    plan = paths.decide(path)
    assert streams in (None, plan.streams)
    assert plan.congestion_control is None
    window = sizes.windows(path)
    each = plan.buffer_bytes or window.autotuned_bytes
    assert plan.buffer_bytes is None or plan.buffer_bytes <= window.explicit_bytes
    needed = most_bps / 8 * (rtt_s or ASSUMED_RTT_S) / plan.streams
    assert each >= min(needed, max(window.explicit_bytes, window.autotuned_bytes))


def test_a_plan_needs_a_share() -> None:
    with pytest.raises(HowdahError, match="needs a class of the policy"):
        paths.decide(paths.Path(sender=HOST, receiver=HOST, kind="guaranteed"))


HOST = HostLimits.here()


@pytest.mark.parametrize(
    ("kind", "name", "names", "line"),
    [
        (
            "shared",
            "images",
            ["a", "b:"],
            "traffic_class='images' is for a guaranteed path; add path guaranteed",
        ),
        ("guaranteed", None, ["a", "b:"], "needs a class of the policy; give it, as traffic_class images"),
        ("guaranteed", "images", ["b:a", "."], "run the copy there: ssh b howdah cp"),
    ],
)
def test_copies_that_cannot_have_a_share(
    kind: PathKind, name: str | None, names: list[str], line: str
) -> None:
    request = Request(["x"], route(names, memory=False), path=kind, traffic_class=name)
    with pytest.raises(HowdahError, match=line), service(request):
        pass


def test_connections_that_are_not_held_are_found_by_their_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            control = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            assert unenforced(port) == {control.rstrip(b"\0").decode()}
            assert unenforced(port - 1) == set()
        assert unenforced(port) == set()
