"""A probing for people: a line while it lasts, and what it showed."""

import math
import sys
from typing import TextIO

from howdah._native import format_bytes, format_duration
from howdah.measure.probe import ProbeDisplay
from howdah.probing.prober import ProbeUpdate
from howdah.text import count, some
from howdah.values.probe import Burst, Others, Probe
from howdah.words.terminal import StandingLine

LINE_S = 10.0
"""How often a line is written where there is no terminal."""
LEAST_NAMED = 0.5
"""The least probability of a class that is named; below it another may be as likely."""
_SMALL_S = 1e-4
"""A time of which 10 µs are more than a tenth."""
_BY = {"icmp": "ICMP echo", "udp": "UDP"}
_UNLIKE = "on a path unlike those in the model's training"


class ProbeLines(ProbeDisplay):
    """Writes what must be said, and a line every LINE_S, for logs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._next_s = LINE_S
        self._progress = _ProbeProgress()

    def say(self, line: str) -> None:
        """Writes the line."""
        print(f"howdah: {line}", file=self._stream, flush=True)

    def look(self, taken: ProbeUpdate, for_s: float) -> None:
        """Writes a line when it is time."""
        line = self._progress.line(taken, for_s)
        if taken.elapsed_s >= self._next_s:
            self._next_s += LINE_S
            self.say(line)


class ProbeTerminal(ProbeLines):
    """Draws one line that stays in place and vanishes at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._line = StandingLine()

    def say(self, line: str) -> None:
        """Writes ``line`` above the line that stays."""
        self._line.stop()
        super().say(line)

    def look(self, taken: ProbeUpdate, for_s: float) -> None:
        """Draws the line."""
        self._line.start()
        self._line.draw(self._progress.line(taken, for_s))

    def close(self) -> None:
        """Takes the line away."""
        self._line.stop()


def display(*, quiet: bool, json: bool) -> ProbeDisplay:
    """What shows a probing, as for a copy."""
    if quiet:
        return ProbeDisplay()
    return ProbeTerminal() if sys.stderr.isatty() and not json else ProbeLines()


class _ProbeProgress:
    """The least round trip so far, and the last."""

    def __init__(self) -> None:
        self._least_s = math.inf
        self._now_s = math.inf

    def line(self, taken: ProbeUpdate, for_s: float) -> str:
        """The line ``3.1 of 7 s, least 20.08 ms, now 21.30 ms, 312 of 320 answered``."""
        known_s = [look.rtt_s for look in taken.looks if look.rtt_s is not None]
        if known_s:
            self._least_s, self._now_s = min(self._least_s, *known_s), known_s[-1]
        rtts = [] if math.isinf(self._least_s) else [f"least {ms(self._least_s)}, now {ms(self._now_s)}"]
        parts = [f"{min(taken.elapsed_s, for_s):.1f} of {for_s:g} s", *rtts]
        return ", ".join([*parts, f"{taken.counts.answered:,} of {taken.counts.sent:,} answered"])


def in_words(probe: Probe, host: str) -> str:
    """The lines of what a probing showed."""
    counts = probe.counts
    where = host if host == probe.address else f"{host} ({probe.address})"
    least = "" if probe.base_is_seen else " or less: there was nearly always a queue"
    known = counts.answered + counts.lost
    under_way = f", {counts.sent - known:,} on their way when it ended" if counts.sent > known else ""
    lines = [
        f"{where} by {_BY[probe.way]}: {count(counts.sent, 'probe')} in {format_duration(probe.elapsed_s)}, "
        f"{counts.lost:,} lost ({_share(counts.lost / known)}){under_way}",
        f"Base RTT  {ms(probe.base_rtt_s)}{least}",
        f"RTT       median {ms(probe.rtt_median_s)}, 90 % within {ms(probe.rtt_p90_s)}, "
        f"99 % within {ms(probe.rtt_p99_s)}, all within {ms(probe.rtt_max_s)}",
        f"Queue     {_queue(probe)}",
        f"Room      {_room(probe)}",
    ]
    if probe.bursts:
        lines.append(f"Sent      {_sent(probe.bursts)}; RTT, Queue and Room include their effect")
    if probe.others:
        lines.append(f"Others    {others(probe.others)}")
    lines += [
        f"Route     changed after {change.at_s:.2f} s: base RTT {ms(change.before_s)} before, "
        f"{ms(change.after_s)} since"
        for change in probe.route_changes
    ]
    if probe.gaps:
        gaps = some(f"{gap.from_s:.2f} to {gap.until_s:.2f} s" for gap in probe.gaps)
        lines.append(f"warning: no answers from {gaps}")
    return "\n".join([*lines, *(f"warning: {note}" for note in probe.notes)])


def others(found: Others) -> str:
    """The others on the path: ``1 BBR, 1 CUBIC (0.94)``, or why that cannot be told."""
    if found.background is None:
        return f"cannot tell: {found.why}"
    if found.probability is None:
        return f"{found.background}: hardly a probe met a queue, {_UNLIKE}"
    likely = sorted(found.classes.items(), key=lambda item: -item[1])
    if found.new and likely[0][0] == "nobody":
        return f"{_class(*likely[0])}, {_UNLIKE}"
    if found.new:
        return f"none of the known classes; nearest to it is {_class(*likely[0])}"
    if found.probability >= LEAST_NAMED:
        return _class(*likely[0])
    bbr = "" if found.bbr is None else f"; any BBR ({found.bbr:.2f})"
    return f"cannot tell: perhaps {' or '.join(_class(*each) for each in likely[:2])}{bbr}"


def _class(name: str, probability: float) -> str:
    return f"{name if name == 'nobody' else name.upper()} ({probability:.2f})"


def _sent(bursts: list[Burst]) -> str:
    """The words ``1.9 GB: cubic 5.1 s, bbr 5.1 s, cubic 5 s``."""
    each = some(f"{burst.congestion_control} {burst.end_s - burst.start_s:.1f} s" for burst in bursts)
    return f"{format_bytes(sum(burst.bytes for burst in bursts))}: {each}"


def ms(seconds: float) -> str:
    """A time in milliseconds, to 10 µs; a small one in microseconds."""
    if 0 < seconds < _SMALL_S:
        return f"{seconds * 1e6:.{1 if seconds < _SMALL_S / 10 else 0}f} µs"
    return f"{seconds * 1e3:.2f} ms"


def _queue(probe: Probe) -> str:
    if probe.queue_share == 0:
        return f"none of {ms(probe.queue_from_s)} or more"
    return (
        f"met by {_share(probe.queue_share)} of the probes; {ms(probe.queue_mean_s)} on average, "
        f"{ms(probe.queue_max_s)} at most"
    )


def _room(probe: Probe) -> str:
    if probe.queue_share == 0:
        return "no probe met a queue, so there is room; only a transfer shows how much"
    return f"the bottleneck was free for at most {_share(1 - probe.queue_share)} of the time"


def _share(fraction: float) -> str:
    """A fraction in percent; a small one is never shown as 0 %, nor a large one as 100 %."""
    if 0 < fraction < 0.001:
        return "under 0.1 %"
    if 0.999 < fraction < 1:
        return "over 99.9 %"
    return f"{fraction * 100:.3g} %"
