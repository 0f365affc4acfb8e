"""The Record: what was measured. One of the two values everything meets in.

One run with its configuration, its trace and its environment. The archive keeps it, ``--json`` prints
it, the deciders and the reports read it. Missing is null, never -1 or 0.

Schema 1. Every number's unit is the end of its name: ``_s`` seconds, ``_bytes``, ``_bps`` bits per
second, ``_pages`` of 4096 bytes, ``_segments``; a count has a plural noun for a name.

Record
    ========== ======================================================================================
    schema     1
    id         sortable by time and unique: ``20260131T235959.123456Z-0f3a9c``
    kind       ``transfer`` (howdah cp), ``traffic``, ``probe``, ``link`` (a lab's link), ``bench``
    started_at UTC
    command    the command line as it was given
    version    howdah's, at the near end
    host       the far host as the command named it, without a user; null where there was none
    environment  Environment
    connect_s  from the start of the command until the far end had answered, before the outcome's time
    rtt_s      round-trip time the plan was made for, before the first byte of data; base RTT of a probe
    plan       Plan (howdah.values.plan)
    outcome    Outcome; null when there was none (see error)
    probe      Probe (howdah.values.probe); null for all that is no probe
    share      Shared: the share of a guaranteed path that it had; null on other paths
    listened   Listened: whom it heard on a shared path and what it made of that; null where it did not listen
    sweep      Swept: of which sweep the run is; null for a run of its own
    traffic    what background traffic did (howdah.traffic.account.Traffic); null for all else
    near_cpu_busy_fraction
               of the near host's processor time while the session ran, by whatever: near 1, the hosts and not
               the path may have been the limit; in a lab it is both hosts'
    digests    the file beside the record that has a BLAKE3 of each file moved, a line each, as b3sum(1)
               checks them at the destination; null when none was
    link_stats what a lab's link did during the run (howdah.values.link); null outside
    error      one line; null when all went well
    flags      ``lateness`` the machine, not the link, spoilt the run · ``interrupted`` · ``dry-run``
    ========== ======================================================================================
Environment
    near, far: HostLimits; near_sysctls: raw text by name; link: the lab's link (howdah.values.link) or null
HostLimits, Outcome, StreamOutcome, FileAction, Sample, Change, Shared, ShareSample, Listened
    see each class.
"""

import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from howdah import LAB_LINK_VARIABLE, HowdahError, __version__, document
from howdah._native import host_limits
from howdah.values.plan import Plan
from howdah.values.probe import Probe

SCHEMA = 1

_PROCESSORS = Path("/proc/stat")
_SYSCTLS = Path("/proc/sys")
_SYSCTLS_KEPT = (
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_ecn",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_moderate_rcvbuf",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_wmem",
)
_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}")


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one end's kernel offers a TCP connection (read by crates/tcp, in its network namespace)."""

    kernel: str
    cpus: int
    memory_bytes: int
    congestion_controls_available: list[str]
    congestion_controls_allowed: list[str]
    """The controls that a process without CAP_NET_ADMIN may choose."""
    congestion_control_default: str
    rmem_max_bytes: int
    """Most an unprivileged SO_RCVBUF gives (the kernel then doubles it for its own overhead)."""
    wmem_max_bytes: int
    """Most an unprivileged SO_SNDBUF gives (doubled likewise)."""
    tcp_rmem_max_bytes: int
    """The size at which autotuning of the receive buffer ends."""
    tcp_wmem_max_bytes: int
    """The size at which autotuning of the send buffer ends."""
    tcp_mem_pages: tuple[int, int, int] | None = None
    """All TCP memory of the host: low, pressure, high; null where the network namespace hides it."""
    no_metrics_save: bool
    slow_start_after_idle: bool
    privileged: bool
    """CAP_NET_ADMIN: buffers above rmem_max and wmem_max, and any available congestion control."""

    @classmethod
    def here(cls) -> "HostLimits":
        """The limits of this host, in this network namespace."""
        return msgspec.json.decode(host_limits(), type=cls)

    @property
    def congestion_controls_usable(self) -> list[str]:
        """The controls that a process like the one that looked may choose."""
        return self.congestion_controls_available if self.privileged else self.congestion_controls_allowed


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One stream at one instant: the sender's TCP_INFO, every 100 ms."""

    t_s: float
    """The time since the session's start."""
    stream: int
    """Index into Outcome.streams."""
    bytes_acked: int
    cwnd: int
    """Segments."""
    ssthresh: int | None = None
    """Segments; null before the first loss."""
    rtt_s: float
    """Smoothed."""
    min_rtt_s: float
    retransmissions: int
    """Segments, since the connection began."""
    delivery_rate_bps: float
    pacing_rate_bps: float | None = None
    notsent_bytes: int
    limited: Literal["cwnd", "app", "rwnd", "sndbuf"] | None = None


class StreamOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One data connection when it was done."""

    bytes: int
    retransmissions: int
    rtt_min_s: float | None = None
    congestion_control: str
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    max_cwnd: int | None = None
    """Segments."""


class FileAction(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run would do with one file."""

    path: bytes
    """Relative to the destination, raw (base64 in JSON)."""
    size: int
    """Bytes."""
    action: Literal["copy", "skip"]


class FilesBeyond(msgspec.Struct, frozen=True):
    """Files of a dry run that are counted and not listed."""

    copy: int
    """Files that would be copied."""
    copy_bytes: int
    """Their sizes."""
    skip: int
    """Files that are at the receiver already."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of the open streams; in force from then on unless it was refused."""

    t_s: float
    """The time since the session's start at which the sender's sockets were changed."""
    congestion_control: str | None = None
    """The control in use from then on; of a refused change the one asked for; null: the one there was."""
    streams: int
    """The streams that carry payload, of those opened."""
    pacing_bps: int | None = None
    """The bound of each stream; null: without a bound."""
    why: str
    refused: str | None = None
    """Why all stayed as it was; null: it did not."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a transfer did (made by crates/transfer)."""

    direction: Literal["push", "pull"]
    bytes: int
    """Payload verified at the receiver."""
    files: int
    folders: int
    links: int
    files_skipped: int
    bytes_skipped: int
    bytes_resumed: int = 0
    """What the receiver had from an interrupted copy: compared at both ends, and not sent again."""
    elapsed_s: float
    """Whole session, from its start."""
    setup_s: float | None = None
    """Start until the first byte of payload."""
    moving_s: float | None = None
    """First byte of payload until the last verified one."""
    encrypted: bool
    connections_replaced: int = 0
    """The data streams' connections that broke, and that others replaced."""
    congestion_control: str | None = None
    """The one really in use, at the end."""
    streams: list[StreamOutcome] = []
    samples: list[Sample] = []
    changes: list[Change] = []
    """The changes of the streams on the way, in time: the first 1,000."""
    changes_more: int = 0
    """Changes beyond those."""
    near_peak_memory_bytes: int | None = None
    """Growth of the resident set, beyond socket buffers."""
    far_peak_memory_bytes: int | None = None
    dry_run_plan: list[FileAction] | None = None
    """What a dry run would do: the first files, as many as fit into 16 MiB."""
    dry_run_beyond: FilesBeyond | None = None
    """The files after those, which are only counted."""
    warnings: list[str] = []
    warnings_more: int = 0
    """Warnings that were counted and not kept; the first 4 MiB are."""
    left_out: list[str] = []
    """Why each file or folder that could not be read is not at the receiver."""
    left_out_more: int = 0
    """Files or folders likewise, beyond the first 4 MiB of reasons."""

    @property
    def goodput_bps(self) -> float | None:
        """Payload over the whole session, setting up included; null when nothing moved."""
        return self.bytes * 8 / self.elapsed_s if self.bytes and self.elapsed_s > 0 else None

    @property
    def moving_bps(self) -> float | None:
        """Payload over the time payload moved; null when nothing did, or some of it went into comparing."""
        if not self.bytes or not self.moving_s or self.bytes_resumed:
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


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a run happened."""

    near: HostLimits
    far: HostLimits | None = None
    near_sysctls: dict[str, str] = {}
    link: dict[str, Any] | None = None
    """The LinkSpec of the lab it ran in; null outside a lab."""


class ShareSample(msgspec.Struct, frozen=True, kw_only=True):
    """A share at one instant, as its controller tells it; null: not known."""

    t_s: float
    """The time since the share was in force."""
    share_bps: int | None = None
    """The rate on the wire; 0: ordinary congestion control."""
    sent_bps: int | None = None
    """The rate on the wire over the last second, of all connections that divide the share."""


class Shared(msgspec.Struct, frozen=True, kw_only=True, rename={"traffic_class": "class"}):
    """The share that a transfer had on a guaranteed path."""

    controller: str
    """Its address."""
    policy: str
    traffic_class: str
    flow: str
    """The flow whose share it was."""
    asked: bool
    """False: the class has its share always, or nothing was to be sent."""
    waited_s: float | None
    """The time from asking until it was in force; null: it was not asked for, or did not come."""
    samples: list[ShareSample] = []
    """Each second."""

    @property
    def range_bps(self) -> tuple[int, int] | None:
        """The least and the most it was; null when that is not known."""
        known = [sample.share_bps for sample in self.samples if sample.share_bps is not None]
        return (min(known), max(known)) if known else None

    @property
    def sent_bps(self) -> float | None:
        """What was sent in half of the seconds at least; null when none was seen whole."""
        sent = [sample.sent_bps for sample in self.samples if sample.t_s >= 2 and sample.sent_bps is not None]
        # Takes longer to load than all else here.
        from statistics import median  # noqa: PLC0415

        return median(sent) if sent else None


class HeardThen(msgspec.Struct, frozen=True, kw_only=True):
    """A class that was recognised on a shared path from an instant on."""

    t_s: float
    """The time since the session's start."""
    background: str | None
    """The likeliest class, as ``1 bbr, 1 cubic``; null: something never seen, or not known."""
    probability: float
    """The probability of that class; of null, that it is no class that is known."""


class Had(msgspec.Struct, frozen=True, kw_only=True):
    """What a way to send gave."""

    rate_bps: float
    rtt_s: float | None = None
    """The RTT of the streams, on average."""
    resent_fraction: float
    """The part of the segments that was sent again, about."""


class SentThen(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made for those who were recognised, and what it gave."""

    t_s: float
    congestion_control: str
    streams: int
    pacing_bps: int | None = None
    """The bound of each stream; null: without a bound."""
    held: bool = False
    """Whether the streams were paced to ``pacing_bps`` at least, and to more where others left more."""
    why: str
    background: str | None = None
    """The class that was recognised; null: the fair default is back for another reason."""
    probability: float | None = None
    before: Had | None = None
    """The last 10 s before it; null: not known."""
    after: Had | None = None
    """The last 10 s of it, once it had settled; null: it was too short."""
    undone: str | None = None
    """Why it was not kept; null: it was."""


class Dip(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of sending less, to measure what the path carries (howdah.steering.capacity_probe)."""

    begin_s: float
    end_s: float
    rate_bps: float
    """The rate before the dip."""
    bound_bps: float
    """The bound of the rate in the dip."""
    rtt_s: float | None = None
    """What the round trip would have been at its least, by how it grew before."""
    least_rtt_s: float | None = None
    capacity_bps: float | None = None
    """The capacity as payload; null: the dip told nothing."""


class RouteMoved(msgspec.Struct, frozen=True, kw_only=True):
    """The base RTT moved for good."""

    t_s: float
    before_s: float
    after_s: float


class Listened(msgspec.Struct, frozen=True, kw_only=True):
    """What a transfer on a shared path recognised of others, and how it sent beside them."""

    by: Literal["icmp", "tcp_info"] | None
    """The source of round trips; null: nothing was listened to."""
    not_by_icmp: str | None = None
    """The reason why round trips were those of its own streams."""
    ended: str | None = None
    """Why listening ended before the transfer did; the fair default stayed from then on."""
    fairness: float
    """The knob it chose by: 0, its own rate; 1, fairness."""
    base_rtt_s: float | None = None
    queue_bdp: float | None = None
    """The queue of the bottleneck as it was seen, in bandwidth × delay."""
    capacity_bps: float | None = None
    """What the path carries: as measured by ``dips``, or the most that arrived in three seconds in a row."""
    verdicts: int = 0
    """How often it was asked who is there and something could be said."""
    cannot_tell: str | None = None
    """Why nothing could be said when it was asked last; null: something could."""
    heard: list[HeardThen] = []
    sent: list[SentThen] = []
    dips: list[Dip] = []
    moved: list[RouteMoved] = []


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a run in a sweep (howdah.measure)."""

    id: str
    """The id of the sweep: its name and a digest of its plan. The same plan given again goes on with it."""
    name: str
    path: str | None = None
    """What its runs share of the lab's link, where its queues follow the RTT; null: the link says it."""
    cell: str
    """What the repeats have in common: where, congestion control, streams, buffer, and time or size."""
    repeat: int
    """The number of the repeat, from 0."""
    attempt: int = 0
    """The number of the attempt, from 0; more when the lab was late for the run before, which is kept too."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One run. See the table at the top of this file."""

    schema: int = SCHEMA
    id: Annotated[str, msgspec.Meta(pattern=f"^{_ID.pattern}$")]
    kind: Literal["transfer", "traffic", "probe", "link", "bench"]
    started_at: Annotated[datetime, msgspec.Meta(tz=True)]
    command: list[str]
    version: str = __version__
    host: str | None = None
    environment: Environment
    connect_s: float | None = None
    rtt_s: float | None = None
    plan: Plan | None = None
    outcome: Outcome | None = None
    probe: Probe | None = None
    share: Shared | None = None
    listened: Listened | None = None
    sweep: Swept | None = None
    traffic: dict[str, Any] | None = None
    near_cpu_busy_fraction: float | None = None
    digests: str | None = None
    link_stats: dict[str, Any] | None = None
    error: str | None = None
    flags: list[str] = []


def new_id(started_at: datetime) -> str:
    """An id that sorts by time; the random end keeps two runs of one microsecond apart."""
    return f"{id_time(started_at)}-{os.urandom(3).hex()}"


def id_time(at: datetime) -> str:
    """What ids of that instant begin with; sorts by time like them."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z"


def since_process_start_s() -> float:
    """Age of this process, to the kernel's clock tick (10 ms)."""
    # proc_pid_stat(5): the 22nd field, counted after the name in parentheses, which may hold anything.
    started_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def is_id(text: str) -> bool:
    """True for the whole id of a record."""
    return _ID.fullmatch(text) is not None


class ProcessorTime(NamedTuple):
    """What all processors of this host have spent since it was started, in clock ticks."""

    busy: int
    whole: int

    @classmethod
    def now(cls) -> "ProcessorTime":
        """Until now. Time that a hypervisor gave to others (steal) counts as busy: it was not to be had."""
        # proc_stat(5): user nice system idle iowait irq softirq steal; guests are in user already.
        ticks = [int(word) for word in _PROCESSORS.read_text().partition("\n")[0].split()[1:9]]
        return cls(sum(ticks) - ticks[3] - ticks[4], sum(ticks))

    def busy_fraction(self) -> float | None:
        """From then until now; null when no tick has passed."""
        now = ProcessorTime.now()
        whole = now.whole - self.whole
        return (now.busy - self.busy) / whole if whole > 0 else None


def printable_command(arguments: Sequence[str]) -> list[str]:
    """A command line as text that JSON can hold; a byte that is no UTF-8 becomes ``\\xNN``."""
    return [os.fsencode(argument).decode(errors="backslashreplace") for argument in arguments]


def environment(near: HostLimits, far: HostLimits | None) -> Environment:
    """This host's environment as it is now, the link included when a lab runs us."""
    sysctls = {}
    for name in _SYSCTLS_KEPT:
        try:
            sysctls[name.replace("/", ".")] = " ".join((_SYSCTLS / name).read_text().split())
        except OSError:
            continue
    return Environment(near=near, far=far, near_sysctls=sysctls, link=lab_link())


def dumps(record: Record) -> bytes:
    """The record as JSON: what ``--json`` prints and the archive holds."""
    return document.encode(record)


def loads(text: bytes, where: str) -> Record:
    """The record in ``text``. Raises HowdahError naming ``where`` and the key."""
    return document.decode(
        text, Record, schema=SCHEMA, name="record", where=where, mend="move it out of the archive"
    )


def lab_link() -> dict[str, Any] | None:
    """The LinkSpec of the lab that this process runs in; None outside a lab."""
    text = os.environ.get(LAB_LINK_VARIABLE)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise HowdahError(
            f"{LAB_LINK_VARIABLE} is no link description ({error}); unset it, or run inside: howdah lab run"
        ) from None
