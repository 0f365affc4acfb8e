"""The texts of ``howdah profile``, ``select`` and ``report``."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rich.table import Table

from howdah._native import format_bytes, format_duration, format_rate
from howdah.profiles.profile import Shape
from howdah.profiles.selection import in_words
from howdah.profiles.selection.answer import CoveringNumberBound, RankedConfiguration, SelectionReport
from howdah.profiles.study import ConfigurationProfile, PathProfiles, Study
from howdah.text import apart, count

if TYPE_CHECKING:
    from pathlib import Path

    from howdah.report.contents import Contents

_REGRESSIONS = {"sigmoids": "sigmoids", "concave_convex": "concave-convex", "monotone": "monotone"}


def parts(found: Study) -> Iterator[Table | str]:
    """A title and two tables for each path, then what was left out."""
    for path in found.paths:
        yield _title(path)
        yield _means(path)
        if any(each.problem is None for each in path.configurations):
            yield ""
            yield _turns(path)
        yield from _problems(path)
    yield from _left_out(found)


def _title(path: PathProfiles) -> str:
    capacity = "" if path.capacity_bps is None else f", sigmoids scaled by {format_rate(path.capacity_bps)}"
    how = "encrypted" if path.encrypted else "plaintext"
    return f"{path.path}, {how}: {count(path.runs, 'run')}{capacity}; mean Gb/s by RTT in ms"


def _means(path: PathProfiles) -> Table:
    rtts = sorted({at.rtt_s for each in path.configurations for at in each.at})
    columns = apart(rtts, _ms, lambda rtt_s: f"{rtt_s * 1e3:.12g}")
    table = _configurations(*columns.values(), justify="right")
    sizes = _sizes(path)
    for each in path.configurations:
        means = {at.rtt_s: f"{at.mean_bps / 1e9:.3g}" for at in each.at}
        table.add_row(*_configuration(each, sizes), *(means.get(rtt, "") for rtt in rtts))
    return table


def _turns(path: PathProfiles) -> Table:
    table = _configurations("transition RTT (90 %)", "sigmoids", "fits better", justify="left")
    sizes = _sizes(path)
    for each in path.configurations:
        if each.transition is not None and each.sigmoids is not None:
            turn, sigmoids = each.transition, _ms(each.sigmoids.transition_rtt_s)
            ends = "–".join(dict.fromkeys(map(_ms, turn.interval_s)))
            found = _ms(turn.transition_rtt_s) if turn.shape == Shape.BOTH else turn.shape
            table.add_row(*_configuration(each, sizes), f"{found} ({ends})", sigmoids, _better(each))
    return table


def _configurations(*others: str, justify: Literal["left", "right"]) -> Table:
    """A table whose rows are a configuration and ``others``."""
    table = Table(box=None, pad_edge=False)
    for name in ("cc", "streams", "buffers"):
        table.add_column(name, justify="left" if name == "cc" else "right", no_wrap=True)
    for name in others:
        table.add_column(name, justify=justify, no_wrap=True)
    return table


def _sizes(path: PathProfiles) -> dict[int, str]:
    """The words of each size of buffers."""
    sizes = [int(each.buffer_bytes) for each in path.configurations if each.buffer_bytes is not None]
    return apart(sizes, format_bytes, lambda size: f"{size:,} B")


def _configuration(each: ConfigurationProfile, sizes: dict[int, str]) -> tuple[str, str, str]:
    size = "autotuned" if each.buffer_bytes is None else sizes[int(each.buffer_bytes)]
    return each.congestion_control, str(each.streams), size


def _better(each: ConfigurationProfile) -> str:
    if each.regressions is None:
        return "–"
    return _REGRESSIONS[each.regressions.best] if each.regressions.clear else "alike"


def _problems(path: PathProfiles) -> Iterator[str]:
    """The reasons why there is no transition RTT, each once."""
    reasons: dict[str, list[ConfigurationProfile]] = {}
    for each in path.configurations:
        if each.problem is not None:
            reasons.setdefault(each.problem, []).append(each)
    for reason, several in reasons.items():
        first = several[0]
        words = in_words(first.congestion_control, first.streams, first.buffer_bytes)
        more = f" and {len(several) - 1} more" if len(several) > 1 else ""
        yield f"No transition RTT of {words}{more}: {reason}"


def _left_out(found: Study) -> Iterator[str]:
    for number, noun, why in (
        (found.late, "late run", ", which this machine spoilt; --late counts them"),
        (found.files, "run", " of files, which disks may have limited; --files counts them"),
        (found.without_rtt, "run", " without a known RTT"),
    ):
        if number:
            yield f"Left out: {count(number, noun)}{why}"


def _ms(rtt_s: float) -> str:
    return f"{rtt_s * 1e3:.3g}"


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


def report_in_words(found: "Contents", file: "Path | None") -> str:
    """What a person reads of a report: where the page is, and how the statements came out."""
    plural = {"agrees": "agree", "differs": "differ"}
    verdicts = Counter(each.verdict for each in found.statements)
    there = sum(each.lacking is None for each in found.figures)
    lines = [
        f"{file}: {there} of {count(len(found.figures), 'figure')} over {found.path}",
        f"of {count(len(found.statements), 'statement')} of the papers "
        + ", ".join(
            f"{number} {verdict if number == 1 else plural.get(verdict, verdict)}"
            for verdict, number in verdicts.items()
        ),
    ]
    lines += [f"  figure {each.number}: {each.lacking}" for each in found.figures if each.lacking is not None]
    return "\n".join(lines)
