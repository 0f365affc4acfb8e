"""The Record: what was measured. One of the two values everything meets in.

One run with its configuration, its trace and its environment. The archive keeps it, ``--json`` prints
it, the deciders and the reports read it. Missing is null, never -1 or 0.

Schema 1. Every number's unit is the end of its name: ``_s`` seconds, ``_bytes``, ``_bps`` bits per
second, ``_pages`` of 4096 bytes, ``_segments``; a count has a plural noun for a name.

docs/record.md says what each key holds; ``Record`` and the structs in it have the same names.
"""

import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from howdah import LAB_LINK_VARIABLE, HowdahError, __version__, decoding, document
from howdah._native import host_limits
from howdah.values import Count, Seconds
from howdah.values.bottleneck import Bottleneck
from howdah.values.limit import Limited
from howdah.values.listened import Listened
from howdah.values.memory import Carried, Resumed
from howdah.values.outcome import Outcome
from howdah.values.plan import Plan
from howdah.values.probe import Probe
from howdah.values.verification import Verification

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
    """The limits of one end's kernel for a TCP connection (read by crates/tcp, in its network namespace)."""

    kernel: str
    cpus: int
    memory_bytes: int
    congestion_controls_available: list[str]
    congestion_controls_allowed: list[str]
    """The controls that a process without CAP_NET_ADMIN may choose."""
    congestion_control_default: str
    rmem_max_bytes: int
    """The most that an unprivileged SO_RCVBUF gives (the kernel then doubles it for its own overhead)."""
    wmem_max_bytes: int
    """The most that an unprivileged SO_SNDBUF gives (the kernel doubles it too)."""
    tcp_rmem_max_bytes: int
    """The size at which autotuning of the receive buffer ends."""
    tcp_wmem_max_bytes: int
    """The size at which autotuning of the send buffer ends."""
    tcp_mem_pages: tuple[int, int, int] | None = None
    """All TCP memory of the host: low, pressure, high; null where the network namespace hides it."""
    no_metrics_save: bool
    slow_start_after_idle: bool
    window_scaling: bool | None = None
    """Whether windows above 64 KiB are offered; null, as for the three below: not known."""
    timestamps: bool | None = None
    sack: bool | None = None
    receive_autotuning: bool | None = None
    privileged: bool
    """CAP_NET_ADMIN: buffers above rmem_max and wmem_max, and any available congestion control."""

    @classmethod
    def here(cls) -> "HostLimits":
        """The limits of this host, in this network namespace."""
        return decoding.from_json(host_limits(), cls)

    @property
    def congestion_controls_usable(self) -> list[str]:
        """The controls that a process like the one that looked may choose."""
        return self.congestion_controls_available if self.privileged else self.congestion_controls_allowed


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a run happened."""

    near: HostLimits
    far: HostLimits | None = None
    origin: HostLimits | None = None
    """The limits of the host that sent, where that was neither."""
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
        """The rate sent in half of the seconds at least; null when none was seen whole."""
        sent = [sample.sent_bps for sample in self.samples if sample.t_s >= 2 and sample.sent_bps is not None]
        # Takes longer to load than all else here.
        from statistics import median  # noqa: PLC0415

        return median(sent) if sent else None


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a run in a sweep (howdah.measure)."""

    id: str
    """The id of the sweep: its name and a digest of its plan. The same plan given again goes on with it."""
    name: str
    path: str | None = None
    """The part of the lab's link that its runs share, where queues follow the RTT; null: the link says it."""
    cell: str
    """The cell of the repeats: where, congestion control, streams, buffer, and time or size."""
    repeat: Count
    """The number of the repeat, from 0."""
    attempt: Count = 0
    """The number of the attempt, from 0; more when the lab was late for the run before, which is kept too."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as docs/record.md says."""

    schema: int = SCHEMA
    id: Annotated[str, msgspec.Meta(pattern=f"^{_ID.pattern}$")]
    kind: Literal["transfer", "traffic", "probe", "link", "bench"]
    started_at: Annotated[datetime, msgspec.Meta(tz=True)]
    command: list[str]
    version: str = __version__
    host: str | None = None
    origin: str | None = None
    near_host: str | None = None
    address: str | None = None
    environment: Environment
    filters: list[str] = []
    """The rules that said what was copied, those of files among them, in their order."""
    connect_s: Seconds | None = None
    rtt_s: Seconds | None = None
    plan: Plan | None = None
    outcome: Outcome | None = None
    verification: Verification | None = None
    probe: Probe | None = None
    share: Shared | None = None
    listened: Listened | None = None
    carried: Carried | None = None
    resumed: Resumed | None = None
    bottleneck: Bottleneck | None = None
    limited: Limited | None = None
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
    """The beginning of ids of that instant; it sorts by time like them."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z"


def id_instant(record_id: str) -> datetime:
    """The instant that an id begins with. Raises ValueError for what is no id."""
    return datetime.fromisoformat(record_id.partition("-")[0])


def since_process_start_s() -> float:
    """Age of this process, to the kernel's clock tick (10 ms)."""
    # proc_pid_stat(5): the 22nd field, counted after the name in parentheses, which may hold anything.
    started_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def is_id(text: str) -> bool:
    """True for the whole id of a record."""
    return _ID.fullmatch(text) is not None


class ProcessorTime(NamedTuple):
    """The time that all processors of this host have spent since it was started, in clock ticks."""

    busy: int
    whole: int

    @classmethod
    def now(cls) -> "ProcessorTime":
        """Reads the times until now. Time that a hypervisor gave to others (steal) counts as busy."""
        # proc_stat(5): user nice system idle iowait irq softirq steal; guests are in user already.
        ticks = [int(word) for word in _PROCESSORS.read_text().partition("\n")[0].split()[1:9]]
        return cls(sum(ticks) - ticks[3] - ticks[4], sum(ticks))

    def busy_fraction(self) -> float | None:
        """The busy fraction from then until now; null when no tick has passed."""
        now = ProcessorTime.now()
        whole = now.whole - self.whole
        return (now.busy - self.busy) / whole if whole > 0 else None


def printable_command(arguments: Sequence[str]) -> list[str]:
    """A command line as text that JSON can hold; a byte that is no UTF-8 becomes ``\\xNN``."""
    return [os.fsencode(argument).decode(errors="backslashreplace") for argument in arguments]


def environment(near: HostLimits, far: HostLimits | None, origin: HostLimits | None = None) -> Environment:
    """This host's environment as it is now, the link included when a lab runs us."""
    sysctls = {}
    for name in _SYSCTLS_KEPT:
        try:
            sysctls[name.replace("/", ".")] = " ".join((_SYSCTLS / name).read_text().split())
        except OSError:
            continue
    return Environment(near=near, far=far, origin=origin, near_sysctls=sysctls, link=lab_link())


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
        return decoding.from_json(text, dict[str, Any])
    except msgspec.MsgspecError as error:
        raise HowdahError(
            f"{LAB_LINK_VARIABLE} is not a link description ({error}); unset it, or use: howdah lab run"
        ) from None
