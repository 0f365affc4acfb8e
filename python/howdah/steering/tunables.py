"""The numbers of steering, each with its unit, its range and the scenario or paper that it comes from."""

from typing import Annotated

import msgspec

LAB = "docs/choosing.md: the lab's dumbbell, 200 Mb/s × 40 ms"
OPS = "docs/ops.md: 1 Gb/s × 128 ms beside CUBIC"
CHANGES = "tests/pure/test_steering_arbiter.py"
DIPS = "tests/pure/test_steering_capacity_probe.py"
EXCLUSIVE = "tests/pure/test_steering_exclusivity.py"
PACE = "tests/pure/test_steering_pace.py"
BEGIN = "tests/pure/test_steering_begin.py"
RATES = "tests/pure/test_steering_rates.py"
REFUSED = "tests/pure/test_steering_refused.py"
SERIES = "tests/pure/test_steering_round_trips.py"
BEFORE = "tests/pure/test_steering_before.py"
OVERLOAD = "tests/pure/test_steering_overload.py"
COUNT = "tests/pure/test_steering_counting.py"
COPY = "tests/pure/test_listening.py"
VALUE = "tests/pure/test_steering_shares.py"


def _of(unit: str, least: float, most: float, source: str) -> msgspec.Meta:
    return msgspec.Meta(ge=least, le=most, extra={"unit": unit, "source": source})


def lasting(least_s: float, round_trips: float, rtt_s: float) -> float:
    """The longer of a time and of so many round trips, in seconds."""
    return max(least_s, round_trips * rtt_s)


class Tunables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tunables of steering. ``msgspec.convert`` refuses one that is unknown, or outside of its range."""

    # When a transfer is steered at all.
    wait_s: Annotated[float, _of("s", 0, 60, COPY)] = 2.0
    """The time from the first byte to the first judgement; a shorter copy loads nothing for it."""
    least_left_s: Annotated[float, _of("s", 0, 600, COPY)] = 10.0
    """The least time left at which steering begins; a shorter rest is over before anything is gained."""
    few_streams: Annotated[int, _of("streams", 1, 64, LAB)] = 1
    """The streams that a transfer begins with beside others, until it is known who they are."""
    assumed_rtt_s: Annotated[float, _of("s", 0.0001, 10, COPY)] = 0.1
    """The RTT assumed where none is known."""

    # Round trips.
    echo_step_s: Annotated[float, _of("s", 0.001, 1, LAB)] = 0.01
    """The time between two ICMP echoes."""
    slow_bps: Annotated[float, _of("b/s", 0, 1e9, COPY)] = 2e6
    """Below this rate no echoes are sent: they would take 5 % of what the transfer carries, or more."""
    slow_s: Annotated[float, _of("s", 0.5, 60, COPY)] = 5.0
    """The time over which that rate is taken."""
    slow_round_trips: Annotated[int, _of("round trips", 0, 1000, COPY)] = 10
    """The same in round trips, on a long path: slow start is over after so many."""
    tcp_info_step_s: Annotated[float, _of("s", 0.01, 1, COPY)] = 0.1
    """The time between two readings of the streams' own RTT."""
    silent_s: Annotated[float, _of("s", 0.1, 60, COPY)] = 2.0
    """The longest wait for an answer; after that none will come."""
    before_answers: Annotated[int, _of("answers", 2, 100, BEFORE)] = 3
    """The answers that tell the length of the queue before the first byte."""
    before_spread_answers: Annotated[int, _of("answers", 2, 1000, BEFORE)] = 10
    """The answers that tell the movement of the queue before the first byte."""
    before_spread_s: Annotated[float, _of("s", 0.00001, 0.1, BEFORE)] = 0.00012
    """Others spread the middle half of the round trips by more. A pause of a host, or of its hypervisor,
    delays fewer of them."""
    before_queue_s: Annotated[float, _of("s", 0, 1, BEFORE)] = 0.001
    """The length of a queue from which others are there."""
    before_queue: Annotated[float, _of("base RTTs", 0, 1, BEFORE)] = 0.02
    """The same as a part of the base RTT, on a long path."""
    series_kept_s: Annotated[float, _of("s", 5, 600, SERIES)] = 60.0
    """The length of the series."""
    verdict_every_s: Annotated[float, _of("s", 0.1, 60, SERIES)] = 1.0
    """The time between two verdicts."""
    route_every_s: Annotated[float, _of("s", 0.1, 60, SERIES)] = 2.0
    """The time between two looks for a change of route."""
    series_least_s: Annotated[float, _of("s", 0.1, 60, SERIES)] = 2.0
    """The shortest series that is judged."""
    series_samples: Annotated[int, _of("samples", 2, 1000, SERIES)] = 10
    """The fewest samples of a series that is judged."""
    queue_high: Annotated[float, _of("quantile", 0.5, 1, SERIES)] = 0.98
    """The quantile of round trips that tells how much queue the bottleneck has."""
    series_settle_s: Annotated[float, _of("s", 0, 60, SERIES)] = 1.0
    """The time after a change at which the series begins anew."""
    series_settle_round_trips: Annotated[int, _of("round trips", 0, 1000, SERIES)] = 10
    """The same in round trips, where that is longer."""
    rtt_lately_s: Annotated[float, _of("s", 0.05, 5, COPY)] = 0.3
    """The span whose median is the latest round trip."""

    # Senders that do not yield.
    overload_s: Annotated[float, _of("s", 0.05, 10, OVERLOAD)] = 0.3
    """The shortest overload; BBR leaves a short queue for 200 ms."""
    overload_round_trips: Annotated[int, _of("round trips", 1, 100, OVERLOAD)] = 4
    """The shortest overload in round trips."""
    overload_lost: Annotated[float, _of("of the probes", 0, 1, OVERLOAD)] = 0.05
    """The least part of the probes that an overload loses."""
    overload_empty_s: Annotated[float, _of("s", 0.05, 10, OVERLOAD)] = 0.5
    """The time for which the queue between two overloads is empty."""
    overload_full: Annotated[float, _of("of the queue", 0, 1, OVERLOAD)] = 0.8
    """The part of its most from which a queue is full."""
    overload_empty: Annotated[float, _of("of the queue", 0, 1, OVERLOAD)] = 0.2
    """The part of its most up to which a queue is empty."""
    overload_queue: Annotated[float, _of("base RTTs", 0, 10, OVERLOAD)] = 0.1
    """The least queue of an overloaded path."""
    overloads_sure: Annotated[int, _of("overloads", 1, 10, OVERLOAD)] = 2
    """The number of overloads that shows somebody who does not yield."""

    # Who is there, and what shares are worth.
    sure: Annotated[float, _of("probability", 0.5, 1, LAB)] = 0.7
    """The least probability at which others count as recognised; below it the fair default stays."""
    sure_to_take: Annotated[float, _of("probability", 0.5, 1, CHANGES)] = 0.8
    """The least probability to change to BBR, which would leave those who yield to loss hardly anything."""
    record_likely: Annotated[float, _of("probability", 0, 1, COPY)] = 0.6
    """The least probability at which the record notes who is there."""
    verdict_weight: Annotated[float, _of("of one", 0, 1, CHANGES)] = 0.4
    """The weight of a new verdict; verdicts of overlapping windows come once a second."""
    window_room: Annotated[float, _of("times", 1, 10, LAB)] = 2.0
    """The size of windows, in what the path carries: a queue needs some."""
    left_beside_bbr: Annotated[float, _of("of the path", 0, 0.5, VALUE)] = 0.06
    """The part that BBR leaves to those that yield to loss, however short the queue is."""
    cubic_cut: Annotated[float, _of("of the window", 0, 1, "RFC 9438, section 4.6")] = 0.7
    """The part of its window that CUBIC keeps after a loss."""
    burst_loss: Annotated[float, _of("of the path", 0, 1, LAB)] = 0.5
    """The part that streams that yield to loss get of what senders that do not yield leave."""
    burst_bbr: Annotated[float, _of("of the path", 0, 1, LAB)] = 0.8
    """The part that BBR gets of what senders that do not yield leave."""
    bound_worth: Annotated[float, _of("value", 0, 1, VALUE)] = 0.02
    """The value that a bound costs, for the capacity it is taken from is not known well."""
    share_least: Annotated[float, _of("of the path", 0, 0.1, VALUE)] = 0.001
    """The least that a share is taken for."""

    # What a transfer has had.
    looks_kept_s: Annotated[float, _of("s", 10, 600, CHANGES)] = 60.0
    """The time for which looks are kept."""
    peak_s: Annotated[float, _of("s", 0.1, 10, CHANGES)] = 1.0
    """The length of a span; the capacity is at least the least that arrived in each of some in a row."""
    peaks: Annotated[int, _of("spans", 1, 20, CHANGES)] = 3
    """The number of those spans."""
    hole_s: Annotated[float, _of("s", 0, 10, CHANGES)] = 2.0
    """The time before those spans in which nothing may be sent again: they may hold what a hole held back."""
    long_s: Annotated[float, _of("s", 1, 60, CHANGES)] = 10.0
    """The length of a mean that tells the capacity where something was sent again."""
    span_least_s: Annotated[float, _of("s", 0.1, 5, CHANGES)] = 0.5
    """The shortest span that tells anything."""
    rates_s: Annotated[float, _of("s", 0.1, 5, RATES)] = 0.4
    """The span of the rates of streams."""
    rates_round_trips: Annotated[float, _of("round trips", 1, 10, RATES)] = 2.0
    """The span of the rates of streams in round trips, where that is longer."""
    uneven_most: Annotated[float, _of("times", 1, 10, RATES)] = 2.0
    """The most equal parts that a stream is paced to, for windows of others may have grown."""
    rates_kept_s: Annotated[float, _of("s", 1, 60, RATES)] = 5.0
    """The time for which the rates of streams are kept."""
    squeezed: Annotated[float, _of("of an equal share", 0, 1, CHANGES)] = 0.7
    """The part of a full path below which somebody who leaves us less does not yield."""
    squeezed_s: Annotated[float, _of("s", 0.5, 30, CHANGES)] = 3.0
    """The time for which that must last. Dips are shorter."""
    path_lately_s: Annotated[float, _of("s", 0.5, 30, CHANGES)] = 3.0
    """The span over which our part of the path is taken."""
    part_of_others: Annotated[float, _of("of the path", 0, 1, CHANGES)] = 0.85
    """The part of a full path below which others have the rest."""
    part_ours: Annotated[float, _of("of the path", 0, 1, CHANGES)] = 0.93
    """The part of a known path above which nobody has the rest."""

    # When a change is made and kept.
    first_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 5.0
    """The earliest change: others who were cut by the beginning come back meanwhile."""
    doubt_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 7.0
    """The longest wait to recognise others; after that the capacity is measured without knowing them."""
    last_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 5.0
    """The least time left at which something is changed."""
    gain: Annotated[float, _of("value", 0, 1, CHANGES)] = 0.05
    """The least gain in value of a change."""
    verdicts_agree: Annotated[int, _of("verdicts", 1, 20, CHANGES)] = 2
    """The number of verdicts in a row that must prefer a change."""
    dwell_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 5.0
    """The least time between two changes."""
    refusals_most: Annotated[int, _of("commands", 1, 100, REFUSED)] = 5
    """The number of refused commands in a row after which nothing is asked for any more."""
    settle_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 2.0
    """The time in which a change settles."""
    settle_round_trips: Annotated[int, _of("round trips", 0, 100, CHANGES)] = 15
    """The round trips added to that: BBR needs some ten to find its rate."""
    settle_most_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 6.0
    """The longest time of settling."""
    judge_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 4.0
    """The settled time by which a change is judged."""
    judge_round_trips: Annotated[int, _of("round trips", 0, 1000, CHANGES)] = 60
    """The round trips by which a halving is judged, where that is longer: windows even out slowly."""
    look_back_s: Annotated[float, _of("s", 1, 60, CHANGES)] = 10.0
    """The span before a change that says what there was before it."""
    ease_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 1.0
    """The least time between two halvings."""
    ease_round_trips: Annotated[int, _of("round trips", 0, 100, CHANGES)] = 15
    """The same in round trips, where that is longer."""
    ease_most_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 8.0
    """The most time between two halvings."""
    ease_queue: Annotated[float, _of("of the queue", 0, 1, CHANGES)] = 0.5
    """The part of the queue that must be back before the next halving, so that the path stays full."""
    room_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 1.5
    """The time without a round trip through a queue after which there is room. The base RTT may be one of a
    queue that others never let empty; the queue does not stand still then."""
    quiet_room_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 10.0
    """The time in which rate given up in order to listen is not taken for room."""
    cooldown_s: Annotated[float, _of("s", 0, 600, CHANGES)] = 30.0
    """The cooldown after a failure, in which nothing is tried; it is twice as long after each further one."""
    cooldown_most_s: Annotated[float, _of("s", 0, 3600, CHANGES)] = 480.0
    """The longest cooldown."""
    unsure_s: Annotated[float, _of("s", 0, 600, CHANGES)] = 20.0
    """The time without recognising others after which the fair default comes back."""
    proven_s: Annotated[float, _of("s", 0, 600, CHANGES)] = 60.0
    """The same where the change has brought much."""
    proven_growth: Annotated[float, _of("times", 1, 10, CHANGES)] = 1.5
    """The growth of the rate from which a change has brought much."""
    recognise_streams: Annotated[int, _of("streams", 1, 16, LAB)] = 2
    """The most streams of our own beside which others are recognised; models are trained beside one."""
    quiet_again_s: Annotated[float, _of("s", 0, 3600, CHANGES)] = 60.0
    """The time until the streams are reduced again when nobody was there."""
    trial_keep: Annotated[float, _of("times", 0, 1, CHANGES)] = 0.6
    """The part of the rate before, or of an equal share, below which a change is undone."""
    trial_resent: Annotated[float, _of("of all sent", 0, 1, CHANGES)] = 0.1
    """The part sent again from which a change is undone."""
    trial_resent_more: Annotated[float, _of("times", 1, 100, CHANGES)] = 4.0
    """The growth of that part below which a change is not undone."""
    trial_resent_for: Annotated[float, _of("times", 1, 10, CHANGES)] = 1.25
    """The growth of the rate from which a change is not undone for that."""
    trial_brought: Annotated[float, _of("of the growth", 0, 1, CHANGES)] = 0.2
    """The part of the expected growth that a change must bring."""
    trial_growth: Annotated[float, _of("times", 1, 10, CHANGES)] = 1.1
    """The least growth that counts as expected."""

    # Whether the path is ours alone.
    exclusivity_ends_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 1.0
    """The time in which a queue of our own is to end."""
    exclusivity_less: Annotated[float, _of("of the rate", 0, 1, EXCLUSIVE)] = 0.05
    """The least reduction of our rate."""
    exclusivity_most_less: Annotated[float, _of("of the rate", 0, 1, EXCLUSIVE)] = 0.5
    """The largest reduction of our rate; after more a path that is half another's would look empty."""
    exclusivity_empty_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 0.5
    """The time without a queue after which it has ended."""
    exclusivity_longest_s: Annotated[float, _of("s", 0.5, 60, EXCLUSIVE)] = 3.0
    """The time after which a queue that is still there is not ours alone."""
    exclusivity_longest_round_trips: Annotated[float, _of("round trips", 1, 100, EXCLUSIVE)] = 10.0
    """The same in round trips, where that is longer."""
    exclusivity_back: Annotated[float, _of("of the queue", 0, 1, EXCLUSIVE)] = 0.5
    """The part of a queue of our own that comes back."""
    exclusivity_back_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 1.0
    """The time within which it comes back."""
    exclusivity_back_round_trips: Annotated[float, _of("round trips", 1, 100, EXCLUSIVE)] = 4.0
    """The same in round trips, where that is longer."""
    exclusivity_tries: Annotated[int, _of("tries", 1, 10, EXCLUSIVE)] = 3
    """The number of tries. What we lose ourselves does not come back either, nor do the bursts of streams
    that were never paced before (``capacity_probe``)."""
    exclusivity_ease_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 1.5
    """The time until a bound that has not ended the queue is lowered; windows are not what they were."""
    exclusivity_eases: Annotated[int, _of("times", 0, 10, EXCLUSIVE)] = 3
    """The number of times that a bound is lowered."""
    exclusivity_rates_s: Annotated[float, _of("s", 0.5, 5, EXCLUSIVE)] = 3.0
    """The span over which the rate of each stream is taken."""
    exclusivity_steady: Annotated[float, _of("times", 1, 10, BEGIN)] = 1.2
    """The growth of the rate beyond that of this span, above which the path has not been full all along."""

    # What the path carries.
    dip_freed: Annotated[float, _of("of what is ours", 0, 1, DIPS)] = 0.5
    """The most of what is ours on its way that a dip frees."""
    dip_queue_freed: Annotated[float, _of("of the queue", 0, 1, DIPS)] = 0.8
    """The most of the queue that a dip frees."""
    dip_assumed_ours: Annotated[float, _of("of the path", 0, 1, DIPS)] = 0.4
    """The part of the path taken for ours as long as the capacity is not known. After each dip that has
    emptied the queue half of the rest is added."""
    dip_most_ours: Annotated[float, _of("of the path", 0, 1, DIPS)] = 0.95
    """The most that is taken for ours."""
    dip_round_trips: Annotated[float, _of("round trips", 1, 10, DIPS)] = 2.0
    """The length of a dip in round trips."""
    dip_least_s: Annotated[float, _of("s", 0.05, 5, DIPS)] = 0.2
    """The least length of a dip."""
    dip_before_round_trips: Annotated[float, _of("round trips", 1, 10, DIPS)] = 3.0
    """The round trips before a dip in which the growth of others is measured."""
    dip_before_s: Annotated[float, _of("s", 0.05, 5, DIPS)] = 0.4
    """The least time before a dip in which it is measured."""
    dip_back_round_trips: Annotated[float, _of("round trips", 1, 10, DIPS)] = 3.0
    """The round trips after a dip until what was freed is on its way again."""
    dip_back: Annotated[float, _of("of the drop", 0, 1, DIPS)] = 0.75
    """The part of a drop that is undone after a dip that nobody spoilt."""
    dip_apart_s: Annotated[float, _of("s", 0, 10, DIPS)] = 0.6
    """The time to the next dip: by then rates are what they were, and known to be."""
    dip_apart_round_trips: Annotated[float, _of("round trips", 0, 10, DIPS)] = 1.0
    """The least round trips to the next dip."""
    dip_again_s: Annotated[float, _of("s", 0, 60, DIPS)] = 10.0
    """The time to the next dip after more of the path was taken: by then windows have grown to it."""
    dip_agree: Annotated[float, _of("of the lesser", 0, 1, DIPS)] = 0.2
    """The largest difference of two dips that agree."""
    dips_most: Annotated[int, _of("dips", 1, 20, DIPS)] = 4
    """The number of clear dips that is enough."""
    dip_clear: Annotated[float, _of("of the largest drop", 0, 1, DIPS)] = 0.25
    """The part of the largest drop from which a dip is clear; errors that all share spoil small ones."""
    dip_queue_s: Annotated[float, _of("s", 0, 1, DIPS)] = 0.002
    """The shortest queue for a dip."""
    dip_queue: Annotated[float, _of("of the queue at most", 0, 1, DIPS)] = 0.4
    """The part of the queue that a dip limited by it needs."""
    dip_drop_s: Annotated[float, _of("s", 0, 1, DIPS)] = 0.001
    """The least drop that tells something."""
    dip_answers: Annotated[int, _of("answers", 1, 1000, DIPS)] = 10
    """The least round trips before a dip, and in it, that tell something."""
    dip_median_of: Annotated[int, _of("round trips", 1, 100, DIPS)] = 5
    """The round trips in a median; the least of a dip is one of medians, for a single one would be noise."""
    dip_median_from: Annotated[int, _of("dips", 2, 20, DIPS)] = 4
    """The number of dips from which the capacity is their median."""
    dip_empty: Annotated[float, _of("of the queue", 0, 1, DIPS)] = 0.1
    """The part of the queue up to which it is empty."""
    dip_plateau: Annotated[float, _of("round trips", 0, 2, DIPS)] = 0.5
    """The round trips for which the least of a dip lasts."""
    dip_noises: Annotated[float, _of("times", 1, 100, DIPS)] = 4.0
    """The least drop in multiples of the noise before it."""
    dip_moved: Annotated[float, _of("times", 1, 100, DIPS)] = 2.0
    """The least drop in multiples of what the round trip moved by itself."""
    dip_high: Annotated[float, _of("quantile", 0.5, 1, DIPS)] = 0.9
    """The quantile of round trips after a dip that counts, for the few beyond may be noise."""
    dip_late_s: Annotated[float, _of("s", 0, 5, DIPS)] = 0.1
    """The delay after which the last round trips of a dip are known."""

    # How fast paced streams go.
    pace_every_s: Annotated[float, _of("s", 0.05, 10, PACE)] = 0.5
    """The time between two bounds: by then it is known what the last one did."""
    pace_every_round_trips: Annotated[float, _of("round trips", 0, 10, PACE)] = 2.0
    """The same in round trips, where that is longer."""
    pace_fast: Annotated[float, _of("of the path a second", 0, 1, PACE)] = 0.05
    """The rise of a bound below what it was when there was a queue last."""
    pace_slow: Annotated[float, _of("of the path a second", 0, 1, PACE)] = 0.005
    """The rise of a bound from there on, at first."""
    pace_alone: Annotated[float, _of("of the path a second", 0, 1, BEGIN)] = 0.2
    """The most that a bound rises on a path that is ours alone, until there was a queue."""
    pace_doubles_s: Annotated[float, _of("s", 0.1, 60, PACE)] = 3.0
    """The time in which the rise doubles, from slow to fast."""
    pace_near: Annotated[float, _of("of the last bound", 0, 1, PACE)] = 0.95
    """The part of the bound when there was a queue last, below which a bound rises fast."""
    pace_rest: Annotated[float, _of("of the path", 0, 1, OPS)] = 0.985
    """The part used of a path that is ours alone: to look for more sooner would be to make a queue."""
    pace_rest_s: Annotated[float, _of("s", 0, 600, OPS)] = 20.0
    """The time for which a bound rests there after the last queue."""
    pace_used: Annotated[float, _of("of the bound", 0, 1, PACE)] = 0.8
    """The part of a bound that must be used before it rises."""
    pace_even: Annotated[float, _of("of the bound", 0, 1, PACE)] = 0.95
    """The part of their bound below which streams may have unequal windows; then all are paced to more."""
    pace_step: Annotated[float, _of("times", 1, 10, PACE)] = 1.25
    """The step by which they are paced to more, until together they have the bound."""
    pace_limited: Annotated[float, _of("of the fastest", 0, 1, PACE)] = 0.85
    """The part of the fastest from which a stream is not bounded by its window. Where all have that, this
    host is slow, or the path is another's."""
    pace_worth: Annotated[float, _of("of the bound", 0, 1, PACE)] = 0.01
    """The smallest change of a bound."""
    start_round_trips: Annotated[float, _of("round trips", 1, 100, OPS)] = 15.0
    """The round trips for which Reno begins: ten segments become a thousand in seven."""

    # How many CUBIC streams there are beside paced streams.
    count_step_s: Annotated[float, _of("s", 0.05, 5, COUNT)] = 0.25
    """The length of the moments of which each gives its longest round trip."""
    count_cut: Annotated[float, _of("of the round trip", 0, 1, COUNT)] = 0.03
    """The part by which a round trip falls at a cut; of eight streams one cuts 4 %."""
    count_cut_s: Annotated[float, _of("s", 0.1, 10, COUNT)] = 0.9
    """The time within which it falls so."""
    count_cut_round_trips: Annotated[float, _of("round trips", 1, 100, COUNT)] = 2.0
    """The same in round trips, where that is longer. After twice as many, windows grow by the law again."""
    count_longest_s: Annotated[float, _of("s", 1, 600, COUNT)] = 15.0
    """The longest stretch; then another one begins."""
    count_steps: Annotated[int, _of("moments", 5, 1000, COUNT)] = 8
    """The fewest moments in a stretch; with few any polynomial fits."""
    count_error: Annotated[float, _of("of the streams", 0, 1, COUNT)] = 0.2
    """The largest standard error of what a stretch shows."""
    count_least: Annotated[float, _of("streams", 0, 1, COUNT)] = 0.5
    """Fewer streams are none that grow by the law."""
    count_shows: Annotated[float, _of("of the streams", 0.5, 1, COUNT)] = 0.88
    """The part of the streams that shows."""
    count_most: Annotated[int, _of("streams", 1, 100, COUNT)] = 8
    """The most streams that are counted: of more, a cut cannot be seen."""
    count_stretches_least: Annotated[int, _of("stretches", 1, 20, COUNT)] = 2
    """The fewest stretches that count."""
    count_stretches_most: Annotated[int, _of("stretches", 1, 20, COUNT)] = 5
    """The latest stretches, whose median counts."""
    count_kept_s: Annotated[float, _of("s", 10, 600, COUNT)] = 120.0
    """The time for which a stretch counts."""


TUNED = Tunables()
"""The values in use."""
