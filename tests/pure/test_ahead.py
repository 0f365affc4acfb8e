"""What is made ahead of the next copy, and which copies begin on it."""

import msgspec
import pytest
from samples import LIMITS, run

from howdah.remote.endpoints import route
from howdah.remote.messages import FarHello
from howdah.remote.standby import AHEAD_MAX, NONE_AHEAD, Ahead
from howdah.transfer import ends
from howdah.transfer.request import Request
from howdah.transfer.service import Underway
from howdah.values.limit import Limits
from howdah.values.memory import PastCopy, PathMemory, recall
from howdah.values.path import Path
from howdah.values.plan import Plan
from howdah.values.record import Swept

PUSH, PULL = (
    Request([], route(["run42", "dtn2:"], memory=False)),
    Request([], route(["dtn2:x", "."], memory=False)),
)
PLAN = Plan(streams=8, congestion_control="cubic", block_bytes=2**20)
HELLO = FarHello(version="1", limits=LIMITS, addresses=["192.0.2.7"], port=5000)


def after(
    request: Request = PUSH,
    plan: Plan = PLAN,
    rtt_s: float | None = 0.1,
    memory: PathMemory | None = None,
    **changed: object,
) -> Ahead:
    known = Path(sender=LIMITS, receiver=LIMITS, rtt_s=rtt_s, host="dtn2", memory=memory)
    made = run().outcome
    assert made is not None
    outcome = msgspec.structs.replace(made, **changed)
    return ends.ahead_after(request, Underway(plan, known, HELLO, "dtn2"), outcome)


def test_a_connection_is_made_for_each_stream_and_filled_where_a_round_trip_carries_much_more() -> None:
    assert after() == Ahead(8, fill=True)
    # 8 × 8 windows of 14,480 bytes, in a round trip.
    limit_s = 8 * 8 * 14_480 * 8 / 1e9
    assert after(rtt_s=limit_s * 1.01).fill
    assert not after(rtt_s=limit_s * 0.99).fill
    assert after(plan=msgspec.structs.replace(PLAN, streams=200)).count == AHEAD_MAX
    assert after(PUSH._replace(limits=Limits())) == Ahead(8, fill=False)
    assert after(PULL) == after(rtt_s=None) == after(moving_s=None) == Ahead(8, fill=False)


def test_a_small_copy_shows_little_of_a_path_that_is_remembered() -> None:
    small = {"bytes": 2**20, "moving_s": 0.3}
    assert not after(**small).fill
    for rtt_s, fill in ((0.1, True), (0.3, False)):
        memory = recall("dtn2", "push", [PastCopy(60.0, rtt_s, 9e9, True, None, "192.0.2.7")], 0.1, None)
        assert after(memory=memory, **small).fill == fill


@pytest.mark.parametrize("detour", ["through_ssh", "by_far_end", "other_address"])
def test_nothing_is_made_where_the_data_port_was_not_reached(detour: str) -> None:
    assert after(**{detour: "no answer"}) == NONE_AHEAD


@pytest.mark.parametrize(
    "request_",
    [
        PUSH._replace(encrypt=False),
        PUSH._replace(path="guaranteed"),
        PUSH._replace(sweep=Swept(id="x 1", name="x", cell="any", repeat=0)),
        PUSH._replace(dry_run=True),
        Request([], route(["dtn1:x", "dtn2:"], memory=False)),
    ],
)
def test_copies_that_begin_anew_leave_nothing_for_the_next(request_: Request) -> None:
    assert after(request_) == NONE_AHEAD
    assert ends.begins_ahead(request_) == request_.dry_run
    assert ends.begins_ahead(PUSH)
    assert ends.begins_ahead(PULL)
