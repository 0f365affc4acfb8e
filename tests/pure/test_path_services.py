"""What a copy does by the kind of its path: one service a kind, found by its name and loaded for it alone."""

import contextlib
import subprocess
import sys
from importlib import import_module
from pathlib import Path as FilePath
from typing import get_args

import msgspec
import pytest
from samples import run as ran

from howdah import HowdahError
from howdah.decide import decide
from howdah.remote.endpoints import route
from howdah.remote.messages import FarHello, Progress, Steering
from howdah.steering import sources
from howdah.transfer import guaranteed, run
from howdah.transfer.ends import Greeted
from howdah.transfer.planning import path_of, plan_only
from howdah.transfer.request import FAIRNESS, Given, Request
from howdah.transfer.service import Service, Underway, service
from howdah.values.path import Path, Share
from howdah.values.plan import PathKind, Plan
from howdah.values.record import HostLimits, Shared

HOST = HostLimits.here()
FAR = FarHello(version="1", limits=HOST, addresses=["127.0.0.1"], port=7, rtt_s=0.02)
PATH = Path(sender=HOST, receiver=HOST, rtt_s=0.02)
PLAN = Plan(streams=4, block_bytes=2**20)
UNDERWAY = Underway(PLAN, PATH, FAR, "127.0.0.1")
NOW = Progress(
    phase="moving",
    elapsed_s=1.0,
    bytes_done=1,
    scan_complete=True,
    files_done=0,
    files_skipped=0,
    bytes_skipped=0,
    streams=4,
    retransmissions=0,
)
STEERING = Steering(streams=1, why="a test's")


def request(kind: PathKind, *, dry_run: bool = False, fairness: float | None = None) -> Request:
    name = "images" if kind == "guaranteed" else None
    places = route(["far:"], memory=True)
    return Request([], places, path=kind, traffic_class=name, dry_run=dry_run, fairness=fairness)


def otherwise(now: Progress) -> Steering:
    return STEERING


def test_the_flow_of_a_copy_knows_no_kind() -> None:
    flow = FilePath(run.__file__).read_text(encoding="utf-8")
    assert [kind for kind in get_args(PathKind) if f'"{kind}"' in flow] == []


@pytest.mark.parametrize("kind", get_args(PathKind))
def test_each_kind_has_a_service_and_a_decider(kind: PathKind) -> None:
    made = service(request(kind))
    assert isinstance(made, Service)
    assert type(made).__module__ == f"howdah.transfer.{kind}"
    assert callable(import_module(f"howdah.decide.{kind}").decide)
    record = ran()
    assert made.record(record) == record, "nothing was done yet"


@pytest.mark.parametrize(
    ("kind", "fairness", "unneeded"),
    [
        ("shared", None, {"howdah.steering", "howdah.control", "howdah.decide.dedicated", "numpy"}),
        ("shared", 0.5, {"howdah.control", "howdah.decide.dedicated", "numpy"}),
        ("dedicated", None, {"howdah.steering", "howdah.control", "howdah.decide.dedicated", "numpy"}),
        ("guaranteed", None, {"howdah.steering", "howdah.decide.dedicated", "numpy"}),
    ],
)
def test_while_ssh_connects_no_kind_loads_what_it_does_not_need(
    kind: str, fairness: float | None, unneeded: set[str]
) -> None:
    code = (
        "import sys\nfrom howdah.remote.endpoints import route\n"
        "from howdah.transfer.request import Request\nfrom howdah.transfer.service import service\n"
        f"asked = Request([], route(['far:'], memory=True), path={kind!r}, fairness={fairness})\n"
        "service(asked).prepare('no-such-host.invalid')\n"
        f"assert not {unneeded} & set(sys.modules), {unneeded} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["shared", "dedicated"])
def test_without_listening_the_pilot_stays(kind: PathKind) -> None:
    with service(request(kind)) as made:
        assert made.pilot(UNDERWAY, otherwise) is otherwise


@pytest.mark.parametrize("plan", [Plan(path="dedicated", streams=1, block_bytes=2**20), PLAN])
def test_a_copy_listens_where_its_plan_is_for_a_shared_path(plan: Plan) -> None:
    with service(request("shared", fairness=FAIRNESS)) as made:
        pilot = made.pilot(UNDERWAY._replace(plan=plan), otherwise)
        assert (pilot is otherwise) == (plan.path != "shared")
        assert (made.record(ran()).listened is None) == (plan.path != "shared")


@pytest.mark.parametrize(
    ("data_address", "told", "asked"),
    [
        ("192.0.2.7", ["203.0.113.9"], ["192.0.2.7"]),
        (None, ["10.0.0.5", "2001:db8::5"], ["10.0.0.5", "2001:db8::5"]),
        (None, ["127.0.0.1", "localhost", "224.0.0.1", "fe80::1"], []),
    ],
)
def test_echo_goes_where_ssh_leads_whatever_the_far_end_tells(
    monkeypatch: pytest.MonkeyPatch, data_address: str | None, told: list[str], asked: list[str]
) -> None:
    names: list[list[str]] = []

    def best_source(given: list[str]) -> tuple[sources.RttSource, None]:
        names.append(given)
        return Echo([]), None

    monkeypatch.setattr("howdah.steering.listening.best_source", best_source)
    far = msgspec.structs.replace(FAR, addresses=told)
    with service(request("shared", fairness=FAIRNESS)) as made:
        pilot = made.pilot(UNDERWAY._replace(far=far, data_address=data_address), otherwise)
        pilot(NOW)
    assert names == [asked]


@pytest.mark.parametrize(
    ("other_address", "address"),
    [
        ("[fd77::2]:43211 (10.77.0.2:43211: no answer)", "fd77::2"),
        ("10.77.0.2:43211 ([fd77::2]:43211: Connection refused)", "10.77.0.2"),
    ],
)
def test_echo_goes_to_the_other_address_where_the_streams_go_there(
    monkeypatch: pytest.MonkeyPatch, other_address: str, address: str
) -> None:
    names: list[list[str]] = []
    first = Echo([0.02])

    def best_source(given: list[str]) -> tuple[sources.RttSource, None]:
        names.append(given)
        return (first if len(names) == 1 else Echo([])), None

    monkeypatch.setattr("howdah.steering.listening.best_source", best_source)
    with service(request("shared", fairness=FAIRNESS)) as made:
        pilot = made.pilot(UNDERWAY, otherwise)
        there = msgspec.structs.replace(NOW, other_address=other_address)
        for now in (msgspec.structs.replace(NOW, phase="connecting"), there, there):
            pilot(now)
    assert names == [["127.0.0.1"], [address]]
    assert first.closed


class Echo:
    """Round trips that were measured while ssh connected, given once."""

    by: sources.By = "icmp"
    step_s = 0.01
    begun_s = 0.0

    def __init__(self, rtts_s: list[float]) -> None:
        self.closed = False
        self.left = [sources.RttSample(-1.0 + 0.01 * at, rtt_s) for at, rtt_s in enumerate(rtts_s)]

    def take(self, now_s: float, rtt_s: float | None) -> list[sources.RttSample]:
        given, self.left = self.left, []
        return given

    def why_silent(self) -> str | None:
        return None

    def close(self) -> None:
        self.left, self.closed = [], True


@pytest.mark.parametrize(("queue_s", "there"), [(0.0, False), (0.03, True)])
def test_round_trips_while_ssh_connects_say_who_is_there_and_are_not_lost(
    monkeypatch: pytest.MonkeyPatch, queue_s: float, there: bool
) -> None:
    source = Echo([0.02 + queue_s * (at % 7) / 7 for at in range(40)])
    monkeypatch.setattr(sources, "best_source", lambda names: (source, None))
    with service(request("shared", fairness=FAIRNESS)) as made:
        assert not made.others_present(PATH), "nothing was measured yet"
        made.prepare("192.0.2.7")
        assert made.others_present(PATH) is there
        assert made.others_present(PATH) is there, "what was taken is kept"
        # The pilot has them too: beside others it begins with few streams.
        steering = made.pilot(UNDERWAY, otherwise)(msgspec.structs.replace(NOW, phase="connecting"))
        assert (steering is not None) is there


class Having(contextlib.AbstractContextManager["Having"]):
    """A share that is there, and what was done with it."""

    share = Share(flow="images/base20", rate_bps=10**8, most_bps=10**9, policy="lsst")

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.given_back = False

    def __exit__(self, *_: object) -> None:
        self.given_back = True

    def begin(self, payload_s: float) -> None:
        self.begun.append(payload_s)

    def to_record(self) -> Shared:
        return Shared(
            controller="c", policy="lsst", traffic_class="images", flow="f", asked=True, waited_s=None
        )


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> Having:
    made = Having()
    monkeypatch.setattr(guaranteed, "share_of", lambda *_, **__: made)
    return made


def test_a_share_is_asked_for_planned_for_told_and_given_back(share: Having) -> None:
    with service(request("guaranteed")) as made:
        plan = made.plan(Path(sender=HOST, receiver=HOST, rtt_s=0.02, kind="guaranteed"))
        assert (plan.path, plan.congestion_control) == ("guaranteed", None)
        assert share.begun == []
        pilot = made.pilot(UNDERWAY._replace(plan=plan), otherwise)
        assert share.begun == [pytest.approx(0.02)], "after the handshake of TCP"
        assert pilot(NOW) is STEERING
        assert not share.given_back
    assert share.given_back
    assert made.record(ran()).share == share.to_record()


def test_the_streams_that_a_request_gives_are_known_before_buffers_are_chosen() -> None:
    copies = request("shared")._replace(memory_bytes=2**30)
    asked = copies._replace(given=(Given("streams", 1, "--streams", "Streams: 1"),))
    assert [plan_only(each, FAR).streams for each in (copies, asked)] == [8, 1]
    path = path_of(asked, Greeted(FAR))
    assert path.streams == 1
    assert plan_only(asked, FAR).buffer_bytes == decide(path).buffer_bytes


def test_streams_that_nothing_holds_end_the_copy(share: Having, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(request("guaranteed", dry_run=True)) as made:
        pilot = made.pilot(UNDERWAY, otherwise)
        assert share.begun == [], "a dry run asks for nothing"
        monkeypatch.setattr(guaranteed, "unenforced", lambda port: {"cubic"} if port == FAR.port else set())
        with pytest.raises(HowdahError, match="under cubic and not held to a share"):
            pilot(NOW)
    assert share.given_back
