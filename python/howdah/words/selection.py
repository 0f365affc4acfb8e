"""A selection for people: what to take, how fast it is, how sure that is, and why not another."""

from collections.abc import Iterator

from howdah._native import format_duration, format_rate
from howdah.profiles.selection.answer import CoveringNumberBound, RankedConfiguration, SelectionReport
from howdah.profiles.selection.select import in_words
from howdah.text import count


def in_lines(found: SelectionReport, most: int) -> list[str]:
    """The report as lines of text, with ``most`` of the configurations that lost."""
    chosen = found.chosen
    lines = [
        f"At {format_duration(found.rtt_s)}: {_named(chosen)}",
        f"  The next run: {format_rate(chosen.rate_mid_bps)}, with 90 % between "
        f"{format_rate(chosen.rate_low_bps)} and {format_rate(chosen.rate_high_bps)}.",
        *(f"  {sentence}" for sentence in found.rests_on),
    ]
    if found.left_out:
        lines.append(f"  Not counted: {'; '.join(found.left_out)}.")
    lines += ["", "How sure", *(f"  {line}" for line in _sureness(found))]
    if found.others:
        shown = found.others[:most]
        lines += ["", "Why not", *(f"  {_named(other)}: {other.why_not}" for other in shown)]
        if len(found.others) > most:
            rest = max(other.rate_low_bps for other in found.others[most:])
            lines.append(f"  {len(found.others) - most} more, with lower bounds up to {format_rate(rest)}")
    return lines


def _sureness(found: SelectionReport) -> Iterator[str]:
    for each in found.bounds:
        yield (
            f"{count(each.runs, 'run')} at {format_duration(each.rtt_s)}: median between "
            f"{format_rate(each.median_low_bps)} and {format_rate(each.median_high_bps)} "
            f"with {each.median_confidence:.1%}; the next one there reaches "
            f"{format_rate(each.next_low_bps)} with {each.next_confidence:.1%}."
        )
    if not found.bounds:
        yield "Fewer than two runs of this configuration at this RTT: only the model says how sure this is."
    if found.covering is not None:
        yield f"The bound of the HPDC 2017 paper, with its sign corrected: {_verdict(found.covering)}."


def _verdict(covering: CoveringNumberBound) -> str:
    if covering.vacuous:
        runs = count(covering.runs, "run")
        return f"vacuous with {runs}, useful from {covering.runs_needed:,} on"
    most = f"10^{covering.log10_probability:.1f}"
    return f"the probability of an error above {covering.error_gbps:g} Gb/s is at most {most}"


def _named(candidate: RankedConfiguration) -> str:
    return in_words(candidate.congestion_control, candidate.streams, candidate.buffer_bytes)
