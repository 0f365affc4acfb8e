"""The numbers of steering, each with its unit, its range and the scenario or paper that it comes from."""

from dataclasses import dataclass, field, fields
from typing import Any

LAB = "docs/choosing.md: the lab's dumbbell, 200 Mb/s × 40 ms"
OPS = "docs/ops.md: 1 Gb/s × 128 ms beside CUBIC"
CHANGES = "tests/pure/test_steering_arbiter.py"
DIPS = "tests/pure/test_steering_capacity_probe.py"
EXCLUSIVE = "tests/pure/test_steering_exclusivity.py"
PACE = "tests/pure/test_steering_pace.py"
RATES = "tests/pure/test_steering_rates.py"
SERIES = "tests/pure/test_steering_round_trips.py"
BEFORE = "tests/pure/test_steering_before.py"
OVERLOAD = "tests/pure/test_steering_overload.py"
COPY = "tests/pure/test_listening.py"
VALUE = "tests/pure/test_steering_shares.py"


def _of(value: float, unit: str, least: float, most: float, source: str) -> Any:  # noqa: ANN401
    return field(default=value, metadata={"unit": unit, "range": (least, most), "source": source})


def lasting(least_s: float, round_trips: float, rtt_s: float) -> float:
    """The longer of a time and of so many round trips, in seconds."""
    return max(least_s, round_trips * rtt_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunables:
    """All of them. Raises ValueError where one is outside of its range."""

    # When a transfer is steered at all.
    wait_s: float = _of(2.0, "s", 0, 60, COPY)
    """Judging begins so long after the first byte; a shorter copy loads nothing for it."""
    least_left_s: float = _of(10.0, "s", 0, 600, COPY)
    """Nothing is begun with less left of a transfer, for it would be over before anything was gained."""
    few_streams: int = _of(1, "streams", 1, 64, LAB)
    """A transfer begins with so many streams beside others, until it is known who they are."""
    assumed_rtt_s: float = _of(0.1, "s", 0.0001, 10, COPY)
    """The RTT is taken for this where none is known."""

    # Round trips.
    echo_step_s: float = _of(0.01, "s", 0.001, 1, LAB)
    """An ICMP echo is sent so often."""
    tcp_info_step_s: float = _of(0.1, "s", 0.01, 1, COPY)
    """The streams' own RTT is read so often."""
    silent_s: float = _of(2.0, "s", 0.1, 60, COPY)
    """No answer will come where none came for so long."""
    before_answers: int = _of(3, "answers", 2, 100, BEFORE)
    """The length of the queue before the first byte is told by so many answers."""
    before_spread_answers: int = _of(10, "answers", 2, 1000, BEFORE)
    """The movement of the queue before the first byte is told by so many answers."""
    before_spread_s: float = _of(0.0005, "s", 0.00001, 0.1, LAB)
    """Others spread round trips by more, from the tenth to the ninetieth percentile of half a second. Without
    others 99 of 100 have less than 0.4 ms, beside a CUBIC stream they have more than 0.7 ms."""
    before_queue_s: float = _of(0.001, "s", 0, 1, BEFORE)
    """Others fill a queue that is longer than this."""
    before_queue: float = _of(0.02, "base RTTs", 0, 1, BEFORE)
    """Others fill a queue that is longer than this part of the base RTT, on a long path."""
    series_kept_s: float = _of(60.0, "s", 5, 600, SERIES)
    """The series reaches back so far."""
    verdict_every_s: float = _of(1.0, "s", 0.1, 60, SERIES)
    """A verdict is asked for so often."""
    route_every_s: float = _of(2.0, "s", 0.1, 60, SERIES)
    """Changes of route are looked for so often."""
    series_least_s: float = _of(2.0, "s", 0.1, 60, SERIES)
    """A shorter series is not judged."""
    series_samples: int = _of(10, "samples", 2, 1000, SERIES)
    """A series of fewer samples is not judged."""
    queue_high: float = _of(0.98, "quantile", 0.5, 1, SERIES)
    """This quantile of round trips tells how much queue the bottleneck has."""
    series_settle_s: float = _of(1.0, "s", 0, 60, SERIES)
    """The series after a change begins so much later."""
    series_settle_round_trips: int = _of(10, "round trips", 0, 1000, SERIES)
    """The series after a change begins so many round trips later, where that is longer."""
    rtt_lately_s: float = _of(0.3, "s", 0.05, 5, COPY)
    """The latest round trip is the median of so long."""

    # Senders that do not yield.
    overload_s: float = _of(0.3, "s", 0.05, 10, OVERLOAD)
    """An overload lasts so long at least; BBR leaves a short queue for 200 ms."""
    overload_round_trips: int = _of(4, "round trips", 1, 100, OVERLOAD)
    """An overload lasts so many round trips at least."""
    overload_lost: float = _of(0.05, "of the probes", 0, 1, OVERLOAD)
    """An overload loses so much of the probes at least."""
    overload_empty_s: float = _of(0.5, "s", 0.05, 10, OVERLOAD)
    """The queue between two overloads is empty for so long."""
    overload_full: float = _of(0.8, "of the queue", 0, 1, OVERLOAD)
    """A queue from this part of its most on is full."""
    overload_empty: float = _of(0.2, "of the queue", 0, 1, OVERLOAD)
    """A queue up to this part of its most is empty."""
    overload_queue: float = _of(0.1, "base RTTs", 0, 10, OVERLOAD)
    """A path whose queue is never longer is not overloaded."""
    overloads_sure: int = _of(2, "overloads", 1, 10, OVERLOAD)
    """So many overloads are of somebody who does not yield."""

    # Who is there, and what shares are worth.
    sure: float = _of(0.7, "probability", 0.5, 1, LAB)
    """Who is there is not known where it is less likely; then the fair default stays."""
    sure_to_take: float = _of(0.8, "probability", 0.5, 1, CHANGES)
    """BBR answers nobody who is less likely: those who yield to loss would have hardly anything."""
    record_likely: float = _of(0.6, "probability", 0, 1, COPY)
    """The record notes who is there from this probability on."""
    verdict_weight: float = _of(0.4, "of one", 0, 1, CHANGES)
    """A new verdict counts so much; verdicts of overlapping windows come once a second."""
    window_room: float = _of(2.0, "times", 1, 10, LAB)
    """Windows are to be so many times what the path carries: a queue needs some."""
    left_beside_bbr: float = _of(0.06, "of the path", 0, 0.5, VALUE)
    """BBR leaves so much to those that yield to loss, however short the queue is."""
    cubic_cut: float = _of(0.7, "of the window", 0, 1, "RFC 9438, section 4.6")
    """CUBIC goes on with so much of its window after a loss."""
    burst_loss: float = _of(0.5, "of the path", 0, 1, LAB)
    """Streams that yield to loss get so much of what senders that do not yield leave."""
    burst_bbr: float = _of(0.8, "of the path", 0, 1, LAB)
    """BBR gets so much of what senders that do not yield leave."""
    bound_worth: float = _of(0.02, "value", 0, 1, VALUE)
    """A bound costs so much value, for the capacity that it is taken from is not known well."""
    share_least: float = _of(0.001, "of the path", 0, 0.1, VALUE)
    """A share is never taken for less."""

    # What a transfer has had.
    looks_kept_s: float = _of(60.0, "s", 10, 600, CHANGES)
    """Looks are kept for so long."""
    peak_s: float = _of(1.0, "s", 0.1, 10, CHANGES)
    """The capacity is at least the least that arrived in each of some spans in a row, each so long."""
    peaks: int = _of(3, "spans", 1, 20, CHANGES)
    """The capacity is told by so many spans in a row."""
    hole_s: float = _of(2.0, "s", 0, 10, CHANGES)
    """Nothing is sent again in those spans and so long before: they may hold what a hole held back."""
    long_s: float = _of(10.0, "s", 1, 60, CHANGES)
    """A mean over so long tells the capacity where something was sent again."""
    span_least_s: float = _of(0.5, "s", 0.1, 5, CHANGES)
    """A shorter span tells nothing."""
    rates_s: float = _of(0.4, "s", 0.1, 5, RATES)
    """The rates of streams are over so long."""
    rates_round_trips: float = _of(2.0, "round trips", 1, 10, RATES)
    """The rates of streams are over so many round trips, where that is longer."""
    uneven_most: float = _of(2.0, "times", 1, 10, RATES)
    """A stream is paced to so many equal parts at most, for windows of others may have grown."""
    rates_kept_s: float = _of(5.0, "s", 1, 60, RATES)
    """The rates of streams are kept for so long."""
    squeezed: float = _of(0.7, "of an equal share", 0, 1, CHANGES)
    """Somebody does not yield who leaves us less of a full path."""
    squeezed_s: float = _of(3.0, "s", 0.5, 30, CHANGES)
    """Somebody does not yield when that has lasted for so long. Dips cost less."""
    path_lately_s: float = _of(3.0, "s", 0.5, 30, CHANGES)
    """Our part of the path is what we had in so long."""
    part_of_others: float = _of(0.85, "of the path", 0, 1, CHANGES)
    """Others have the rest of a full path where we have less."""
    part_ours: float = _of(0.93, "of the path", 0, 1, CHANGES)
    """Nobody has the rest of a path that is known where we have more."""

    # When a change is made and kept.
    first_s: float = _of(5.0, "s", 0, 60, CHANGES)
    """Nothing is changed earlier: others who were cut by the beginning come back meanwhile."""
    doubt_s: float = _of(7.0, "s", 0, 60, CHANGES)
    """Who has not been told by then may never be; the capacity is then measured beside them too."""
    last_s: float = _of(5.0, "s", 0, 60, CHANGES)
    """Nothing is changed with less left."""
    gain: float = _of(0.05, "value", 0, 1, CHANGES)
    """A change is to bring so much."""
    verdicts_agree: int = _of(2, "verdicts", 1, 20, CHANGES)
    """A change is made when so many verdicts in a row prefer it."""
    dwell_s: float = _of(5.0, "s", 0, 60, CHANGES)
    """A change comes so long after the one before."""
    settle_s: float = _of(2.0, "s", 0, 60, CHANGES)
    """A change settles for so long."""
    settle_round_trips: int = _of(15, "round trips", 0, 100, CHANGES)
    """A change settles for so many round trips more: BBR needs some ten to find its rate."""
    settle_most_s: float = _of(6.0, "s", 0, 60, CHANGES)
    """Settling takes no longer than this."""
    judge_s: float = _of(4.0, "s", 0, 60, CHANGES)
    """A change is judged by so much settled time."""
    judge_round_trips: int = _of(60, "round trips", 0, 1000, CHANGES)
    """A halving is judged by so many round trips, where that is longer: windows even out slowly."""
    look_back_s: float = _of(10.0, "s", 1, 60, CHANGES)
    """What there was before a change is what there was in so long."""
    ease_s: float = _of(1.0, "s", 0, 60, CHANGES)
    """Two halvings are so far apart."""
    ease_round_trips: int = _of(15, "round trips", 0, 100, CHANGES)
    """Two halvings are so many round trips apart, where that is longer."""
    ease_most_s: float = _of(8.0, "s", 0, 60, CHANGES)
    """Two halvings are no further apart."""
    ease_queue: float = _of(0.5, "of the queue", 0, 1, CHANGES)
    """The next halving leaves the path full when so much of the queue is back."""
    room_s: float = _of(1.5, "s", 0, 60, CHANGES)
    """There is room where no round trip was one through a queue for so long. The base RTT may be one of a
    queue that others never let empty; the queue does not stand still then."""
    quiet_room_s: float = _of(10.0, "s", 0, 60, CHANGES)
    """What is left in order to recognise others is not taken for room for so long."""
    cooldown_s: float = _of(30.0, "s", 0, 600, CHANGES)
    """Nothing is tried for so long after a failure, and for twice as long after each further one."""
    cooldown_most_s: float = _of(480.0, "s", 0, 3600, CHANGES)
    """Nothing is tried for no longer than this."""
    unsure_s: float = _of(20.0, "s", 0, 600, CHANGES)
    """The fair default comes back when who is there was not known for so long."""
    proven_s: float = _of(60.0, "s", 0, 600, CHANGES)
    """The fair default comes back only after so long where the change has brought much."""
    proven_growth: float = _of(1.5, "times", 1, 10, CHANGES)
    """A change has brought much when the rate grew so many times."""
    recognise_streams: int = _of(2, "streams", 1, 16, LAB)
    """Others are recognised beside so many streams of our own; models are trained beside one."""
    quiet_again_s: float = _of(60.0, "s", 0, 3600, CHANGES)
    """The streams are not reduced again for so long when nobody was there."""
    trial_keep: float = _of(0.6, "times", 0, 1, CHANGES)
    """A change is given up with less of what there was before, or of an equal share."""
    trial_resent: float = _of(0.1, "of all sent", 0, 1, CHANGES)
    """A change is given up where so much of all sent was sent again."""
    trial_resent_more: float = _of(4.0, "times", 1, 100, CHANGES)
    """A change is given up only for so many times what was sent again before."""
    trial_resent_for: float = _of(1.25, "times", 1, 10, CHANGES)
    """A change is given up only for less than so many times the rate."""
    trial_brought: float = _of(0.2, "of the growth", 0, 1, CHANGES)
    """A change is to bring so much of the growth that was expected."""
    trial_growth: float = _of(1.1, "times", 1, 10, CHANGES)
    """A growth is expected from here on."""

    # Whether the path is ours alone.
    exclusivity_ends_s: float = _of(1.0, "s", 0.1, 10, EXCLUSIVE)
    """A queue of our own is to end in so long."""
    exclusivity_less: float = _of(0.05, "of the rate", 0, 1, EXCLUSIVE)
    """Our rate is reduced by so much at least."""
    exclusivity_most_less: float = _of(0.5, "of the rate", 0, 1, EXCLUSIVE)
    """Our rate is reduced by so much at most; else a path that is half another's would look empty."""
    exclusivity_empty_s: float = _of(0.5, "s", 0.1, 10, EXCLUSIVE)
    """The queue has ended when there was none for so long."""
    exclusivity_longest_s: float = _of(3.0, "s", 0.5, 60, EXCLUSIVE)
    """A queue that is still there after so long is not ours alone."""
    exclusivity_longest_round_trips: float = _of(10.0, "round trips", 1, 100, EXCLUSIVE)
    """A queue has so many round trips to end, where that is longer."""
    exclusivity_back: float = _of(0.5, "of the queue", 0, 1, EXCLUSIVE)
    """A queue of our own comes back by so much."""
    exclusivity_back_s: float = _of(1.0, "s", 0.1, 10, EXCLUSIVE)
    """A queue of our own comes back within so long."""
    exclusivity_back_round_trips: float = _of(4.0, "round trips", 1, 100, EXCLUSIVE)
    """A queue of our own has so many round trips to come back, where that is longer."""
    exclusivity_tries: int = _of(3, "tries", 1, 10, EXCLUSIVE)
    """The question is asked so often: what we lose ourselves does not come back either, nor do the bursts of
    streams that were never paced before (``capacity_probe``)."""
    exclusivity_ease_s: float = _of(1.5, "s", 0.1, 10, EXCLUSIVE)
    """A bound that has not ended the queue by then is lowered; windows are not quite what they were."""
    exclusivity_eases: int = _of(3, "times", 0, 10, EXCLUSIVE)
    """A bound is lowered so often."""
    exclusivity_rates_s: float = _of(3.0, "s", 0.5, 5, EXCLUSIVE)
    """What each stream has had is known from so long."""

    # What the path carries.
    dip_freed: float = _of(0.5, "of what is ours", 0, 1, DIPS)
    """A dip frees so much of what is ours on its way at most."""
    dip_queue_freed: float = _of(0.8, "of the queue", 0, 1, DIPS)
    """A dip frees so much of the queue at most."""
    dip_assumed_ours: float = _of(0.4, "of the path", 0, 1, DIPS)
    """So much is taken for ours as long as the capacity is not known; after each dip that has emptied the
    queue half of the rest is as well."""
    dip_most_ours: float = _of(0.95, "of the path", 0, 1, DIPS)
    """No more is taken for ours."""
    dip_round_trips: float = _of(2.0, "round trips", 1, 10, DIPS)
    """A dip lasts for so many round trips."""
    dip_least_s: float = _of(0.2, "s", 0.05, 5, DIPS)
    """A dip lasts for so long at least."""
    dip_before_round_trips: float = _of(3.0, "round trips", 1, 10, DIPS)
    """The growth of others is seen in so many round trips before a dip."""
    dip_before_s: float = _of(0.4, "s", 0.05, 5, DIPS)
    """The growth of others is seen in so long before a dip at least."""
    dip_back_round_trips: float = _of(3.0, "round trips", 1, 10, DIPS)
    """What was freed is on its way again so many round trips after a dip."""
    dip_back: float = _of(0.75, "of the drop", 0, 1, DIPS)
    """A drop is undone by so much after a dip that nobody spoilt."""
    dip_apart_s: float = _of(0.6, "s", 0, 10, DIPS)
    """The next dip comes so much later, when rates are what they were, and known to be."""
    dip_apart_round_trips: float = _of(1.0, "round trips", 0, 10, DIPS)
    """The next dip comes so many round trips later at least."""
    dip_again_s: float = _of(10.0, "s", 0, 60, DIPS)
    """The next dip comes so long after more of the path was taken, when windows have come to it."""
    dip_agree: float = _of(0.2, "of the lesser", 0, 1, DIPS)
    """Two dips that agree differ by no more."""
    dips_most: int = _of(4, "dips", 1, 20, DIPS)
    """So many clear dips are enough."""
    dip_clear: float = _of(0.25, "of the largest drop", 0, 1, DIPS)
    """A dip is clear with so much of the largest drop, for what is the same for all spoils the small ones."""
    dip_queue_s: float = _of(0.002, "s", 0, 1, DIPS)
    """A dip needs so long a queue."""
    dip_queue: float = _of(0.4, "of the queue at most", 0, 1, DIPS)
    """A dip that is limited by the queue needs so much of it."""
    dip_drop_s: float = _of(0.001, "s", 0, 1, DIPS)
    """A dip tells something by so large a drop."""
    dip_answers: int = _of(10, "answers", 1, 1000, DIPS)
    """A dip tells something by so many round trips, before it and in it."""
    dip_median_of: int = _of(5, "round trips", 1, 100, DIPS)
    """The least of a dip is one of medians of so many, for the least single one would be of their noise."""
    dip_median_from: int = _of(4, "dips", 2, 20, DIPS)
    """The capacity is the median of dips from so many on."""
    dip_empty: float = _of(0.1, "of the queue", 0, 1, DIPS)
    """A queue is empty with so little of it."""
    dip_plateau: float = _of(0.5, "round trips", 0, 2, DIPS)
    """The least of a dip lasts for so many round trips."""
    dip_noises: float = _of(4.0, "times", 1, 100, DIPS)
    """A drop is so many times the noise before it."""
    dip_moved: float = _of(2.0, "times", 1, 100, DIPS)
    """A drop is so many times what the round trip moved by itself."""
    dip_high: float = _of(0.9, "quantile", 0.5, 1, DIPS)
    """This quantile of round trips after a dip counts, for the few beyond may be noise."""
    dip_late_s: float = _of(0.1, "s", 0, 5, DIPS)
    """The last round trips of a dip are known so much after their time."""

    # How fast paced streams go.
    pace_every_s: float = _of(0.5, "s", 0.05, 10, PACE)
    """Two bounds are so far apart, when it is known what the last one did."""
    pace_every_round_trips: float = _of(2.0, "round trips", 0, 10, PACE)
    """Two bounds are so many round trips apart, where that is longer."""
    pace_fast: float = _of(0.05, "of the path a second", 0, 1, PACE)
    """A bound rises so fast below what it was when there was a queue last."""
    pace_slow: float = _of(0.005, "of the path a second", 0, 1, PACE)
    """A bound rises so fast from there on, at first."""
    pace_doubles_s: float = _of(3.0, "s", 0.1, 60, PACE)
    """The rise doubles in so long, from slow to fast."""
    pace_near: float = _of(0.95, "of the last bound", 0, 1, PACE)
    """A bound below this part of the one when there was a queue last rises fast."""
    pace_rest: float = _of(0.985, "of the path", 0, 1, OPS)
    """A path that is ours alone is used so far: to look for more sooner would be to make a queue."""
    pace_rest_s: float = _of(20.0, "s", 0, 600, OPS)
    """A bound rests there for so long after the last queue."""
    pace_used: float = _of(0.8, "of the bound", 0, 1, PACE)
    """A bound of which less is used does not rise."""
    pace_even: float = _of(0.95, "of the bound", 0, 1, PACE)
    """Streams that have less of their bound together may have unequal windows; then all are paced to more."""
    pace_step: float = _of(1.25, "times", 1, 10, PACE)
    """They are paced to more in steps of so much, until together they have the bound."""
    pace_limited: float = _of(0.85, "of the fastest", 0, 1, PACE)
    """A stream with so much of what the fastest has is not bounded by its window. Where all have that, this
    host is slow, or the path is another's."""
    pace_worth: float = _of(0.01, "of the bound", 0, 1, PACE)
    """A smaller change of a bound is not made."""
    start_round_trips: float = _of(15.0, "round trips", 1, 100, OPS)
    """Reno begins for so long: ten segments become a thousand in seven, and it suits nobody beside it."""

    def __post_init__(self) -> None:
        for each in fields(self):
            least, most = each.metadata["range"]
            if not least <= getattr(self, each.name) <= most:
                unit = each.metadata["unit"]
                raise ValueError(
                    f"{each.name} {getattr(self, each.name)} is not from {least} to {most} ({unit})"
                )


TUNED = Tunables()
"""The values in use."""
