"""The summary of a probing, as its record keeps it."""

from collections.abc import Sequence

import numpy as np

from howdah import HowdahError
from howdah.arguments import NotHere
from howdah.probing.prober import ProbingResult, Rhythm
from howdah.probing.series import BLOCK_S, Events, Floats, answers, burst_means, events, step_series
from howdah.recognition.model import Undecided
from howdah.recognition.recognise import model_for, recognise
from howdah.recognition.recording import bursts_of, situation
from howdah.text import count
from howdah.values import probe as probed
from howdah.values.listened import NOBODY
from howdah.values.probe import Counts, ProbeKind

LEAST_LOOKS = 10
_IDLE_SHARE = 0.01
"""The share of probes that seem to meet a queue on an idle path: a host wakes late at times."""
_MANY_UNSTAMPED = 0.1
"""A larger share of the answers is worth a note."""


def summary(
    seen: ProbingResult, rhythm: Rhythm, way: ProbeKind, address: str, bursts: Sequence[probed.Burst] = ()
) -> probed.Probe:
    """The summary of a probing beside ``bursts`` of ours.

    Raises HowdahError when too few looks were answered to tell anything.
    """
    series = step_series(seen.looks, rhythm.step_s)
    if np.sum(~np.isnan(series.rtt_s)) < LEAST_LOOKS:
        raise NotHere(
            f"{address} answered only {seen.counts.answered:,} of {count(seen.counts.sent, 'probe')}, "
            "too few to tell anything; give a longer {for_s}"
        )
    bursts_rtt = burst_means(seen.looks, rhythm.burst.every_ns / 1e9) if rhythm.burst else None
    found = events(series)
    rtt_s = series.rtt_s[~np.isnan(series.rtt_s)]
    queue_s = found.queue_s[~np.isnan(found.queue_s)]
    median_s, p90_s, p99_s = map(float, np.quantile(rtt_s, [0.5, 0.9, 0.99]))
    return probed.Probe(
        way=way,
        address=address,
        elapsed_s=seen.elapsed_s,
        counts=seen.counts,
        base_rtt_s=float(found.base_s[-1]),
        base_is_seen=found.base_is_seen,
        noise_s=found.noise_s,
        rtt_median_s=median_s,
        rtt_p90_s=p90_s,
        rtt_p99_s=p99_s,
        rtt_max_s=float(rtt_s.max()),
        queue_from_s=found.queue_from_s,
        queue_share=found.queue_share,
        queue_mean_s=float(queue_s.mean()),
        queue_p90_s=float(np.quantile(queue_s, 0.9)),
        queue_max_s=float(queue_s.max()),
        route_changes=[
            probed.RouteChange(at_s=change.at_s, before_s=change.before_s, after_s=change.after_s)
            for change in found.changes
        ],
        gaps=series.gaps(BLOCK_S),
        step_s=series.step_s,
        rtt_s=_nulls_for_gaps(series.rtt_s),
        mean_of_ten_rtt_s=_nulls_for_gaps(bursts_rtt.rtt_s) if bursts_rtt else [],
        bursts=list(bursts),
        others=_others(seen, rhythm.step_s, found, bursts),
        notes=_notes(seen.counts),
    )


def _others(seen: ProbingResult, step_s: float, shown: Events, sent: Sequence[probed.Burst]) -> probed.Others:
    bursts = bursts_of(sent)
    try:
        found = recognise(*answers(seen.looks, step_s), float(shown.base_s[-1]), bursts=bursts)
    except HowdahError as error:
        # A damaged model of the user's takes nothing from what was measured.
        return probed.Others(why=str(error))
    if isinstance(found, Undecided):
        return probed.Others(why=found.why)
    model = model_for(situation(None, bursts=bool(bursts)))
    # A model sees queues in base RTTs. On a path as short as loopback, the host's own delays look like some.
    heard = shown.queue_s[-round(found.heard_s / step_s) :]
    idle = found.new and np.mean(heard > shown.queue_from_s) < _IDLE_SHARE
    return probed.Others(
        background=NOBODY if idle else found.background,
        probability=None if idle else found.probability,
        bbr=None if idle else found.bbr,
        new=found.new,
        heard_s=found.heard_s,
        classes=found.classes,
        model=model.digest if model else None,
    )


def _notes(counts: Counts) -> list[str]:
    notes = []
    if counts.skipped:
        notes.append(f"{count(counts.skipped, 'probe')} not sent: this host was asleep or too busy")
    if counts.unstamped > _MANY_UNSTAMPED * counts.answered:
        notes.append(
            f"{count(counts.unstamped, 'answer')} without a usable time stamp of the kernel: the "
            "clock was set, or there is none; their round trips include the time to wake this program"
        )
    for number, what in (
        (counts.late, "came after 3 s and counts as lost"),
        (counts.doubled, "came twice"),
        (counts.reordered, "came after the answer to a later probe"),
        (counts.foreign, "came to nothing that was sent from here"),
    ):
        if number:
            notes.append(f"{count(number, 'answer')}: {what}")
    return notes


def _nulls_for_gaps(rtt_s: Floats) -> list[float | None]:
    return [None if np.isnan(each) else float(each) for each in rtt_s]
