"""The line of the summary that compares what was predicted with what was measured."""

from pathlib import Path

import msgspec
import pytest
from samples import record

from howdah.values.outcome import Change, Outcome, Sample
from howdah.values.plan import Plan, Prediction, Why
from howdah.values.record import Record
from howdah.words.copy import details, summary
from howdah.words.expected import comparison

PREDICTED = Prediction(rate_low_bps=8.1e9, rate_mid_bps=8.7e9, rate_high_bps=9.2e9, duration_s=10)


def sample(limited: str) -> Sample:
    return msgspec.convert(
        {
            "t_s": 0.1,
            "stream": 0,
            "bytes_acked": 1,
            "cwnd": 10,
            "rtt_s": 0.1,
            "min_rtt_s": 0.1,
            "retransmissions": 0,
            "delivery_rate_bps": 1e9,
            "notsent_bytes": 0,
            "limited": limited,
        },
        Sample,
    )


def copied(
    rate_bps: float,
    *,
    moving_s: float = 8.0,
    files: int = 0,
    limited: tuple[str, ...] = (),
    predicted: Prediction | None = PREDICTED,
    path: str = "dedicated",
) -> Record:
    plan = Plan(path=path, streams=1, block_bytes=2**20, why=Why(prediction=predicted))  # type: ignore[arg-type]
    outcome = Outcome(
        direction="push",
        bytes=int(rate_bps * moving_s / 8),
        files=files,
        folders=0,
        links=0,
        files_skipped=0,
        bytes_skipped=0,
        elapsed_s=moving_s + 1,
        setup_s=1.0,
        moving_s=moving_s,
        encrypted=True,
        samples=[sample(each) for each in limited],
    )
    return msgspec.structs.replace(record(), plan=plan, outcome=outcome)


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (copied(8.7e9), "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 8.70 Gb/s"),
        (copied(8.7e9, moving_s=1), "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 8.70 Gb/s"),
        (copied(7e9), "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 7.00 Gb/s: less than predicted"),
        (copied(9.5e9), "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 9.50 Gb/s: more than predicted"),
        (
            copied(9.5e9, moving_s=100),
            "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 9.50 Gb/s; not comparable: "
            "it took 1 min 40 s and the runs behind the prediction 10.0 s",
        ),
        (
            copied(7e9, moving_s=100),
            "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 7.00 Gb/s: less than predicted",
        ),
        (
            copied(3e9, moving_s=1.2),
            "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 3.00 Gb/s; not comparable: "
            "it took 1.20 s and the runs behind the prediction 10.0 s",
        ),
        (
            copied(3e9, moving_s=1.2, files=1, limited=("cwnd",) * 7 + ("app",) * 3),
            "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 3.00 Gb/s; not comparable: "
            "it took 1.20 s and the runs behind the prediction 10.0 s and "
            "the sender's disk or CPU limited it in 30% of the samples",
        ),
        (
            copied(3e9, files=1, limited=("rwnd", "cwnd")),
            "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 3.00 Gb/s; not comparable: "
            "the receiver's disk, CPU or buffer limited it in 50% of the samples",
        ),
        (
            copied(3e9, limited=("rwnd", "rwnd")),
            "Predicted 8.10 Gb/s to 9.20 Gb/s, measured 3.00 Gb/s: less than predicted",
        ),
        (copied(8.7e9, predicted=None), "Not predicted: options changed the plan"),
        (copied(8.7e9, predicted=None, path="shared"), None),
        (copied(0), None),
        (record(), None),
    ],
)
def test_what_is_said(made: Record, line: str | None) -> None:
    assert comparison(made) == line
    if made.plan is not None and line is not None:
        assert line in summary(made, None).splitlines()
        assert line in details(made, Path(__file__))


@pytest.mark.parametrize("refused", [None, "no such control"])
def test_a_run_that_was_changed_on_its_way_is_not_compared(refused: str | None) -> None:
    made = copied(9e9)
    change = Change(t_s=1.0, congestion_control="bbr", streams=1, why="", refused=refused)
    changed = msgspec.structs.replace(made.outcome, changes=[change])
    line = comparison(msgspec.structs.replace(made, outcome=changed))
    assert line is not None
    assert ("changed on the way" in line) is (refused is None)
