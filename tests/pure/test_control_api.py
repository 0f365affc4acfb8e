"""The control API over real HTTP: every path does what it says, and refuses what it must."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import msgspec
import pytest
from controlled import WAIT_S, Controlled, controlled

from howdah import HowdahError
from howdah.control.http.application import BODY_MAX_BYTES
from howdah.control.http.client import Client
from howdah.control.status import Status


@pytest.fixture(scope="module")
def path() -> Iterator[Controlled]:
    with controlled() as here:
        yield here


@pytest.fixture
def client(path: Controlled) -> Iterator[Client]:
    """Of a path on which nothing is ordered."""
    client = Client(path.url)
    yield client
    status = client.status()
    for each in status.asked:
        client.release(each.traffic_class, each.who)
    for name in status.changed:
        client.restore(name)
    for host in status.hosts:
        if host.drained:
            client.undrain(host.name)


def until(client: Client, holds: Callable[[Status], bool]) -> Status:
    """The first status for which that holds, of those a watcher gets."""
    ends = time.monotonic() + WAIT_S
    for status in client.watch():
        if holds(status):
            return status
        assert time.monotonic() < ends, status
    raise AssertionError


def shares(status: Status) -> dict[str, int | None]:
    return {each.flow: each.share_bps for each in status.flows}


def send(
    path: Controlled, method: str, target: str, body: bytes | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """What comes back for exactly this; ``_`` in the name of a header is a dash."""
    url = urlsplit(path.url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=WAIT_S)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, target, body, named)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer, said


def error(said: bytes) -> str:
    """The one line of a refusal."""
    (key, line), *others = msgspec.json.decode(said).items()
    assert key == "error"
    assert not others
    assert "\n" not in line
    return str(line)


def test_a_class_asked_for_gets_its_share_and_gives_it_back(client: Client) -> None:
    before = shares(client.status())
    assert before["background/base23"] == pytest.approx(950e6, rel=0.001)

    revision = client.ask("images", "camera", 60)
    assert revision is not None
    status = until(client, lambda status: status.settled and status.revision >= revision)
    assert shares(status)["images/base20"] == shares(status)["images/base21"] == 470_000_000
    assert shares(status)["background/base23"] == 10_000_000
    (asked,) = status.asked
    assert (asked.traffic_class, asked.who) == ("images", "camera")
    assert asked.until_unix_s == pytest.approx(status.unix_s + 60, abs=5)

    released = client.release("images", "camera")
    assert released is not None
    status = until(client, lambda status: status.settled and status.revision >= released)
    assert not status.asked
    assert shares(status) == before
    assert client.release("images", "camera") is None, "there is nothing to wait for"


def test_of_two_hosts_the_one_that_is_not_done_has_the_part_of_both(client: Client) -> None:
    client.ask("images", "night-20", host="base20")
    revision = client.ask("images", "night-21", host="base21") or 0
    status = until(client, lambda status: status.settled and status.revision >= revision)
    assert shares(status)["images/base20"] == shares(status)["images/base21"] == 470_000_000
    assert {each.host for each in status.asked} == {"base20", "base21"}
    client.release("images", "night-20")
    status = until(client, lambda status: status.settled and len(status.asked) == 1)
    left = {flow.flow: flow.minimum_bps for flow in status.flows}["images/base20"]
    assert shares(status)["images/base20"] == left
    assert shares(status)["images/base21"] == 940_000_000 - left
    assert shares(status)["background/base23"] == 10_000_000
    client.release("images", "night-21")
    until(client, lambda status: status.settled and not status.asked)


def test_the_status_says_what_can_be_asked_for(client: Client) -> None:
    assert client.status().askable == ["images"]


def test_a_class_is_asked_for_until_it_is_released(client: Client) -> None:
    client.ask("images", "camera")
    (asked,) = until(client, lambda status: bool(status.asked)).asked
    assert asked.until_unix_s is None


def test_terms_are_changed_and_restored(client: Client) -> None:
    revision = client.change("background", {"maximum": "10%"})
    status = until(client, lambda status: status.settled and status.revision >= (revision or 0))
    assert status.changed == {"background": {"maximum": "10%"}}
    assert shares(status)["background/base23"] == 100_000_000
    restored = client.restore("background")
    assert restored is not None
    assert not until(client, lambda status: status.settled and status.revision >= restored).changed


def test_a_host_is_drained_and_undrained(client: Client) -> None:
    revision = client.drain("base23")
    status = until(client, lambda status: status.settled and status.revision >= (revision or 0))
    assert [host.name for host in status.hosts if host.drained] == ["base23"]
    assert shares(status)["background/base23"] == 10_000_000
    undrained = client.undrain("base23")
    assert undrained is not None
    status = until(client, lambda status: status.settled and status.revision >= undrained)
    assert not any(host.drained for host in status.hosts)


def test_what_is_sent_is_told(client: Client) -> None:
    def as_allowed(status: Status) -> bool:
        return all(each.sent_bps == pytest.approx(each.share_bps, rel=0.02) for each in status.flows)

    status = until(client, as_allowed)
    assert all(each.acked_bps == pytest.approx(each.share_bps / 2, rel=0.02) for each in status.flows)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda client: client.ask("pictures", "me"),
            "lsst has no class pictures; it has background, images, replication",
        ),
        (lambda client: client.ask("background", "me"), "class background of lsst is always active"),
        (lambda client: client.ask("images", "you and me"), "who asks for images"),
        (lambda client: client.ask("images", "me", 10**9), "images for 1000000000 s: give 1 s to"),
        (lambda client: client.change("background", {}), "nothing to change for background"),
        (lambda client: client.change("background", {"minimum": "99%"}), "all minimums"),
        (
            lambda client: client.change("background", {"wait": 1}),
            "the body: unknown key wait; known are fixed, minimum",
        ),
        (lambda client: client.restore("nothing"), "lsst has no class nothing"),
        (
            lambda client: client.drain("base29"),
            "lsst has no host base29; it has base20, base21, base22, base23",
        ),
        (lambda client: client.undrain("base29"), "lsst has no host base29"),
    ],
)
def test_a_refusal_is_one_plain_line(client: Client, call: Callable[[Client], None], line: str) -> None:
    before = shares(client.status())
    with pytest.raises(HowdahError) as caught:
        call(client)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert shares(client.status()) == before


@pytest.mark.parametrize(
    ("method", "target", "body", "code", "line"),
    [
        (
            "PUT",
            "/v1/asked/images/me",
            b'{"for_s": "x"}',
            400,
            "the body: for_s: expected a whole number, got a",
        ),
        (
            "PUT",
            "/v1/asked/images/me",
            b'{"for_s": 0}',
            400,
            "the body: for_s: expected a whole number >= 1; see",
        ),
        (
            "PUT",
            "/v1/asked/images/me",
            b'{"fors": 1}',
            400,
            "the body: unknown key fors; known are for_s, host; see /",
        ),
        ("PUT", "/v1/asked/images/me", b'{"for_s": 1', 400, "the body is not JSON"),
        ("PUT", "/v1/asked/images/me", b"[]", 400, "the body: expected a table, got a list; see /openapi"),
        ("PUT", "/v1/asked/images/me", b"null", 400, "the body: expected a table, got null; see /openapi"),
        (
            "PUT",
            "/v1/classes/background",
            b'{"weight": 2.5',
            400,
            "the body: weight: expected a whole number",
        ),
        (
            "PUT",
            "/v1/classes/background",
            b'{"weight": 2.5}',
            400,
            "the body: weight: expected a whole number, got 2.5; see /openapi.json",
        ),
        ("PUT", "/v1/asked/images/me", b'{"\xff": 1}', 400, "the body is not JSON"),
        ("PUT", "/v1/asked/images/me", b" " * (BODY_MAX_BYTES + 1), 413, f"more than {BODY_MAX_BYTES} bytes"),
        ("PUT", "/v1/asked/pictures/me", b"{}", 404, "no class pictures"),
        ("PUT", "/v1/asked/background/me", b"{}", 422, "always active"),
        ("PUT", "/v1/classes/background", b'{"weight": 0}', 400, "weight: expected a whole number >= 1"),
        ("PUT", "/v1/classes/background", b'{"minimum": "much"}', 422, "class.background: minimum"),
        ("DELETE", "/v1/drained/base29", None, 404, "no host base29"),
        ("GET", "/v1/nothing", None, 404, "there is no such path"),
        ("PUT", "/v1/asked/images", b"{}", 404, "there is no such path"),
        ("POST", "/v1/status", b"{}", 405, "POST is not for this path"),
        ("OPTIONS", "/v1/drained/base23", None, 405, "OPTIONS is not for this path"),
    ],
)
def test_a_wrong_request_has_the_right_code(
    path: Controlled, *, method: str, target: str, body: bytes | None, code: int, line: str
) -> None:
    answer, said = send(path, method, target, body, Howdah_Client="test")
    assert (answer.status, line in error(said)) == (code, True), said
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Access-Control-Allow-Origin"] is None


def test_a_mistake_of_ours_is_said_and_ends_nothing(
    client: Client, path: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("howdah.control.running.operations.Operations.status", lambda self: 1 / 0)
        answer, said = send(path, "GET", "/v1/status")
        assert answer.status == 500
        assert "a bug in howdah, ZeroDivisionError" in error(said)
    assert client.status().policy == "lsst"


def test_an_order_without_a_body_has_no_keys(client: Client, path: Controlled) -> None:
    answer, said = send(path, "PUT", "/v1/asked/images/me", Howdah_Client="test")
    assert answer.status == 200
    assert msgspec.json.decode(said).keys() == {"revision"}


def test_watchers_hear_every_second_and_ten_times_at_most(client: Client) -> None:
    watched = client.watch()
    next(watched)
    begin = time.monotonic()
    stop = threading.Event()

    def stir() -> None:
        while not stop.is_set():
            client.ask("images", "stirrer", 60)

    stirring = threading.Thread(target=stir)
    stirring.start()
    try:
        for _ in range(10):
            next(watched)
        assert time.monotonic() - begin > 0.8
    finally:
        stop.set()
        stirring.join()
    client.release("images", "stirrer")
    until(client, lambda status: status.settled)
    for _ in range(3):
        begin = time.monotonic()
        next(watched)
        assert time.monotonic() - begin < 3


def await_watchers(path: Controlled, count: int) -> None:
    ends = time.monotonic() + WAIT_S
    while b"\nhowdah_control_watchers %d.0\n" % count not in send(path, "GET", "/metrics")[1]:
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_watcher_who_leaves_is_counted_out(client: Client, path: Controlled) -> None:
    await_watchers(path, 0)
    watched = client.watch()
    next(watched)
    await_watchers(path, 1)
    watched.close()
    await_watchers(path, 0)


def test_watchers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howdah.control.http.application.WATCHERS_MAX", 2)
    with controlled() as here:
        client = Client(here.url)
        watched = [client.watch() for _ in range(2)]
        for each in watched:
            next(each)
        with pytest.raises(HowdahError, match="2 watch already"):
            next(client.watch())
        assert client.status().policy == "lsst"
        for each in watched:
            each.close()


def test_the_end_of_a_controller_ends_what_is_watched() -> None:
    with controlled() as here:
        watched = Client(here.url).watch()
        next(watched)
        begin = time.monotonic()
    assert time.monotonic() - begin < 3
    with pytest.raises(HowdahError, match=r"has ended|no controller reached"):
        for _ in watched:
            pass


def test_a_slash_or_a_question_mark_in_a_name_stays_in_it(client: Client) -> None:
    for name in ("a/b", "a?b", "a%2Fb", "..", "ü"):
        with pytest.raises(HowdahError, match=r"no class|no such path"):
            client.ask(name, "me")
