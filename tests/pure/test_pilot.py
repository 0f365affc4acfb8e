"""What changes a transfer on its way."""

import io

import msgspec
import pytest
from samples import LIMITS

from howdah import HowdahError
from howdah.remote.messages import Progress, Steering
from howdah.transfer.congestion import Sender, scheduled
from howdah.transfer.pilot import Schedule
from howdah.values.outcome import Change
from howdah.values.plan import Later, Plan
from howdah.values.reason import Reason
from howdah.words.copy_progress import Lines

WHY = "the plan's schedule"


def planned(*changes: Later) -> Plan:
    return Plan(streams=4, pacing_bps=10**8, block_bytes=2**20, changes=list(changes))


def progress(elapsed_s: float, latest: Change | None = None) -> Progress:
    return Progress(
        phase="moving",
        elapsed_s=elapsed_s,
        bytes_done=1,
        scan_complete=True,
        files_done=0,
        files_skipped=0,
        bytes_skipped=0,
        streams=4,
        retransmissions=0,
        latest=latest,
    )


def test_a_change_comes_at_its_time_and_keeps_what_it_does_not_name() -> None:
    schedule = Schedule(
        planned(
            Later(at_s=1.0, congestion_control="bbr"),
            Later(at_s=2.0, streams=1),
            Later(at_s=3.0, pacing_bps=None),
            Later(at_s=3.05, congestion_control="cubic", streams=4, pacing_bps=5),
        )
    )
    steered = {at_s: schedule(progress(at_s)) for at_s in (0.95, 1.0, 1.1, 2.4, 2.9, 3.1, 3.2, 9.0)}
    assert {at_s: steering for at_s, steering in steered.items() if steering is not None} == {
        1.0: Steering(congestion_control="bbr", streams=4, pacing_bps=10**8, why=WHY),
        2.4: Steering(streams=1, pacing_bps=10**8, why=WHY),
        3.1: Steering(streams=1, pacing_bps=None, why=WHY),
        3.2: Steering(congestion_control="cubic", streams=4, pacing_bps=5, why=WHY),
    }


def test_a_plan_without_a_schedule_steers_nothing() -> None:
    assert Schedule(planned())(progress(1e9)) is None


def test_a_schedule_means_controls_as_the_sender_has_them() -> None:
    has = msgspec.structs.replace(
        LIMITS, congestion_controls_available=["cubic", "hd_htcp"], congestion_controls_allowed=["hd_htcp"]
    )
    sender = Sender(has, "dtn2")
    plan = planned(Later(at_s=1.0, congestion_control="htcp"), Later(at_s=2.0, streams=1))
    changes = scheduled(plan, sender, dry_run=False).changes
    assert [change.congestion_control for change in changes] == ["hd_htcp", msgspec.UNSET]
    for name in ("cubic", "scalable", "nosuch"):
        wrong = planned(Later(at_s=1.5, congestion_control=name))
        with pytest.raises(
            HowdahError, match=f"the plan's {name} after 1.5 s: the kernel of the sender, dtn2"
        ):
            scheduled(wrong, sender, dry_run=False)


def test_without_a_terminal_each_change_is_a_line() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    change = Change(t_s=1.23, congestion_control="bbr", streams=4, why="BBR heard")
    for elapsed_s, latest in ((1.0, None), (1.3, change), (1.4, change)):
        lines.progress(progress(elapsed_s, latest))
    assert stream.getvalue() == "howdah: After 1.23 s: bbr, 4 streams, unbounded (BBR heard)\n"


def test_a_change_before_the_first_byte_is_told_once_a_byte_has_moved() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    change = Change(t_s=0.01, congestion_control="cubic", streams=1, why=Reason.OTHERS_PRESENT.value)
    connecting = msgspec.structs.replace(progress(0.02, change), phase="connecting", bytes_done=0)
    lines.progress(connecting)
    assert not stream.getvalue()
    lines.progress(progress(0.12, change))
    assert stream.getvalue().startswith("howdah: After 0.01 s: cubic, 1 stream")


def test_bounds_that_move_again_and_again_are_said_once() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    bounds = [
        (Reason.REST, 8, None),
        (Reason.REST, 9, None),
        (Reason.PROBING_CAPACITY, 5, None),
        (Reason.REST, 9, None),
    ]
    refused = (Reason.REST, 7, "no such control")
    for number, (why, megabits, why_not) in enumerate([*bounds, refused], 1):
        change = Change(t_s=number, streams=1, pacing_bps=megabits * 10**6, why=why.value, refused=why_not)
        lines.progress(progress(float(number), change))
    said = stream.getvalue().splitlines()
    assert [line.split()[2] for line in said] == ["1.00", "3.00", "5.00"]
    assert said[-1].endswith("no such control")
