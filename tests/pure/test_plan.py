from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.values import plan
from howdah.values.plan import Alternative, Evidence, Later, Plan, Prediction, Why

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WHYS = st.builds(
    Why,
    summary=st.lists(st.text(), max_size=3),
    evidence=st.lists(
        st.builds(
            Evidence,
            name=st.text(),
            value=st.none() | NUMBERS | st.text(),
            unit=st.sampled_from([None, "s", "segments"]),
            source=st.text(),
        ),
        max_size=3,
    ),
    prediction=st.none()
    | st.builds(
        Prediction,
        rate_low_bps=st.floats(1, 1e12),
        rate_mid_bps=st.floats(1, 1e12),
        rate_high_bps=st.floats(1, 1e12),
    ),
    alternatives=st.lists(st.builds(Alternative, what=st.text(), why_not=st.text()), max_size=2),
)
LATER = st.builds(
    Later,
    at_s=st.floats(0.1, 1e5),
    congestion_control=st.sampled_from(["cubic", "bbr"]),
    streams=st.sampled_from([msgspec.UNSET, 1]),
    pacing_bps=st.sampled_from([msgspec.UNSET, None, 10**9]),
)
PLANS = st.builds(
    Plan,
    path=st.sampled_from(["shared", "dedicated", "guaranteed"]),
    congestion_control=st.none() | st.sampled_from(["cubic", "bbr"]),
    streams=st.integers(1, plan.STREAMS_MAX),
    buffer_bytes=st.none() | st.integers(4096, 2**31 - 1),
    pacing_bps=st.none() | st.integers(1, 10**12),
    block_bytes=st.integers(plan.BLOCK_BYTES_MIN, plan.BLOCK_BYTES_MAX),
    changes=st.lists(LATER, max_size=3, unique_by=lambda each: each.at_s).map(
        lambda each: sorted(each, key=lambda change: change.at_s)
    ),
    encrypt=st.booleans(),
    why=WHYS,
)
SMALL = Plan(streams=8, congestion_control="cubic", block_bytes=2**20)


@given(PLANS)
def test_round_trip(each: Plan) -> None:
    assert plan.loads(msgspec.json.encode(each), "-") == each


@given(PLANS)
def test_words_hold_every_reason(each: Plan) -> None:
    words = each.in_words()
    for sentence in each.why.summary:
        assert sentence in words
    for lost in each.why.alternatives:
        assert lost.why_not in words


def test_a_file_hands_its_plan_back(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(SMALL))
    assert plan.load(tmp_path / "p.json") == SMALL


def test_a_record_hands_its_plan_back() -> None:
    record = msgspec.json.encode({"schema": 1, "id": "x", "plan": SMALL})
    assert plan.loads(record, "r.json") == SMALL


def later(changes: bytes) -> bytes:
    return b'{"schema":1,"streams":8,"block_bytes":1048576,"changes":[' + changes + b"]}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "p.json is not JSON"),
        (b"[1]", "p.json is not a plan: expected object, got array"),
        (b"{}", "missing required field schema"),
        (
            b'{"schema":2,"streams":8,"block_bytes":1048576}',
            "schema 2, howdah .* reads schema 1; .*or install",
        ),
        (b'{"schema":0,"streams":8,"block_bytes":1048576}', "schema 0, howdah .* reads schema 1; make one"),
        (b'{"schema":1,"streams":"8","block_bytes":1048576}', "key streams: expected int, got str"),
        (b'{"schema":1,"streams":0,"block_bytes":1048576}', "key streams: expected int >= 1"),
        (b'{"schema":1,"streams":8,"block_bytes":1}', "key block_bytes: expected int >= 65536"),
        (b'{"schema":1,"stream":8,"block_bytes":1048576}', "unknown field stream"),
        (
            b'\xff{"schema":1}',
            r"^p.json is not JSON: invalid character \(byte 0\); make one with: howdah cp",
        ),
        (b"streams = 4", r"^p.json is not JSON: invalid character \(byte 0\); make one"),
        (b"", "^p.json is not JSON: input data was truncated; make one"),
        (later(b'{"at_s":0,"streams":1}'), r"key changes\[0\].at_s: expected float > 0"),
        (later(b'{"at_s":5}'), "the change at 5 s changes nothing"),
        (later(b'{"at_s":5,"streams":9}'), "the change at 5 s needs more streams than the plan opens"),
        (later(b'{"at_s":5,"stream":1}'), "unknown field stream"),
        (later(b'{"at_s":5,"streams":1},{"at_s":5,"streams":2}'), "in the order of their at_s"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(text: bytes, says: str) -> None:
    with pytest.raises(HowdahError, match=says) as error:
        plan.loads(text, "p.json")
    assert "\n" not in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(HowdahError, match=r"cannot read the plan .*: No such file.*make one"):
        plan.load(tmp_path / "none.json")


def test_a_given_choice_is_told_with_what_it_replaced() -> None:
    changed = SMALL.given("streams", 3, "--streams", "3 streams")
    assert changed.streams == 3
    assert "--streams" in changed.why.summary[-1]
    assert changed.why.alternatives[-1].what == "streams 8"
    assert SMALL.streams == 8


def test_what_a_given_choice_replaced_is_told_with_its_unit() -> None:
    given = SMALL.given("buffer_bytes", 2**24, "--buffer", "Buffers").given(
        "pacing_bps", 10**8, "--pace", "Pace"
    )
    again = given.given("buffer_bytes", 2**25, "--buffer", "Buffers").given(
        "pacing_bps", 10**9, "--pace", "Pace"
    )
    told = [each.what for each in again.given("encrypt", False, "--plaintext", "Plaintext").why.alternatives]
    assert told == [
        "buffers autotuned",
        "unbounded",
        "buffers 16.8 MB",
        "paced at 100 Mb/s a stream",
        "encrypted",
    ]


def test_a_choice_that_the_schedule_cannot_follow_is_refused() -> None:
    planned = msgspec.structs.replace(SMALL, changes=[Later(at_s=5.0, streams=4)])
    assert planned.given("streams", 4, "--streams", "Streams").streams == 4
    with pytest.raises(HowdahError, match="streams=3: the change at 5 s needs more streams"):
        planned.given("streams", 3, "--streams", "Streams")


@pytest.mark.parametrize("streams", [2, 8])
def test_a_prediction_stands_as_long_as_nothing_it_rests_on_is_changed(streams: int) -> None:
    predicted = Prediction(rate_low_bps=1.0, rate_mid_bps=2.0, rate_high_bps=3.0, duration_s=10.0)
    decided = Plan(streams=8, block_bytes=2**20, why=Why(prediction=predicted))
    asked = decided.given("streams", streams, "--streams", "Streams")
    assert asked.why.summary == ["Streams, because --streams says so."]
    assert [asked.has_given(option) for option in ("--streams", "--buffer")] == [True, False]
    assert asked.why.prediction == (predicted if streams == 8 else None)
    assert bool(asked.why.alternatives) == (streams != 8)
