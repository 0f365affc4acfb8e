"""Which flows have nothing to send: seen at looks, which may come late."""

from hypothesis import given
from hypothesis import strategies as st

from howdah.control.leases.agent import AFTER_NS, LOOK_NS, Idle
from howdah.control.leases.messages import Measured

MINIMUM_BPS = 1_000_000
LEAST_BYTES = MINIMUM_BPS * AFTER_NS // 8_000_000_000
"""That the minimum lets through until it may be idle."""


class Watched:
    """One flow, looked at every ``LOOK_NS``."""

    def __init__(self) -> None:
        self._idle = Idle()
        self._now_ns = self._sent_bytes = 0

    def look(self, sent_bytes: int = 0, waiting: int = 0, after_ns: int = LOOK_NS) -> bool:
        self._now_ns += after_ns
        self._sent_bytes += sent_bytes
        measured = {"f": Measured(self._sent_bytes, 0, 1, waiting)}
        return "f" in self._idle.look(["f"], measured, {"f": MINIMUM_BPS}, self._now_ns)


def test_who_sends_as_fast_as_its_program_gives_is_not_idle() -> None:
    flow = Watched()
    assert not any(flow.look(sent_bytes=LEAST_BYTES) for _ in range(50))


def test_who_sends_a_word_now_and_then_is() -> None:
    flow = Watched()
    looks = [flow.look(sent_bytes=LEAST_BYTES // 20) for _ in range(50)]
    assert looks[0] is False
    assert all(looks[AFTER_NS // LOOK_NS + 1 :])


def test_the_end_of_a_transfer_is_seen_in_one_span_though_much_was_sent_since_the_last_look() -> None:
    flow = Watched()
    for _ in range(20):
        assert not flow.look(sent_bytes=10**6, waiting=4)
    flow.look(sent_bytes=10**6)
    looks = [flow.look() for _ in range(AFTER_NS // LOOK_NS)]
    assert looks == [False] * (AFTER_NS // LOOK_NS - 1) + [True]


def test_data_that_waits_is_seen_at_the_next_look() -> None:
    flow = Watched()
    while not flow.look():
        pass
    assert not flow.look(waiting=1)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 3 * AFTER_NS)), min_size=1))
def test_nobody_with_data_that_waits_is_idle_however_late_looks_come(looks: list[tuple[int, int]]) -> None:
    flow = Watched()
    assert not any(flow.look(sent, waiting=1, after_ns=after_ns) for sent, after_ns in looks)


def test_of_flows_without_a_minimum_and_those_not_asked_about_nothing_is_said() -> None:
    idle = Idle()
    for now_ns in (0, 2 * AFTER_NS):
        found = idle.look(["f", "g"], dict.fromkeys("fgh", Measured(0, 0, 0)), {"f": 1, "h": 1}, now_ns)
    assert found == {"f"}
    assert idle.look([], {"f": Measured(0, 0, 0)}, {"f": 1}, 3 * AFTER_NS) == frozenset()
