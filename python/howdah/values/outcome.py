"""The outcome of a transfer, as its record keeps it: totals, streams, samples, and changes on the way."""

from typing import Literal

import msgspec

from howdah.values import Count, Seconds
from howdah.values.reason import Explained

_HOLES_SHARE = 0.1
"""Holes up to this share of the bytes that were sent take no time to speak of."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One stream at one instant: the sender's TCP_INFO, every 100 ms."""

    t_s: Seconds
    """The time since the session's start."""
    stream: Count
    """Index into Outcome.streams."""
    bytes_acked: Count
    cwnd: Count
    """Segments."""
    ssthresh: Count | None = None
    """Segments; null before the first loss."""
    rtt_s: Seconds
    """The smoothed round-trip time."""
    min_rtt_s: Seconds
    retransmissions: Count
    """Segments, since the connection began."""
    delivery_rate_bps: float
    pacing_rate_bps: float | None = None
    notsent_bytes: Count
    limited: Literal["cwnd", "app", "rwnd", "sndbuf"] | None = None


Doing = Literal["start", "waiting", "opening", "disk", "digest", "rest", "turn", "socket", "flush", "naming"]
"""What a thread of a copy does (crates/wire, spent.rs)."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread has spent its time on, or several together."""

    wall_s: dict[Doing, float] = {}
    """``start`` waits for the first block, ``waiting`` for the next one (the scan, answers, a pipe),
    ``opening`` opens, makes and names files, ``disk`` reads or writes them, ``digest`` hashes, ``rest`` seals
    records and computes the rest, ``turn`` waits for the limit, ``socket`` for the network, ``flush`` for
    the disk to have what was written, ``naming`` for the threads that flush and name files."""
    cpu_s: dict[Doing, float] = {}
    """The part of it that it ran on a processor, by samples."""
    delayed_s: float = 0.0
    """It could have run, and had no processor (schedstat; a limit by cgroup counts too)."""
    busy_s: float = 0.0
    """A sender's sockets had data waiting or in flight (tcpi_busy_time)."""
    rwnd_limited_s: float = 0.0
    """The part of that in which the receiver's window was the limit."""
    sndbuf_limited_s: float = 0.0
    """The part of that in which the send buffer was the limit."""

    @property
    def worked_s(self) -> float:
        """The time from the first block or piece on."""
        return sum(time_s for doing, time_s in self.wall_s.items() if doing != "start")


class StreamOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One data connection when it was done."""

    bytes: Count
    retransmissions: Count
    rtt_min_s: Seconds | None = None
    congestion_control: str
    send_buffer_bytes: Count | None = None
    receive_buffer_bytes: Count | None = None
    max_cwnd: Count | None = None
    """Segments."""
    sender: Spent = Spent()
    """What its thread at the sender has spent its time on."""
    receiver: Spent | None = None


class FileAction(msgspec.Struct, frozen=True, kw_only=True):
    """The action of a dry run on one name."""

    path: bytes
    """Relative to the destination, raw (base64 in JSON). A folder has a slash at its end; ``./`` is the
    destination itself."""
    kind: Literal["file", "folder", "link", "hard-link", "special"] = "file"
    """What it is; in older records only files and removals are listed, all as files."""
    size: Count
    """Bytes; 0 of what is removed, and of what is no file."""
    action: Literal["copy", "skip", "remove"]
    """``copy`` makes or replaces it. Only files are listed with ``skip``: what else is there has no entry."""


class FilesBeyond(msgspec.Struct, frozen=True):
    """Names of a dry run that are counted and not listed."""

    copy: Count
    """Files that would be copied."""
    copy_bytes: Count
    """Their sizes."""
    skip: Count
    """Files that are at the receiver already."""
    make: Count = 0
    """Folders, links and special files that would be made."""
    remove: Count = 0
    """Files, folders and links that would be removed at the receiver."""


HOLD = "hd_hold"
"""The control of connections that are held to a share: as a copy asked, or by a rule of its host."""


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """What became of files, folders and links at the receiver that are not at the sender."""

    extraneous: Count
    """How many were found."""
    removed: Count
    failed: Count
    """How many could not be looked into or removed; a warning names each."""
    held: Literal["left-out", "too-many"] | None = None
    """The reason why none was removed: not all of the sources could be read, or there were too many."""


class Change(Explained, frozen=True, kw_only=True):
    """A change asked of the open streams; in force from then on unless it was refused."""

    t_s: Seconds
    """The time since the session's start at which the sender's sockets were changed."""
    congestion_control: str | None = None
    """The control in use from then on; of a refused change the one asked for; null: the one there was.

    Of a change that is refused because a rule of the sending host holds the connections, it is ``hd_hold``.
    """
    streams: Count
    """The streams that carry payload, of those opened."""
    pacing_bps: Count | None = None
    """The bound of each stream; null: without a bound."""
    refused: str | None = None
    """The reason why all stayed as it was; null: it did not."""

    @property
    def held_by_rule(self) -> bool:
        """Whether it was refused because a rule holds the connections to a share."""
        return self.refused is not None and self.congestion_control == HOLD


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a transfer (made by crates/transfer)."""

    direction: Literal["push", "pull"]
    bytes: Count
    """Payload verified at the receiver."""
    files: Count
    folders: Count
    links: Count
    """Symbolic links and, with ``-H``, other names of files; in older records special files too."""
    special_files: Count = 0
    """FIFOs, sockets and devices."""
    files_skipped: Count
    bytes_skipped: Count
    skips_as_asked: bool = False
    """Whether options said what is skipped, and not size and time alone."""
    bytes_resumed: Count = 0
    """The bytes that the receiver had from an interrupted copy: compared at both ends, and not sent again."""
    hole_bytes: Count = 0
    """The bytes of holes in sources: their zeros are at the receiver, and were not sent."""
    removal: Removal | None = None
    """What came of ``--delete``; null without it."""
    elapsed_s: Seconds
    """Whole session, from its start."""
    setup_s: Seconds | None = None
    """Start until the first byte of payload."""
    moving_s: Seconds | None = None
    """First byte of payload until the last verified one."""
    encrypted: bool
    target: str | None = None
    """The path at the receiver at which the only source landed; of several, that of the folder. Null where
    no files were copied, and in records of before."""
    streams_ahead: Count = 0
    """The data streams that began on connections which had been made ahead, when the copy before ended."""
    connections_replaced: Count = 0
    """The data streams' connections that broke, and that others replaced."""
    outages: Count = 0
    """The outages of the path that the copy rode through: nothing came from the far host for 8 s or more."""
    outage_s: Seconds = 0.0
    """The seconds that they took, together."""
    through_ssh: str | None = None
    """What came of the data port, where the data went through the ssh connection; null where it did not."""
    by_far_end: str | None = None
    """What came of the data port, where the far end connected to this host; null where it did not."""
    other_address: str | None = None
    """``[2001:db8::7]:43211 (192.0.2.7:43211: no answer)``: the far host's address of the other family than
    ssh has used, and why, where the data went there; null where it did not."""
    restarts: Count = 0
    """The sessions begun again after the connection to the far end was lost. ``streams`` and ``samples`` are
    those of the last one; counts and times are of all. What a lost session moved counts as moved, once."""
    digest_sum: str | None = None
    """The sum of the digests of all files of the last session, in hexadecimal: both ends compare it."""
    congestion_control: str | None = None
    """The one really in use, at the end."""
    streams: list[StreamOutcome] = []
    naming: Spent = Spent()
    """What the receiver's thread has spent its time on that flushes files; at ``naming`` it waits for the one
    that names them."""
    finishing_s: Seconds = 0.0
    """How long the receiver flushed and named when all had come."""
    samples: list[Sample] = []
    changes: list[Change] = []
    """The changes of the streams on the way, in time: the first 1,000."""
    changes_more: Count = 0
    """Changes beyond those."""
    near_peak_memory_bytes: Count | None = None
    """Growth of the resident set, beyond socket buffers."""
    far_peak_memory_bytes: Count | None = None
    dry_run_plan: list[FileAction] | None = None
    """The actions of a dry run, by path: of the first names, as many as fit into 16 MiB."""
    dry_run_beyond: FilesBeyond | None = None
    """The names after those, which are only counted."""
    warnings: list[str] = []
    warnings_more: Count = 0
    """Warnings that were counted and not kept; the first 4 MiB are."""
    left_out: list[str] = []
    """The reasons why files and folders are not at the receiver: one for each that could not be read."""
    left_out_more: Count = 0
    """Files or folders likewise, beyond the first 4 MiB of reasons."""

    @property
    def bytes_placed(self) -> int:
        """How much of the files the receiver has got: what was sent, and holes."""
        return self.bytes + self.hole_bytes

    @property
    def goodput_bps(self) -> float | None:
        """Payload over the whole session, setting up included; null when nothing moved."""
        return self.bytes * 8 / self.elapsed_s if self.bytes and self.elapsed_s > 0 else None

    @property
    def moving_bps(self) -> float | None:
        """Payload over the time payload moved; null when nothing did, or comparing or holes took time too."""
        if not self.bytes or not self.moving_s or self.bytes_resumed:
            return None
        if self.hole_bytes > self.bytes * _HOLES_SHARE:
            return None
        return self.bytes * 8 / self.moving_s

    @property
    def changed(self) -> bool:
        """Whether it is a run of more than one configuration."""
        return any(change.refused is None for change in self.changes)

    @property
    def retransmissions(self) -> int:
        """Segments sent again, over all streams."""
        return sum(stream.retransmissions for stream in self.streams)
