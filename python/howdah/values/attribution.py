"""Why a copy was not faster: the time of its streams, attributed to what they waited for.

A stream is a pipeline of three: its thread at the sender, the network, its thread at the receiver. Each
thread's time is booked (crates/transfer, end/spent.rs). The part that was busy all the time is the
bottleneck, and the others waited for it. So the busier thread is counted for all of the time that it was
busy; what is left of the time belongs to the other thread as far as that was busy, and to the network as far
as both waited.

Two corrections come before that:

- A thread that needs a processor and has none is late with whatever it does. How much is told by what only
  computes (digests, records): its time over its time on a processor. So much of a read or a write counts as
  processor time too, as what it ran there took longer.
- What the kernel says of the sockets parts the time of the network: the receive window or the send buffer,
  the pacing that was asked for, slow start. The path has what is left.

The times before the first byte and after the last one are the start and the end. What the receiver flushes at
the end is its disk's.
"""

from collections.abc import Iterable

import msgspec

from howdah.values.bottleneck import Bottleneck, Cause, Share
from howdah.values.outcome import Doing, Outcome, Sample, Spent

SMALL_FILE_BYTES = 1 << 20
"""Of files that are smaller on average, waits for flushes and names are the price of many files."""
_PACED = 0.85
"""From this part of the pacing on that was asked for, it was the limit."""
_RAMP = 0.9
"""Slow start is over at this part of the largest window."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of the sender, and is known beside the counters."""

    connect_s: float = 0.0
    """The time from the start of the command to the far end's answer."""
    pacing_bps: float | None = None
    """The most that all streams might send, by the plan or a share; null: as much as they could."""
    pipe: bool = False
    """Whether the sender reads a pipe."""
    others: str | None = None
    """Who else was recognised on the path; null: nobody, or nobody listened."""
    known_bps: float | None = None


class Thread(msgspec.Struct, frozen=True):
    """What threads of one end were busy with, in seconds, once the lack of processors is parted off."""

    disk_s: float = 0.0
    cpu_s: float = 0.0
    """Digests, and what the kernel copied for it."""
    sealing_s: float = 0.0
    files_s: float = 0.0
    """Opening, making and naming files, and waiting for the next one."""
    flush_s: float = 0.0
    naming_s: float = 0.0
    turn_s: float = 0.0
    waits_s: float = 0.0
    """For the network."""
    starved: float = 1.0
    """How many times longer what only computes took than it ran."""

    @property
    def busy_s(self) -> float:
        """All but the waits for the network."""
        own = self.disk_s + self.cpu_s + self.sealing_s + self.files_s
        return own + self.flush_s + self.naming_s + self.turn_s

    @property
    def all_s(self) -> float:
        """All."""
        return self.busy_s + self.waits_s


def of_outcome(outcome: Outcome, asked: Asked) -> Bottleneck | None:
    """Where the time of a copy went that has ended well; None where nothing moved, or nothing was booked."""
    senders = [stream.sender for stream in outcome.streams]
    moving_s = max((_moved_s(spent) for spent in senders), default=0.0)
    if outcome.setup_s is None or moving_s <= 0 or outcome.dry_run_plan is not None:
        return None
    moving_s = min(moving_s, max(outcome.elapsed_s - outcome.setup_s, 1e-9))
    start_s = asked.connect_s + outcome.setup_s
    end_s = max(0.0, outcome.elapsed_s - outcome.setup_s - moving_s)
    flush_s = min(outcome.finishing_s, end_s)
    sender = thread(summed(senders), encrypted=outcome.encrypted)
    receivers = [stream.receiver for stream in outcome.streams if stream.receiver is not None]
    receiver = thread(summed(receivers), encrypted=outcome.encrypted)
    mean_bytes = outcome.bytes / max(1, outcome.files)
    small = outcome.files > len(senders) and mean_bytes < SMALL_FILE_BYTES
    moved = Moved(
        sender=sender,
        receiver=receiver,
        sockets=summed(senders),
        flushing=_flushing(outcome.naming),
        small=small,
        ramp=_ramp(outcome),
        rate_bps=outcome.bytes * 8 / moving_s,
        evidence=_of_path(outcome, asked),
    )
    total_s = start_s + moving_s + end_s
    parts = {cause: share * moving_s for cause, share in moved.shares(asked).items()}
    parts[Cause.START] = parts.get(Cause.START, 0.0) + start_s
    slow_s = parts[Cause.START] - start_s
    parts[Cause.END] = end_s - flush_s
    flushed = Cause.SMALL_FILES if small and not _flushing(outcome.naming) else Cause.RECEIVER_DISK
    parts[flushed] = parts.get(flushed, 0.0) + flush_s
    texts = moved.texts(asked)
    texts[Cause.START] = f"login and handshakes {start_s:.2g} s, slow start {slow_s:.2g} s"
    texts[Cause.END] = f"{end_s - flush_s:.2g} s after the last byte was sent"
    if flush_s > 0.1 * end_s:
        texts[flushed] = f"{texts.get(flushed, '')}, {flush_s:.2g} s of flushing at the end".lstrip(", ")
    shares = _sorted(parts, total_s, texts)
    main = shares[0]
    busiest = moved.busiest_without(main.cause) * moving_s / total_s
    least = max(1 - main.share, busiest)
    if asked.known_bps and main.cause is not Cause.PATH:
        least = max(least, min(1.0, outcome.bytes * 8 / asked.known_bps / total_s))
    return Bottleneck(
        total_s=total_s,
        shares=shares,
        rate_bps=moved.rate_bps if outcome.bytes else None,
        known_bps=asked.known_bps,
        faster=1 / max(least, 0.01),
    )


def of_progress(
    sender: Spent, receiver: Spent, asked: Asked, *, encrypted: bool, mean_bytes: float
) -> list[Share]:
    """Where the time of streams at work goes, without start and end; empty where nothing is known."""
    at_sender, at_receiver = thread(sender, encrypted=encrypted), thread(receiver, encrypted=encrypted)
    if at_sender.all_s <= 0:
        return []
    moved = Moved(
        sender=at_sender,
        receiver=at_receiver,
        sockets=sender,
        flushing=True,
        small=0 < mean_bytes < SMALL_FILE_BYTES,
        ramp=0.0,
        rate_bps=0.0,
        evidence="",
    )
    return _sorted(moved.shares(asked), 1.0, moved.texts(asked))


def summed(each: Iterable[Spent]) -> Spent:
    """What several threads have spent together."""
    wall_s: dict[Doing, float] = {}
    cpu_s: dict[Doing, float] = {}
    busy_s = rwnd_s = sndbuf_s = 0.0
    for spent in each:
        for doing, time_s in spent.wall_s.items():
            wall_s[doing] = wall_s.get(doing, 0.0) + time_s
        for doing, time_s in spent.cpu_s.items():
            cpu_s[doing] = cpu_s.get(doing, 0.0) + time_s
        busy_s, rwnd_s = busy_s + spent.busy_s, rwnd_s + spent.rwnd_limited_s
        sndbuf_s += spent.sndbuf_limited_s
    return Spent(wall_s=wall_s, cpu_s=cpu_s, busy_s=busy_s, rwnd_limited_s=rwnd_s, sndbuf_limited_s=sndbuf_s)


def thread(spent: Spent, *, encrypted: bool) -> Thread:
    """What threads were busy with: of reads, writes and sends, the part that was computing is taken off."""
    wall, ran = spent.wall_s, spent.cpu_s
    computes_s = wall.get("digest", 0.0) + wall.get("rest", 0.0)
    ran_s = ran.get("digest", 0.0) + ran.get("rest", 0.0)
    starved = max(1.0, computes_s / ran_s) if ran_s > 0 else 1.0

    def computing(doing: Doing) -> float:
        return min(wall.get(doing, 0.0), starved * ran.get(doing, 0.0))

    copied_s = computing("disk") + computing("socket")
    rest_s = wall.get("rest", 0.0)
    return Thread(
        disk_s=wall.get("disk", 0.0) - computing("disk"),
        cpu_s=wall.get("digest", 0.0) + copied_s + (0.0 if encrypted else rest_s),
        sealing_s=rest_s if encrypted else 0.0,
        files_s=wall.get("opening", 0.0) + wall.get("waiting", 0.0),
        flush_s=wall.get("flush", 0.0),
        naming_s=wall.get("naming", 0.0),
        turn_s=wall.get("turn", 0.0),
        waits_s=wall.get("socket", 0.0) - computing("socket"),
        starved=starved,
    )


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The time in which payload moved."""

    sender: Thread
    receiver: Thread
    sockets: Spent
    flushing: bool
    """Whether the thread that names files was busy flushing, and not naming."""
    small: bool
    """Whether there were many small files."""
    ramp: float
    """The part of the time in which streams were in slow start."""
    rate_bps: float
    evidence: str
    """What was seen of the path."""

    def shares(self, asked: Asked) -> dict[Cause, float]:
        """The parts of the time; together 1."""
        at_sender = _over(self._sender_s(asked), self.sender.all_s)
        at_receiver = _over(self._receiver_s(), self.receiver.all_s)
        sends, receives = sum(at_sender.values()), sum(at_receiver.values())
        if sends >= receives:
            found, other, left = at_sender, at_receiver, 1 - sends
        else:
            found, other, left = at_receiver, at_sender, 1 - receives
        found = dict(found)
        for cause, part in other.items():
            found[cause] = found.get(cause, 0.0) + left * part
        network = max(0.0, left * (1 - sum(other.values())))
        for cause, part in self._network(network, receives, asked).items():
            found[cause] = found.get(cause, 0.0) + part
        return found

    def busiest_without(self, cause: Cause) -> float:
        """The part of the time for which the busier end was busy with anything else."""
        ends = (
            _over(self._sender_s(Asked()), self.sender.all_s),
            _over(self._receiver_s(), self.receiver.all_s),
        )
        return max(sum(part for one, part in parts.items() if one is not cause) for parts in ends)

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
            f"{_part(buffer_s, busy_s)}",
            Cause.PACING: f"waits for the limit {_part(sends.turn_s, sends.all_s)} of the sender's time"
            if sends.turn_s > 0.01 * sends.all_s or asked.pacing_bps is None
            else "the streams sent what their pacing lets them",
            Cause.PATH: self.evidence,
            Cause.RECEIVER_CPU: "digests, decryption and copies "
            f"{_part(receives.cpu_s + receives.sealing_s, receives.all_s)} of the receiver's time"
            + _late(receives),
            Cause.RECEIVER_DISK: f"writing {_part(receives.disk_s, receives.all_s)} of the receiver's time, "
            f"waits for flushes {_part(receives.flush_s + receives.naming_s, receives.all_s)}",
            Cause.SMALL_FILES: f"opening and waiting for files {_part(sends.files_s, sends.all_s)} of the "
            f"sender's time, making them {_part(receives.files_s, receives.all_s)} of the receiver's",
        }

    def _sender_s(self, asked: Asked) -> dict[Cause, float]:
        one = self.sender
        found = {
            Cause.SOURCE_DISK: one.disk_s,
            Cause.SOURCE_CPU: one.cpu_s,
            Cause.SEALING: one.sealing_s,
            Cause.PACING: one.turn_s,
        }
        files = Cause.SOURCE_DISK if asked.pipe else Cause.SMALL_FILES
        found[files] = found.get(files, 0.0) + one.files_s
        return found

    def _receiver_s(self) -> dict[Cause, float]:
        one = self.receiver
        found = {
            Cause.RECEIVER_DISK: one.disk_s + one.flush_s,
            Cause.RECEIVER_CPU: one.cpu_s + one.sealing_s,
            Cause.SMALL_FILES: one.files_s,
        }
        named = Cause.RECEIVER_DISK if self.flushing or not self.small else Cause.SMALL_FILES
        found[named] += one.naming_s
        return found

    def _network(self, network: float, receives: float, asked: Asked) -> dict[Cause, float]:
        """Parts what both ends waited for."""
        busy_s = self.sockets.busy_s
        # A closed window is the receiver's own time as long as it was busy.
        window = _within(self.sockets.rwnd_limited_s, busy_s) - receives
        buffer = _within(self.sockets.sndbuf_limited_s, busy_s)
        found = {Cause.WINDOW: min(network, max(0.0, window) + buffer)}
        left = network - found[Cause.WINDOW]
        found[Cause.START] = min(left, self.ramp * (left / network if network > 0 else 0.0))
        left -= found[Cause.START]
        paced = asked.pacing_bps is not None and self.rate_bps >= _PACED * asked.pacing_bps
        found[Cause.PACING if paced else Cause.PATH] = left
        return found


def _moved_s(spent: Spent) -> float:
    """The time from the first block of a thread on."""
    return sum(time_s for doing, time_s in spent.wall_s.items() if doing != "start")


def _flushing(naming: Spent) -> bool:
    wall = naming.wall_s
    return wall.get("flush", 0.0) >= wall.get("naming", 0.0)


def _ramp(outcome: Outcome) -> float:
    """The part of the time of slow start: no threshold yet, and the window still grew."""
    by_stream: dict[int, list[Sample]] = {}
    for sample in outcome.samples:
        by_stream.setdefault(sample.stream, []).append(sample)
    if not by_stream or outcome.setup_s is None:
        return 0.0
    return sum(_ramp_of(samples, outcome.setup_s) for samples in by_stream.values()) / len(by_stream)


def _ramp_of(samples: list[Sample], begins_s: float) -> float:
    largest = max(sample.cwnd for sample in samples)
    ends_s = begins_s
    for sample in samples:
        grows = sample.ssthresh is None and sample.retransmissions == 0 and sample.cwnd < _RAMP * largest
        if not grows:
            ends_s = max(ends_s, sample.t_s)
            break
        ends_s = sample.t_s
    whole_s = samples[-1].t_s - begins_s
    return min(1.0, max(0.0, ends_s - begins_s) / whole_s) if whole_s > 0 else 0.0


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
    if outcome.outages:
        parts.append(f"no answer for {outcome.outage_s:.0f} s")
    if asked.others:
        parts.append(f"{asked.others} recognised beside it")
    return ", ".join(parts)


def _sorted(parts: dict[Cause, float], total: float, texts: dict[Cause, str]) -> list[Share]:
    shares = [
        Share(cause=cause, share=part / total, evidence=texts.get(cause, "")) for cause, part in parts.items()
    ]
    return sorted(shares, key=lambda share: -share.share)


def _over(parts: dict[Cause, float], whole: float) -> dict[Cause, float]:
    return {cause: part / whole if whole > 0 else 0.0 for cause, part in parts.items()}


def _within(part_s: float, whole_s: float) -> float:
    return min(1.0, part_s / whole_s) if whole_s > 0 else 0.0


def _part(part_s: float, whole_s: float) -> str:
    return f"{_within(part_s, whole_s):.0%}"


def _late(one: Thread) -> str:
    return f", {one.starved:.1f} times as long as they ran" if one.starved > 1.5 else ""
