"""Why a copy was not faster: the time of its streams, attributed to what they waited for.

A stream is a pipeline of three: its thread at the sender, the network, its thread at the receiver. Each
thread's time is booked (crates/transfer, end/spent.rs), and the kernel says in samples what its socket was
limited by. The part that is busy all the time is the bottleneck, and the others wait for it. So the busiest
is counted with all the time that it was busy. What is left goes to the others as far as they were busy, and
to the network where nothing else is known.

Two corrections come before that:

- A thread that needs a processor and has none is late with whatever it does, and is stopped in calls that
  have nothing to do with it. The scheduler says how long that was, and it counts as processor time. So does
  what its reads, writes and sends ran.
- What the kernel says of the sockets parts the time of the network: the receive window or the send buffer,
  the pacing that was asked for, slow start. The path has what is left.

The times before the first byte and after the last one are the start and the end. What the receiver flushes
at the end is its disk's. An outage is apart: most of it is booked as a wait for the network, and nobody books
what passes between a connection that broke and the one that replaces it. Streams that rest count for nothing
(howdah.values.bottleneck).
"""

from collections.abc import Callable, Iterable

import msgspec

from howdah.values.bottleneck import Bottleneck, Cause, Share, without_rests
from howdah.values.outcome import Doing, Outcome, Sample, Spent, StreamOutcome

_SHOWN_S = 1e-3
"""Less time of slow start is not worth words."""
SMALL_FILE_BYTES = 64 << 10
"""The size in bytes: below it on average, waits for flushes and names are the price of many files."""
LARGE_FILE_BYTES = 16 << 20
"""No wait is the price of many files where files are larger than this on average, skipped ones counted."""
_PACED = 0.85
"""The part of the pacing that was asked for from which on it was the limit."""
_MAY_WAIT: tuple[Doing, ...] = ("opening", "waiting", "disk", "flush", "naming", "turn", "socket")
"""What a thread does that needs more than a processor."""
_NETWORK = frozenset({Cause.PATH, Cause.WINDOW, Cause.START, Cause.PACING})
_GROWS = 1.25
"""Slow start, which doubles the window in a round trip, is over when it grows less than this in two."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of the sender, and is known beside the counters."""

    connect_s: float = 0.0
    """The time from the start of the command to the far end's answer."""
    pacing_bps: float | None = None
    """The most that all streams might send, by the plan or a share; null: as much as they could."""
    by_share: bool = False
    """Whether that is a share of a guaranteed path."""
    share_most_bps: float | None = None
    """The most that this share can become; null: there is none, or nobody knows."""
    pipe: bool = False
    """Whether the sender reads a pipe."""
    others: str | None = None
    """Who else was recognised on the path; null: nobody, or nobody listened."""
    known_bps: float | None = None
    """The most that an earlier copy had over this path, or what its profile predicts; null: not known."""
    capacity_bps: float | None = None
    """What the path carries, where the copy measured that; null: it did not."""
    arrived_bps: float | None = None
    """The most that arrived for some seconds beside others who were recognised; null: none were."""


class Thread(msgspec.Struct, frozen=True):
    """What threads of one end were busy with, in seconds, once the lack of processors is parted off."""

    disk_s: float = 0.0
    cpu_s: float = 0.0
    """Digests, and what the kernel copied for it."""
    sealing_s: float = 0.0
    files_s: float = 0.0
    """Opening, making and naming files."""
    next_s: float = 0.0
    """Waiting for the next block: for the scan, for answers, for a pipe."""
    flush_s: float = 0.0
    naming_s: float = 0.0
    turn_s: float = 0.0
    waits_s: float = 0.0
    """The wait for the network."""
    starved: float = 1.0
    """How many times longer what only computes took than it ran."""

    @property
    def busy_s(self) -> float:
        """All but the waits for the network."""
        own = self.disk_s + self.cpu_s + self.sealing_s + self.files_s + self.next_s
        return own + self.flush_s + self.naming_s + self.turn_s

    @property
    def all_s(self) -> float:
        """All."""
        return self.busy_s + self.waits_s


def of_outcome(outcome: Outcome, asked: Asked) -> Bottleneck | None:
    """Where the time of a copy went that has ended well; None where nothing moved, or nothing was booked."""
    if not outcome.bytes and not outcome.files:
        return None
    outcome = without_rests(outcome)
    senders = [_until_arrived(stream) for stream in outcome.streams]
    moving_s = max((spent.worked_s for spent in senders), default=0.0)
    if outcome.setup_s is None or moving_s <= 0 or outcome.dry_run_plan is not None:
        return None
    moving_s = min(moving_s, max(outcome.elapsed_s - outcome.setup_s, 1e-9))
    start_s = asked.connect_s + outcome.setup_s
    end_s = max(0.0, outcome.elapsed_s - outcome.setup_s - moving_s)
    flush_s = min(outcome.finishing_s, end_s)
    sender = thread(summed(_as_long(senders)), encrypted=outcome.encrypted)
    receivers = [stream.receiver for stream in outcome.streams if stream.receiver is not None]
    receiver = thread(summed(_as_long(receivers)), encrypted=outcome.encrypted)
    mean_bytes = outcome.bytes / max(1, outcome.files)
    small = outcome.files > len(senders) and mean_bytes < SMALL_FILE_BYTES
    known = outcome.files + outcome.files_skipped
    moved = Moved(
        sender=sender,
        receiver=receiver,
        sockets=summed(senders),
        flushing=_flushing(outcome.naming),
        small=small,
        few=known <= len(senders) or outcome.bytes >= LARGE_FILE_BYTES * known,
        ramp=_within(_mean(outcome, _ramp), moving_s),
        filled=_mean(outcome, _filled),
        drained=_mean(outcome, _drained),
        rate_bps=outcome.bytes * 8 / moving_s,
        evidence=_of_path(outcome, asked),
    )
    total_s = start_s + moving_s + end_s
    parts = {cause: share * moving_s for cause, share in moved.shares(asked).items()}
    parts[Cause.START] = parts.get(Cause.START, 0.0) + start_s
    parts[Cause.END] = end_s - flush_s
    flushed = Cause.SMALL_FILES if small else Cause.RECEIVER_DISK
    parts[flushed] = parts.get(flushed, 0.0) + flush_s
    _part_off_outages(parts, outcome)
    slow_s = max(0.0, parts[Cause.START] - start_s)
    texts = moved.texts(asked)
    waited = moved.few and sender.next_s > 0.01 * sender.all_s
    slow = "slow start and waits for the first answers" if waited else "slow start"
    grew = f", {slow} {slow_s:.2g} s" if slow_s >= _SHOWN_S else ""
    texts[Cause.START] = f"login and handshakes {start_s:.2g} s{grew}"
    texts[Cause.END] = f"{parts[Cause.END]:.2g} s after the last byte was sent"
    texts[Cause.OUTAGE] = f"no answer for {outcome.outage_s:.0f} s"
    if flush_s > 0.1 * end_s:
        texts[flushed] = f"{texts.get(flushed, '')}, {flush_s:.2g} s of flushing at the end".lstrip(", ")
    shares = _sorted(parts, total_s, texts)
    main = shares[0]
    busiest = moved.busiest_without(main.cause) * moving_s / total_s
    least = max(1 - main.share, busiest)
    known_bps = asked.known_bps
    if main.cause is Cause.PATH:
        # Beside others it gives what they leave, and this copy has seen how much that was.
        known_bps = max(filter(None, (known_bps, asked.arrived_bps)), default=None)
    most_bps = min(filter(None, (known_bps, asked.capacity_bps, asked.share_most_bps)), default=None)
    if most_bps is not None:
        # What the path has given is more than any cause but the path itself allows for.
        moved_s = outcome.bytes * 8 / most_bps
        of_network = main.cause in {Cause.PATH, Cause.PACING}
        least = max(least, min(1.0, moved_s / (moving_s if of_network else total_s)))
    return Bottleneck(
        total_s=total_s,
        shares=shares,
        rate_bps=moved.rate_bps if outcome.bytes else None,
        known_bps=known_bps,
        capacity_bps=asked.capacity_bps,
        share_most_bps=asked.share_most_bps,
        by_share=asked.by_share,
        faster=1 / max(least, 0.01),
    )


def of_progress(
    sender: Spent, receiver: Spent, asked: Asked, *, encrypted: bool, mean_bytes: float
) -> list[Share]:
    """Where the time of streams at work goes, without start and end; empty where nothing is known."""
    at_sender, at_receiver = thread(sender, encrypted=encrypted), thread(receiver, encrypted=encrypted)
    if mean_bytes >= LARGE_FILE_BYTES and not asked.pipe:
        # Which streams rest, and since when, the sums do not say.
        at_sender = msgspec.structs.replace(at_sender, next_s=0.0)
    if at_sender.all_s <= 0:
        return []
    moved = Moved(
        sender=at_sender,
        receiver=at_receiver,
        sockets=sender,
        flushing=1.0,
        small=0 < mean_bytes < SMALL_FILE_BYTES,
        few=False,
        ramp=0.0,
        filled=0.0,
        drained=0.0,
        rate_bps=0.0,
        evidence="",
    )
    return _sorted(moved.shares(asked), 1.0, moved.texts(asked))


def summed(each: Iterable[Spent]) -> Spent:
    """What several threads have spent together."""
    wall_s: dict[Doing, float] = {}
    cpu_s: dict[Doing, float] = {}
    delayed_s = busy_s = rwnd_s = sndbuf_s = 0.0
    for spent in each:
        for doing, time_s in spent.wall_s.items():
            wall_s[doing] = wall_s.get(doing, 0.0) + time_s
        for doing, time_s in spent.cpu_s.items():
            cpu_s[doing] = cpu_s.get(doing, 0.0) + time_s
        delayed_s += spent.delayed_s
        busy_s, rwnd_s = busy_s + spent.busy_s, rwnd_s + spent.rwnd_limited_s
        sndbuf_s += spent.sndbuf_limited_s
    return Spent(
        wall_s=wall_s,
        cpu_s=cpu_s,
        delayed_s=delayed_s,
        busy_s=busy_s,
        rwnd_limited_s=rwnd_s,
        sndbuf_limited_s=sndbuf_s,
    )


def thread(spent: Spent, *, encrypted: bool) -> Thread:
    """What threads were busy with: of what may wait, the part that computed or was late is taken off."""
    wall, ran = spent.wall_s, spent.cpu_s
    computes_s = wall.get("digest", 0.0) + wall.get("rest", 0.0)
    ran_s = ran.get("digest", 0.0) + ran.get("rest", 0.0)
    waits = {doing: max(0.0, wall.get(doing, 0.0) - ran.get(doing, 0.0)) for doing in _MAY_WAIT}
    copied_s = sum(wall.get(doing, 0.0) - waits[doing] for doing in _MAY_WAIT)
    # What the scheduler made late beyond what only computes; it says so of the whole thread.
    late_s = max(0.0, spent.delayed_s - max(0.0, computes_s - ran_s))
    if not spent.delayed_s and ran_s > 0:
        late_s = max(0.0, computes_s / ran_s - 1) * copied_s
    waits_s = sum(waits.values())
    late = min(1.0, late_s / waits_s) if waits_s > 0 else 0.0
    waits = {doing: time_s * (1 - late) for doing, time_s in waits.items()}
    cpu_s = sum(wall.get(doing, 0.0) - waits[doing] for doing in _MAY_WAIT)
    rest_s = wall.get("rest", 0.0)
    # What was late is digests and records as well, as each of them ran.
    sealing = rest_s / computes_s if encrypted and computes_s > 0 else 0.0
    shared_s = min(late * waits_s, cpu_s)
    ran_s += copied_s
    return Thread(
        disk_s=waits["disk"],
        cpu_s=wall.get("digest", 0.0) + cpu_s - sealing * shared_s + (0.0 if encrypted else rest_s),
        sealing_s=(rest_s if encrypted else 0.0) + sealing * shared_s,
        files_s=waits["opening"],
        next_s=waits["waiting"],
        flush_s=waits["flush"],
        naming_s=waits["naming"],
        turn_s=waits["turn"],
        waits_s=waits["socket"],
        starved=(ran_s + spent.delayed_s) / ran_s if ran_s > 0 else 1.0,
    )


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The time in which payload moved."""

    sender: Thread
    receiver: Thread
    sockets: Spent
    flushing: float
    """The part of the naming of files for which the thread flushed them."""
    small: bool
    """Whether there were many small files."""
    few: bool
    """Whether the files were so few or so large that no wait for them is the price of many files."""
    ramp: float
    """The part of the time in which streams were in slow start."""
    filled: float
    """The part of the time in which nothing but the network limited the sockets."""
    drained: float
    """The part of the time behind that in which sockets had sent all that they had, though nothing
    that the path does limited them."""
    rate_bps: float
    evidence: str
    """What was seen of the path."""

    def shares(self, asked: Asked) -> dict[Cause, float]:
        """The parts of the time; together 1."""
        ends = (self._sender(asked), self._receiver())
        sends, receives = (sum(parts.values()) for parts in ends)
        found: dict[Cause, float] = {}
        left, network = 1.0, 0.0
        # The busiest comes first, with all that it was busy; those after it have what that leaves.
        for busy, parts in sorted([(sends, ends[0]), (receives, ends[1]), (self.filled, None)], key=_by_time):
            taken = min(1.0, busy) if left == 1.0 else left * min(1.0, busy)
            left -= taken
            if parts is None:
                network += taken
                continue
            for cause, part in parts.items():
                found[cause] = found.get(cause, 0.0) + taken * _within(part, busy)
        for cause, part in self._network(network + left, sends, receives, asked).items():
            found[cause] = found.get(cause, 0.0) + part
        return found

    def busiest_without(self, cause: Cause) -> float:
        """The part of the time for which the busiest was busy with anything else."""
        ends = (self._sender(Asked()), self._receiver())
        left = [sum(part for one, part in parts.items() if one is not cause) for parts in ends]
        return max(*left, 0.0 if cause in _NETWORK else self.filled)

    def texts(self, asked: Asked) -> dict[Cause, str]:
        """What shows each cause."""
        sends, receives = self.sender, self.receiver
        window_s, buffer_s = self.sockets.rwnd_limited_s, self.sockets.sndbuf_limited_s
        busy_s = max(self.sockets.busy_s, 1e-9)
        return {
            Cause.SOURCE_DISK: f"reading {_part(sends.disk_s, sends.all_s)} of the sender's time",
            Cause.SOURCE_CPU: f"digests and copies {_part(sends.cpu_s, sends.all_s)} of the sender's time"
            + _late(sends),
            Cause.SEALING: f"encryption {_part(sends.sealing_s, sends.all_s)} of the sender's time"
            + _late(sends),
            Cause.WINDOW: f"receive window the limit {_part(window_s, busy_s)} of the time, send buffer "
            f"{_part(max(buffer_s / busy_s, self.drained), 1.0)}",
            Cause.PACING: f"waits for the limit {_part(sends.turn_s, sends.all_s)} of the sender's time"
            if sends.turn_s > 0.01 * sends.all_s or asked.pacing_bps is None
            else "the streams sent what their pacing lets them",
            Cause.PATH: self.evidence,
            Cause.RECEIVER_CPU: "digests, decryption and copies "
            f"{_part(receives.cpu_s + receives.sealing_s, receives.all_s)} of the receiver's time"
            + _late(receives),
            Cause.RECEIVER_DISK: f"writing {_part(receives.disk_s, receives.all_s)} of the receiver's time, "
            f"waits for flushes {_part(receives.flush_s + receives.naming_s, receives.all_s)}",
            Cause.SMALL_FILES: "opening and waiting for files "
            f"{_part(sends.files_s + sends.next_s, sends.all_s)} of "
            f"the sender's time, making them {_part(receives.files_s, receives.all_s)} of the receiver's",
        }

    def _sender(self, asked: Asked) -> dict[Cause, float]:
        """What its thread was busy with, of all its time."""
        one = self.sender
        found = dict.fromkeys(Cause, 0.0)
        found[Cause.PACING] += one.turn_s
        answers = Cause.START if self.few else Cause.SMALL_FILES
        found[Cause.SOURCE_DISK if asked.pipe else answers] += one.next_s
        # Each small file costs more than its bytes. A file system may take long to open a large one, too.
        small = self.small
        found[Cause.SMALL_FILES if small else Cause.SOURCE_DISK] += one.disk_s + one.files_s
        found[Cause.SMALL_FILES if small else Cause.SOURCE_CPU] += one.cpu_s
        found[Cause.SMALL_FILES if small else Cause.SEALING] += one.sealing_s
        return _over(found, one.all_s)

    def _receiver(self) -> dict[Cause, float]:
        one, small = self.receiver, self.small
        found = dict.fromkeys(Cause, 0.0)
        flushing = 1.0 if self.few else 0.0 if small else self.flushing
        found[Cause.SMALL_FILES] += (1 - flushing) * one.naming_s
        found[Cause.RECEIVER_DISK] += flushing * one.naming_s + one.flush_s
        found[Cause.SMALL_FILES if small else Cause.RECEIVER_DISK] += one.disk_s + one.files_s
        found[Cause.SMALL_FILES if small else Cause.RECEIVER_CPU] += one.cpu_s + one.sealing_s
        return _over(found, one.all_s)

    def _network(self, network: float, sends: float, receives: float, asked: Asked) -> dict[Cause, float]:
        """Parts what both ends waited for."""
        found = {Cause.START: min(network, self.ramp)}
        left = network - found[Cause.START]
        if asked.pacing_bps is not None and self.rate_bps >= _PACED * asked.pacing_bps:
            return found | {Cause.PACING: left}
        # A closed window is the receiver's own time as long as it was busy, and an idle socket the sender's.
        window = _within(self.sockets.rwnd_limited_s, self.sockets.busy_s) - receives
        buffer = max(_within(self.sockets.sndbuf_limited_s, self.sockets.busy_s), self.drained)
        found[Cause.WINDOW] = min(left, max(0.0, window) + max(0.0, buffer - sends - receives))
        left -= found[Cause.WINDOW]
        # A path that had nothing to carry was waited for because what came, came in bursts.
        idle = left * min(self.drained, sends)
        for cause, part in self._sender(asked).items():
            found[cause] = found.get(cause, 0.0) + idle * _within(part, sends)
        found[Cause.PATH] = left - idle if sends > 0 else left
        return found


def _part_off_outages(parts: dict[Cause, float], outcome: Outcome) -> None:
    """Takes the outages from what they count as otherwise.

    That is a wait for the network. But of connections that were replaced nobody booked it, and it is missing
    before the end.
    """
    found = (Cause.END, Cause.PATH) if outcome.connections_replaced else (Cause.PATH, Cause.END)
    left_s = outcome.outage_s
    for cause in found:
        taken_s = min(left_s, parts.get(cause, 0.0))
        parts[cause] = parts.get(cause, 0.0) - taken_s
        left_s -= taken_s
    parts[Cause.OUTAGE] = outcome.outage_s - left_s


def _until_arrived(stream: StreamOutcome) -> Spent:
    """The sender's thread without its wait for the word that all had arrived: that is part of the end."""
    spent = stream.sender
    if stream.receiver is None or not stream.receiver.worked_s:
        return spent
    waited_s = max(0.0, spent.worked_s - stream.receiver.worked_s)
    socket_s = max(0.0, spent.wall_s.get("socket", 0.0) - waited_s)
    return msgspec.structs.replace(spent, wall_s={**spent.wall_s, "socket": socket_s})


def _as_long(threads: list[Spent]) -> list[Spent]:
    """The threads as if none had ended before the last one.

    A copy takes as long as its last stream. Where one thread ended before, what the last one did longer than
    that thread fills the time between.
    """
    last = max(threads, key=lambda each: each.worked_s, default=None)
    return [] if last is None else [_filled_by(last, one) for one in threads]


def _filled_by(last: Spent, one: Spent) -> Spent:
    longer = {
        doing: max(0.0, time_s - one.wall_s.get(doing, 0.0))
        for doing, time_s in last.wall_s.items()
        if doing != "start"
    }
    missing_s = last.worked_s - one.worked_s
    part = _within(missing_s, sum(longer.values()))
    wall_s, cpu_s = dict(one.wall_s), dict(one.cpu_s)
    for doing, time_s in longer.items():
        wall_s[doing] = wall_s.get(doing, 0.0) + part * time_s
        ran = _within(last.cpu_s.get(doing, 0.0), last.wall_s[doing])
        cpu_s[doing] = cpu_s.get(doing, 0.0) + ran * part * time_s
    late_s = last.delayed_s * _within(missing_s, last.worked_s)
    return msgspec.structs.replace(one, wall_s=wall_s, cpu_s=cpu_s, delayed_s=one.delayed_s + late_s)


def _flushing(naming: Spent) -> float:
    busy_s = sum(naming.wall_s.get(doing, 0.0) for doing in ("flush", "naming", "rest"))
    return naming.wall_s.get("flush", 0.0) / busy_s if busy_s > 0 else 1.0


def _mean(outcome: Outcome, part: Callable[[list[Sample], float], float]) -> float:
    """The mean of something over all streams in their time from the first byte on, by how long each sent."""
    by_stream: dict[int, list[Sample]] = {}
    for sample in outcome.samples:
        if outcome.setup_s is not None and sample.t_s > outcome.setup_s:
            by_stream.setdefault(sample.stream, []).append(sample)
    works = [_at_work(samples) for samples in by_stream.values()]
    parts = sum(len(samples) * part(samples, outcome.setup_s or 0.0) for samples in works)
    return parts / sum(map(len, works)) if works else 0.0


def _at_work(samples: list[Sample]) -> list[Sample]:
    """Those until all was acknowledged."""
    whole = samples[-1].bytes_acked
    return samples[: 1 + sum(each.bytes_acked < whole for each in samples)]


def _ramp(samples: list[Sample], begins_s: float) -> float:
    """The seconds of slow start: no threshold yet, nothing lost, and the window still grew."""
    return _ramp_ends_s(samples, begins_s) - begins_s


def _ramp_ends_s(samples: list[Sample], begins_s: float) -> float:
    ends_s = begins_s
    for index, sample in enumerate(samples):
        later = next((each for each in samples[index:] if each.t_s > sample.t_s + 2 * sample.rtt_s), None)
        if sample.ssthresh is not None or sample.retransmissions:
            return ends_s
        if later is not None and later.cwnd < _GROWS * sample.cwnd:
            return ends_s
        ends_s = sample.t_s
    return ends_s


def _filled(samples: list[Sample], begins_s: float) -> float:
    """The part of samples that the kernel calls limited by the congestion window.

    It is no more than the rate is of what was delivered then: a sender in bursts is seen in their midst.
    """
    full = [each for each in samples if each.limited == "cwnd"]
    delivered_bps = sum(each.delivery_rate_bps for each in full) / len(full) if full else 0.0
    took_s = samples[-1].t_s - begins_s
    if not delivered_bps or took_s <= 0:
        return 0.0
    rate_bps = samples[-1].bytes_acked * 8 / took_s
    return min(len(full) / len(samples), rate_bps / delivered_bps)


def _drained(samples: list[Sample], begins_s: float) -> float:
    """The part of samples behind slow start that the kernel calls limited by what it was given."""
    ends_s = _ramp_ends_s(samples, begins_s)
    behind = sum(each.t_s > ends_s and each.limited in {"app", "sndbuf"} for each in samples)
    return behind / len(samples)


def _of_path(outcome: Outcome, asked: Asked) -> str:
    """``round trip 41 ms of 20 ms at the least, 0.12 % sent again, 1 cubic recognised beside it``."""
    parts = []
    samples = [sample for sample in outcome.samples if sample.rtt_s > 0]
    if samples:
        mean_s = sum(sample.rtt_s for sample in samples) / len(samples)
        least_s = min(sample.min_rtt_s for sample in samples)
        parts.append(f"round trip {mean_s * 1e3:.3g} ms, {least_s * 1e3:.3g} ms at the least")
    sent = sum(stream.bytes for stream in outcome.streams) / 1448
    if outcome.retransmissions and sent:
        parts.append(f"{outcome.retransmissions / sent:.2g} of the segments sent again")
    if asked.others:
        parts.append(f"{asked.others} recognised beside it")
    return ", ".join(parts)


def _sorted(parts: dict[Cause, float], total: float, texts: dict[Cause, str]) -> list[Share]:
    shares = [
        Share(cause=cause, share=part / total, evidence=texts.get(cause, "")) for cause, part in parts.items()
    ]
    return sorted(shares, key=lambda share: -share.share)


def _by_time(part: tuple[float, dict[Cause, float] | None]) -> float:
    return -part[0]


def _over(parts: dict[Cause, float], whole: float) -> dict[Cause, float]:
    return {cause: part / whole if whole > 0 else 0.0 for cause, part in parts.items()}


def _within(part_s: float, whole_s: float) -> float:
    return min(1.0, part_s / whole_s) if whole_s > 0 else 0.0


def _part(part_s: float, whole_s: float) -> str:
    return f"{_within(part_s, whole_s):.0%}"


def _late(one: Thread) -> str:
    if one.starved <= 1.5:
        return ""
    took = f"its threads took {one.starved:.1f} times as long as they computed"
    return f"; that host was short of processors: {took}"
