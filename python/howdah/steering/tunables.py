"""The numbers of steering, each with its unit, its range and the scenario or paper that it comes from."""

from typing import Annotated

import msgspec

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


def _of(unit: str, least: float, most: float, source: str) -> msgspec.Meta:
    return msgspec.Meta(ge=least, le=most, extra={"unit": unit, "source": source})


def lasting(least_s: float, round_trips: float, rtt_s: float) -> float:
    """The longer of a time and of so many round trips, in seconds."""
    return max(least_s, round_trips * rtt_s)


class Tunables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them; ``msgspec.convert`` refuses one that is unknown, or outside of its range."""

    # When a transfer is steered at all.
    wait_s: Annotated[float, _of("s", 0, 60, COPY)] = 2.0
    """Judging begins so long after the first byte; a shorter copy loads nothing for it."""
    least_left_s: Annotated[float, _of("s", 0, 600, COPY)] = 10.0
    """Nothing is begun with less left of a transfer, for it would be over before anything was gained."""
    few_streams: Annotated[int, _of("streams", 1, 64, LAB)] = 1
    """A transfer begins with so many streams beside others, until it is known who they are."""
    assumed_rtt_s: Annotated[float, _of("s", 0.0001, 10, COPY)] = 0.1
    """The RTT is taken for this where none is known."""

    # Round trips.
    echo_step_s: Annotated[float, _of("s", 0.001, 1, LAB)] = 0.01
    """An ICMP echo is sent so often."""
    tcp_info_step_s: Annotated[float, _of("s", 0.01, 1, COPY)] = 0.1
    """The streams' own RTT is read so often."""
    silent_s: Annotated[float, _of("s", 0.1, 60, COPY)] = 2.0
    """No answer will come where none came for so long."""
    before_answers: Annotated[int, _of("answers", 2, 100, BEFORE)] = 3
    """The length of the queue before the first byte is told by so many answers."""
    before_spread_answers: Annotated[int, _of("answers", 2, 1000, BEFORE)] = 10
    """The movement of the queue before the first byte is told by so many answers."""
    before_spread_s: Annotated[float, _of("s", 0.00001, 0.1, LAB)] = 0.0005
    """Others spread round trips by more, from the tenth to the ninetieth percentile of half a second. Without
    others 99 of 100 have less than 0.4 ms, beside a CUBIC stream they have more than 0.7 ms."""
    before_queue_s: Annotated[float, _of("s", 0, 1, BEFORE)] = 0.001
    """Others fill a queue that is longer than this."""
    before_queue: Annotated[float, _of("base RTTs", 0, 1, BEFORE)] = 0.02
    """Others fill a queue that is longer than this part of the base RTT, on a long path."""
    series_kept_s: Annotated[float, _of("s", 5, 600, SERIES)] = 60.0
    """The series reaches back so far."""
    verdict_every_s: Annotated[float, _of("s", 0.1, 60, SERIES)] = 1.0
    """A verdict is asked for so often."""
    route_every_s: Annotated[float, _of("s", 0.1, 60, SERIES)] = 2.0
    """Changes of route are looked for so often."""
    series_least_s: Annotated[float, _of("s", 0.1, 60, SERIES)] = 2.0
    """A shorter series is not judged."""
    series_samples: Annotated[int, _of("samples", 2, 1000, SERIES)] = 10
    """A series of fewer samples is not judged."""
    queue_high: Annotated[float, _of("quantile", 0.5, 1, SERIES)] = 0.98
    """This quantile of round trips tells how much queue the bottleneck has."""
    series_settle_s: Annotated[float, _of("s", 0, 60, SERIES)] = 1.0
    """The series after a change begins so much later."""
    series_settle_round_trips: Annotated[int, _of("round trips", 0, 1000, SERIES)] = 10
    """The series after a change begins so many round trips later, where that is longer."""
    rtt_lately_s: Annotated[float, _of("s", 0.05, 5, COPY)] = 0.3
    """The latest round trip is the median of so long."""

    # Senders that do not yield.
    overload_s: Annotated[float, _of("s", 0.05, 10, OVERLOAD)] = 0.3
    """An overload lasts so long at least; BBR leaves a short queue for 200 ms."""
    overload_round_trips: Annotated[int, _of("round trips", 1, 100, OVERLOAD)] = 4
    """An overload lasts so many round trips at least."""
    overload_lost: Annotated[float, _of("of the probes", 0, 1, OVERLOAD)] = 0.05
    """An overload loses so much of the probes at least."""
    overload_empty_s: Annotated[float, _of("s", 0.05, 10, OVERLOAD)] = 0.5
    """The queue between two overloads is empty for so long."""
    overload_full: Annotated[float, _of("of the queue", 0, 1, OVERLOAD)] = 0.8
    """A queue from this part of its most on is full."""
    overload_empty: Annotated[float, _of("of the queue", 0, 1, OVERLOAD)] = 0.2
    """A queue up to this part of its most is empty."""
    overload_queue: Annotated[float, _of("base RTTs", 0, 10, OVERLOAD)] = 0.1
    """A path whose queue is never longer is not overloaded."""
    overloads_sure: Annotated[int, _of("overloads", 1, 10, OVERLOAD)] = 2
    """The number of overloads that shows somebody who does not yield."""

    # Who is there, and what shares are worth.
    sure: Annotated[float, _of("probability", 0.5, 1, LAB)] = 0.7
    """Who is there is not known where it is less likely; then the fair default stays."""
    sure_to_take: Annotated[float, _of("probability", 0.5, 1, CHANGES)] = 0.8
    """BBR answers nobody who is less likely: those who yield to loss would have hardly anything."""
    record_likely: Annotated[float, _of("probability", 0, 1, COPY)] = 0.6
    """The record notes who is there from this probability on."""
    verdict_weight: Annotated[float, _of("of one", 0, 1, CHANGES)] = 0.4
    """A new verdict counts so much; verdicts of overlapping windows come once a second."""
    window_room: Annotated[float, _of("times", 1, 10, LAB)] = 2.0
    """Windows are to be so many times what the path carries: a queue needs some."""
    left_beside_bbr: Annotated[float, _of("of the path", 0, 0.5, VALUE)] = 0.06
    """BBR leaves so much to those that yield to loss, however short the queue is."""
    cubic_cut: Annotated[float, _of("of the window", 0, 1, "RFC 9438, section 4.6")] = 0.7
    """CUBIC goes on with so much of its window after a loss."""
    burst_loss: Annotated[float, _of("of the path", 0, 1, LAB)] = 0.5
    """Streams that yield to loss get so much of what senders that do not yield leave."""
    burst_bbr: Annotated[float, _of("of the path", 0, 1, LAB)] = 0.8
    """BBR gets so much of what senders that do not yield leave."""
    bound_worth: Annotated[float, _of("value", 0, 1, VALUE)] = 0.02
    """A bound costs so much value, for the capacity that it is taken from is not known well."""
    share_least: Annotated[float, _of("of the path", 0, 0.1, VALUE)] = 0.001
    """A share is never taken for less."""

    # What a transfer has had.
    looks_kept_s: Annotated[float, _of("s", 10, 600, CHANGES)] = 60.0
    """Looks are kept for so long."""
    peak_s: Annotated[float, _of("s", 0.1, 10, CHANGES)] = 1.0
    """The capacity is at least the least that arrived in each of some spans in a row, each so long."""
    peaks: Annotated[int, _of("spans", 1, 20, CHANGES)] = 3
    """The capacity is told by so many spans in a row."""
    hole_s: Annotated[float, _of("s", 0, 10, CHANGES)] = 2.0
    """Nothing is sent again in those spans and so long before: they may hold what a hole held back."""
    long_s: Annotated[float, _of("s", 1, 60, CHANGES)] = 10.0
    """A mean over so long tells the capacity where something was sent again."""
    span_least_s: Annotated[float, _of("s", 0.1, 5, CHANGES)] = 0.5
    """A shorter span tells nothing."""
    rates_s: Annotated[float, _of("s", 0.1, 5, RATES)] = 0.4
    """The rates of streams are over so long."""
    rates_round_trips: Annotated[float, _of("round trips", 1, 10, RATES)] = 2.0
    """The rates of streams are over so many round trips, where that is longer."""
    uneven_most: Annotated[float, _of("times", 1, 10, RATES)] = 2.0
    """A stream is paced to so many equal parts at most, for windows of others may have grown."""
    rates_kept_s: Annotated[float, _of("s", 1, 60, RATES)] = 5.0
    """The rates of streams are kept for so long."""
    squeezed: Annotated[float, _of("of an equal share", 0, 1, CHANGES)] = 0.7
    """Somebody does not yield who leaves us less of a full path."""
    squeezed_s: Annotated[float, _of("s", 0.5, 30, CHANGES)] = 3.0
    """Somebody does not yield when that has lasted for so long. Dips cost less."""
    path_lately_s: Annotated[float, _of("s", 0.5, 30, CHANGES)] = 3.0
    """Our part of the path is what we had in so long."""
    part_of_others: Annotated[float, _of("of the path", 0, 1, CHANGES)] = 0.85
    """Others have the rest of a full path where we have less."""
    part_ours: Annotated[float, _of("of the path", 0, 1, CHANGES)] = 0.93
    """Nobody has the rest of a path that is known where we have more."""

    # When a change is made and kept.
    first_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 5.0
    """Nothing is changed earlier: others who were cut by the beginning come back meanwhile."""
    doubt_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 7.0
    """Who has not been told by then may never be; the capacity is then measured beside them too."""
    last_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 5.0
    """Nothing is changed with less left."""
    gain: Annotated[float, _of("value", 0, 1, CHANGES)] = 0.05
    """A change is to bring so much."""
    verdicts_agree: Annotated[int, _of("verdicts", 1, 20, CHANGES)] = 2
    """A change is made when so many verdicts in a row prefer it."""
    dwell_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 5.0
    """A change comes so long after the one before."""
    settle_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 2.0
    """A change settles for so long."""
    settle_round_trips: Annotated[int, _of("round trips", 0, 100, CHANGES)] = 15
    """A change settles for so many round trips more: BBR needs some ten to find its rate."""
    settle_most_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 6.0
    """Settling takes no longer than this."""
    judge_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 4.0
    """A change is judged by so much settled time."""
    judge_round_trips: Annotated[int, _of("round trips", 0, 1000, CHANGES)] = 60
    """A halving is judged by so many round trips, where that is longer: windows even out slowly."""
    look_back_s: Annotated[float, _of("s", 1, 60, CHANGES)] = 10.0
    """What there was before a change is what there was in so long."""
    ease_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 1.0
    """Two halvings are so far apart."""
    ease_round_trips: Annotated[int, _of("round trips", 0, 100, CHANGES)] = 15
    """Two halvings are so many round trips apart, where that is longer."""
    ease_most_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 8.0
    """Two halvings are no further apart."""
    ease_queue: Annotated[float, _of("of the queue", 0, 1, CHANGES)] = 0.5
    """The next halving leaves the path full when so much of the queue is back."""
    room_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 1.5
    """There is room where no round trip was one through a queue for so long. The base RTT may be one of a
    queue that others never let empty; the queue does not stand still then."""
    quiet_room_s: Annotated[float, _of("s", 0, 60, CHANGES)] = 10.0
    """What is left in order to recognise others is not taken for room for so long."""
    cooldown_s: Annotated[float, _of("s", 0, 600, CHANGES)] = 30.0
    """Nothing is tried for so long after a failure, and for twice as long after each further one."""
    cooldown_most_s: Annotated[float, _of("s", 0, 3600, CHANGES)] = 480.0
    """Nothing is tried for no longer than this."""
    unsure_s: Annotated[float, _of("s", 0, 600, CHANGES)] = 20.0
    """The fair default comes back when who is there was not known for so long."""
    proven_s: Annotated[float, _of("s", 0, 600, CHANGES)] = 60.0
    """The fair default comes back only after so long where the change has brought much."""
    proven_growth: Annotated[float, _of("times", 1, 10, CHANGES)] = 1.5
    """A change has brought much when the rate grew so many times."""
    recognise_streams: Annotated[int, _of("streams", 1, 16, LAB)] = 2
    """Others are recognised beside so many streams of our own; models are trained beside one."""
    quiet_again_s: Annotated[float, _of("s", 0, 3600, CHANGES)] = 60.0
    """The streams are not reduced again for so long when nobody was there."""
    trial_keep: Annotated[float, _of("times", 0, 1, CHANGES)] = 0.6
    """A change is given up with less of what there was before, or of an equal share."""
    trial_resent: Annotated[float, _of("of all sent", 0, 1, CHANGES)] = 0.1
    """A change is given up where so much of all sent was sent again."""
    trial_resent_more: Annotated[float, _of("times", 1, 100, CHANGES)] = 4.0
    """A change is given up only for so many times what was sent again before."""
    trial_resent_for: Annotated[float, _of("times", 1, 10, CHANGES)] = 1.25
    """A change is given up only for less than so many times the rate."""
    trial_brought: Annotated[float, _of("of the growth", 0, 1, CHANGES)] = 0.2
    """A change is to bring so much of the growth that was expected."""
    trial_growth: Annotated[float, _of("times", 1, 10, CHANGES)] = 1.1
    """A growth is expected from here on."""

    # Whether the path is ours alone.
    exclusivity_ends_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 1.0
    """A queue of our own is to end in so long."""
    exclusivity_less: Annotated[float, _of("of the rate", 0, 1, EXCLUSIVE)] = 0.05
    """Our rate is reduced by so much at least."""
    exclusivity_most_less: Annotated[float, _of("of the rate", 0, 1, EXCLUSIVE)] = 0.5
    """Our rate is reduced by so much at most; else a path that is half another's would look empty."""
    exclusivity_empty_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 0.5
    """The queue has ended when there was none for so long."""
    exclusivity_longest_s: Annotated[float, _of("s", 0.5, 60, EXCLUSIVE)] = 3.0
    """A queue that is still there after so long is not ours alone."""
    exclusivity_longest_round_trips: Annotated[float, _of("round trips", 1, 100, EXCLUSIVE)] = 10.0
    """A queue has so many round trips to end, where that is longer."""
    exclusivity_back: Annotated[float, _of("of the queue", 0, 1, EXCLUSIVE)] = 0.5
    """A queue of our own comes back by so much."""
    exclusivity_back_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 1.0
    """A queue of our own comes back within so long."""
    exclusivity_back_round_trips: Annotated[float, _of("round trips", 1, 100, EXCLUSIVE)] = 4.0
    """A queue of our own has so many round trips to come back, where that is longer."""
    exclusivity_tries: Annotated[int, _of("tries", 1, 10, EXCLUSIVE)] = 3
    """The question is asked so often: what we lose ourselves does not come back either, nor do the bursts of
    streams that were never paced before (``capacity_probe``)."""
    exclusivity_ease_s: Annotated[float, _of("s", 0.1, 10, EXCLUSIVE)] = 1.5
    """A bound that has not ended the queue by then is lowered; windows are not quite what they were."""
    exclusivity_eases: Annotated[int, _of("times", 0, 10, EXCLUSIVE)] = 3
    """A bound is lowered so often."""
    exclusivity_rates_s: Annotated[float, _of("s", 0.5, 5, EXCLUSIVE)] = 3.0
    """What each stream has had is known from so long."""

    # What the path carries.
    dip_freed: Annotated[float, _of("of what is ours", 0, 1, DIPS)] = 0.5
    """A dip frees so much of what is ours on its way at most."""
    dip_queue_freed: Annotated[float, _of("of the queue", 0, 1, DIPS)] = 0.8
    """A dip frees so much of the queue at most."""
    dip_assumed_ours: Annotated[float, _of("of the path", 0, 1, DIPS)] = 0.4
    """So much is taken for ours as long as the capacity is not known; after each dip that has emptied the
    queue half of the rest is as well."""
    dip_most_ours: Annotated[float, _of("of the path", 0, 1, DIPS)] = 0.95
    """No more is taken for ours."""
    dip_round_trips: Annotated[float, _of("round trips", 1, 10, DIPS)] = 2.0
    """A dip lasts for so many round trips."""
    dip_least_s: Annotated[float, _of("s", 0.05, 5, DIPS)] = 0.2
    """A dip lasts for so long at least."""
    dip_before_round_trips: Annotated[float, _of("round trips", 1, 10, DIPS)] = 3.0
    """The growth of others is seen in so many round trips before a dip."""
    dip_before_s: Annotated[float, _of("s", 0.05, 5, DIPS)] = 0.4
    """The growth of others is seen in so long before a dip at least."""
    dip_back_round_trips: Annotated[float, _of("round trips", 1, 10, DIPS)] = 3.0
    """What was freed is on its way again so many round trips after a dip."""
    dip_back: Annotated[float, _of("of the drop", 0, 1, DIPS)] = 0.75
    """A drop is undone by so much after a dip that nobody spoilt."""
    dip_apart_s: Annotated[float, _of("s", 0, 10, DIPS)] = 0.6
    """The next dip comes so much later, when rates are what they were, and known to be."""
    dip_apart_round_trips: Annotated[float, _of("round trips", 0, 10, DIPS)] = 1.0
    """The next dip comes so many round trips later at least."""
    dip_again_s: Annotated[float, _of("s", 0, 60, DIPS)] = 10.0
    """The next dip comes so long after more of the path was taken, when windows have come to it."""
    dip_agree: Annotated[float, _of("of the lesser", 0, 1, DIPS)] = 0.2
    """Two dips that agree differ by no more."""
    dips_most: Annotated[int, _of("dips", 1, 20, DIPS)] = 4
    """The number of clear dips that is enough."""
    dip_clear: Annotated[float, _of("of the largest drop", 0, 1, DIPS)] = 0.25
    """A dip is clear with so much of the largest drop, for what is the same for all spoils the small ones."""
    dip_queue_s: Annotated[float, _of("s", 0, 1, DIPS)] = 0.002
    """A dip needs so long a queue."""
    dip_queue: Annotated[float, _of("of the queue at most", 0, 1, DIPS)] = 0.4
    """A dip that is limited by the queue needs so much of it."""
    dip_drop_s: Annotated[float, _of("s", 0, 1, DIPS)] = 0.001
    """A dip tells something by so large a drop."""
    dip_answers: Annotated[int, _of("answers", 1, 1000, DIPS)] = 10
    """A dip tells something by so many round trips, before it and in it."""
    dip_median_of: Annotated[int, _of("round trips", 1, 100, DIPS)] = 5
    """The least of a dip is one of medians of so many, for the least single one would be of their noise."""
    dip_median_from: Annotated[int, _of("dips", 2, 20, DIPS)] = 4
    """The capacity is the median of dips from so many on."""
    dip_empty: Annotated[float, _of("of the queue", 0, 1, DIPS)] = 0.1
    """A queue is empty with so little of it."""
    dip_plateau: Annotated[float, _of("round trips", 0, 2, DIPS)] = 0.5
    """The least of a dip lasts for so many round trips."""
    dip_noises: Annotated[float, _of("times", 1, 100, DIPS)] = 4.0
    """A drop is so many times the noise before it."""
    dip_moved: Annotated[float, _of("times", 1, 100, DIPS)] = 2.0
    """A drop is so many times what the round trip moved by itself."""
    dip_high: Annotated[float, _of("quantile", 0.5, 1, DIPS)] = 0.9
    """This quantile of round trips after a dip counts, for the few beyond may be noise."""
    dip_late_s: Annotated[float, _of("s", 0, 5, DIPS)] = 0.1
    """The last round trips of a dip are known so much after their time."""

    # How fast paced streams go.
    pace_every_s: Annotated[float, _of("s", 0.05, 10, PACE)] = 0.5
    """Two bounds are so far apart, when it is known what the last one did."""
    pace_every_round_trips: Annotated[float, _of("round trips", 0, 10, PACE)] = 2.0
    """Two bounds are so many round trips apart, where that is longer."""
    pace_fast: Annotated[float, _of("of the path a second", 0, 1, PACE)] = 0.05
    """A bound rises so fast below what it was when there was a queue last."""
    pace_slow: Annotated[float, _of("of the path a second", 0, 1, PACE)] = 0.005
    """A bound rises so fast from there on, at first."""
    pace_doubles_s: Annotated[float, _of("s", 0.1, 60, PACE)] = 3.0
    """The rise doubles in so long, from slow to fast."""
    pace_near: Annotated[float, _of("of the last bound", 0, 1, PACE)] = 0.95
    """A bound below this part of the one when there was a queue last rises fast."""
    pace_rest: Annotated[float, _of("of the path", 0, 1, OPS)] = 0.985
    """A path that is ours alone is used so far: to look for more sooner would be to make a queue."""
    pace_rest_s: Annotated[float, _of("s", 0, 600, OPS)] = 20.0
    """A bound rests there for so long after the last queue."""
    pace_used: Annotated[float, _of("of the bound", 0, 1, PACE)] = 0.8
    """A bound of which less is used does not rise."""
    pace_even: Annotated[float, _of("of the bound", 0, 1, PACE)] = 0.95
    """Streams that have less of their bound together may have unequal windows; then all are paced to more."""
    pace_step: Annotated[float, _of("times", 1, 10, PACE)] = 1.25
    """They are paced to more in steps of so much, until together they have the bound."""
    pace_limited: Annotated[float, _of("of the fastest", 0, 1, PACE)] = 0.85
    """A stream with so much of what the fastest has is not bounded by its window. Where all have that, this
    host is slow, or the path is another's."""
    pace_worth: Annotated[float, _of("of the bound", 0, 1, PACE)] = 0.01
    """A smaller change of a bound is not made."""
    start_round_trips: Annotated[float, _of("round trips", 1, 100, OPS)] = 15.0
    """Reno begins for so long: ten segments become a thousand in seven, and it suits nobody beside it."""


TUNED = Tunables()
"""The values in use."""
