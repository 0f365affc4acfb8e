"""When streams that begin beside a queue have begun."""

from howdah.steering.pace import Start
from howdah.steering.tunables import TUNED

EACH_BPS, RTT_S = 14e6, 0.2


def test_it_is_over_when_each_stream_has_its_part() -> None:
    start = Start(10.0, RTT_S)
    assert not start.over(10.5, [EACH_BPS, 0.5 * EACH_BPS], EACH_BPS)
    assert start.over(11.0, [EACH_BPS, 0.9 * EACH_BPS], EACH_BPS)


def test_who_does_not_come_to_its_part_ends_it_soon_all_the_same() -> None:
    start = Start(10.0, RTT_S)
    slow = [EACH_BPS, 0.1 * EACH_BPS]
    assert not start.over(10.0 + 0.99 * TUNED.start_round_trips * RTT_S, slow, EACH_BPS)
    assert start.over(10.0 + 1.01 * TUNED.start_round_trips * RTT_S, slow, EACH_BPS)
