"""Messages between controllers and agents, as they lie on the bus."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.control.leases.messages import (
    SCHEMA,
    Call,
    FlowShare,
    Grant,
    Measured,
    Report,
    decode,
    encode,
    key_of,
)

naturals = st.integers(0, 2**62)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789/-.", min_size=1, max_size=12)
shares = st.dictionaries(names, st.builds(FlowShare, naturals, naturals), max_size=4)
reports = st.builds(
    Report,
    agent=names,
    incarnation=naturals,
    beat=naturals,
    epoch=naturals,
    seq=naturals,
    left_ns=naturals,
    shares=shares,
    measured=st.dictionaries(names, st.builds(Measured, naturals, naturals, naturals), max_size=4),
)
grants = st.builds(
    Grant,
    agent=names,
    epoch=naturals,
    seq=naturals,
    incarnation=naturals,
    beat=naturals,
    lease_ns=naturals,
    alone=st.sampled_from(["minimum", "ordinary"]),
    shares=shares,
)
calls = st.builds(Call, agent=names, epoch=naturals)


@given(reports | grants | calls)
def test_what_is_sent_is_what_is_read(message: Report | Grant | Call) -> None:
    assert decode(encode(message), type(message), key_of(message)) == message


@given(grants)
def test_a_message_of_another_version_is_refused_for_that(grant: Grant) -> None:
    newer = msgspec.json.decode(encode(grant)) | {"schema": SCHEMA + 1, "shares": "by another rule"}
    with pytest.raises(
        HowdahError, match=rf"^grant\.a is a message of schema {SCHEMA + 1}, .* reads schema {SCHEMA}"
    ):
        decode(msgspec.json.encode(newer), Grant, "grant.a")


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"\xff", b"[]", b'{"schema":2}', b'{"schema":2,"agent":"a","epoch":-1}'],
)
def test_what_is_no_message_is_refused_in_a_line(value: bytes) -> None:
    with pytest.raises(HowdahError, match=r"^call\.a is not .*; run the same howdah on every host$"):
        decode(value, Call, "call.a")


def test_a_report_of_many_flows_is_small() -> None:
    many = {f"background/dtn{number}": FlowShare(10**9, 10**7) for number in range(20)}
    report = Report(agent="dtn1", incarnation=1, beat=1, epoch=1, seq=1, left_ns=1, shares=many)
    assert len(encode(report)) < 1200
