"""Careful Resume over emulated paths: how soon a path is full, and what a jump costs others."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from controls import clean_kernel, good, refused, take_all_away

from howdah import lab
from howdah.cc import programs, resume
from howdah.cc.resume import Destination, Memory, Saved
from howdah.lab import Lab

pytestmark = pytest.mark.lab

PORT = 7021
RATE_BPS, RTT_S = 1_000_000_000, 0.1
CAPACITY_BYTES = round(RATE_BPS * RTT_S / 8)
SAVED = Saved(capacity_bytes=CAPACITY_BYTES, rtt_s=RTT_S)
WIRE_SHARE = 1448 / 1538

TAKE = """
import json, socket, sys, time
port, count = int(sys.argv[1]), int(sys.argv[2])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: the window does not bound a jump
listener.bind(("", port))
listener.listen()
print("ready", flush=True)
buffer, taken, seen = bytearray(1 << 20), 0, []
connection, _ = listener.accept()
while got := connection.recv_into(buffer):
    taken += got
    seen.append((time.monotonic_ns(), taken))
print(json.dumps(seen))
"""

SEND = """
import json, socket, struct, sys, time
address, port, control, span_s = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
to = socket.socket()
to.setsockopt(socket.SOL_SOCKET, 32, 64 << 20)  # SO_SNDBUFFORCE
to.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
to.connect((address, port))
to.setblocking(False)
block, begin_ns, looks = bytes(1 << 20), time.monotonic_ns(), []
while (now_ns := time.monotonic_ns()) < begin_ns + span_s * 1e9:
    try:
        to.send(block)
    except BlockingIOError:
        time.sleep(0.001)
    info = to.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    lost, window, retransmitted = (struct.unpack_from("=I", info, at)[0] for at in (32, 80, 100))
    looks.append((now_ns, window, lost + retransmitted))
print(json.dumps(looks))
"""


@pytest.fixture(scope="module")
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


@pytest.fixture(autouse=True)
def loaded(kernel: None) -> Iterator[None]:
    programs.load("resume")
    yield
    take_all_away()


def namespace(wan: Lab) -> int:
    """Inode of the near host's."""
    stat = ["stat", "--dereference", "--format=%i", "/proc/self/ns/net"]
    return int(wan.run("near", stat, capture_output=True, text=True, check=True).stdout)


class Sent:
    """One connection: what arrived when, what its sender saw, and what came of its memory."""

    def __init__(self, taken: str, looks: str, memory: Memory | None) -> None:
        self.taken: list[tuple[int, int]] = json.loads(taken)
        self.looks: list[tuple[int, int, int]] = json.loads(looks)
        self.memory = memory

    @property
    def lost(self) -> int:
        return self.looks[-1][2]

    def full_after_s(self, rate_bps: int) -> float:
        """From the begin until the first 50 ms in which the path was nearly full."""
        begin_ns, span_ns = self.looks[0][0], 50_000_000
        wanted = 0.85 * WIRE_SHARE * rate_bps / 8 * span_ns / 1e9
        later = 0
        for now_ns, taken in self.taken:
            while self.taken[later][0] < now_ns - span_ns:
                later += 1
            if now_ns - begin_ns > span_ns and taken - self.taken[later][1] >= wanted:
                return (now_ns - begin_ns) / 1e9
        return float("inf")


def take(wan: Lab, port: int) -> "subprocess.Popen[str]":
    taking = wan.popen("far", [sys.executable, "-c", TAKE, str(port), "1"], stdout=subprocess.PIPE, text=True)
    assert taking.stdout is not None
    assert taking.stdout.readline() == "ready\n"
    return taking


def send(wan: Lab, control: str, span_s: float, port: int) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", SEND, wan.far_address, str(port), control, str(span_s)]
    return wan.popen("near", argv, stdout=subprocess.PIPE, text=True)


def sent(wan: Lab, control: str, span_s: float, port: int = PORT) -> Sent:
    """A connection that sends as much as it may for a time; with a memory under hd_resume."""
    destination = Destination(wan.far_address, port, namespace(wan))
    if control == "hd_resume":
        resume.remember(destination, SAVED)
    with take(wan, port) as taking, send(wan, control, span_s, port) as sending:
        looks, _ = sending.communicate(timeout=60)
        taken, _ = taking.communicate(timeout=60)
    return Sent(taken, looks, resume.forget(destination) if control == "hd_resume" else None)


def over(rate_bps: int, control: str, span_s: float, queue_bytes: int | None = None) -> Sent:
    with lab.started(lab.symmetric(rate_bps, round(RTT_S * 1e9), queue_bytes=queue_bytes)) as wan:
        return sent(wan, control, span_s)


def test_a_second_connection_fills_the_path_in_half_the_time() -> None:
    first, second = over(RATE_BPS, "cubic", 1.6), over(RATE_BPS, "hd_resume", 0.9)
    assert second.memory is not None
    assert (second.memory.jumps, second.memory.validated) == (1, 1)
    assert first.full_after_s(RATE_BPS) > 2 * second.full_after_s(RATE_BPS)


def test_on_a_path_that_has_halved_it_retreats_within_a_round_trip_of_the_first_loss() -> None:
    queue_bytes = CAPACITY_BYTES // 16
    done = over(RATE_BPS // 2, "hd_resume", 1.2, queue_bytes)
    assert done.memory is not None
    assert (done.memory.jumps, done.memory.retreats, done.memory.validated) == (1, 1, 0)
    windows = [window for _, window, _ in done.looks]
    jumped = max(windows)
    lost_ns = next(now_ns for now_ns, _, lost in done.looks if lost)
    fallen_ns = next(
        now_ns for now_ns, window, _ in done.looks if now_ns >= lost_ns and window <= jumped * 0.6
    )
    assert fallen_ns - lost_ns <= RTT_S * 1e9


def beside(control: str) -> tuple[Sent, Sent]:
    """A connection beside an older one under CUBIC, on a path that has halved: the older and the newer."""
    half_bps = RATE_BPS // 2
    with (
        lab.started(lab.symmetric(half_bps, round(RTT_S * 1e9), queue_bytes=CAPACITY_BYTES // 2)) as wan,
        take(wan, PORT + 1) as taking,
        send(wan, "cubic", 5.0, PORT + 1) as older,
        ThreadPoolExecutor(2) as pool,
    ):
        looks = pool.submit(older.communicate, timeout=60)
        taken = pool.submit(taking.communicate, timeout=60)
        time.sleep(2.5)
        newer = sent(wan, control, 2.0)
        return Sent(taken.result()[0], looks.result()[0], None), newer


def test_beside_a_neighbour_it_costs_no_more_than_slow_start() -> None:
    with ThreadPoolExecutor(2) as pool:
        (plain, _), (resumed, newer) = pool.map(beside, ("cubic", "hd_resume"))
    assert newer.memory is not None
    # The neighbour's queue stands on the path, which the round trips of the first window show.
    assert newer.memory.jumps == 0
    assert resumed.lost <= 1.25 * plain.lost + 50


def test_a_memory_is_set_and_taken_away_on_the_command_line() -> None:
    where = ("--to", "192.0.2.0/24", "--port", "5201")
    set_ = good(
        "set", "resume", *where, "--rate", "1Gbit", "--rtt", "100ms", "--streams", "4", "--for", "10min"
    )
    assert set_["saved"] == {
        "capacity_bytes": CAPACITY_BYTES,
        "rtt_s": RTT_S,
        "streams": 4,
        "jump_part": None,
        "valid_s": 600.0,
        "then": "cubic",
    }
    (known,) = good("status")["memories"]
    assert (known["to"], known["port"]) == ("192.0.2.0/24", 5201)
    assert good("set", "resume", *where, "--none")["jumps"] == 0
    assert "nothing is remembered of --to 192.0.2.0/24 --port 5201" in refused(
        "set", "resume", *where, "--none"
    )
    for words, says in (
        ("set resume --rate 1Gbit --rtt 1ms", "of which destination: --to"),
        ("set resume --to 192.0.2.0/24 --rate 1Gbit", "--rate RATE and --rtt TIME"),
        ("set resume --to 192.0.2.0/24 --rate 1Gbit --rtt 1ms --window 3", "takes no --window"),
        ("set resume --to 192.0.2.0/24 --rate 1Gbit --rtt 1ms --then vegas", "not in this kernel"),
        ("set hold --rate 1Gbit --to 192.0.2.0/24", "hold takes no --to"),
    ):
        assert says in refused(*words.split())
