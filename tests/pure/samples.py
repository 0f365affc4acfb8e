"""Values the pure tests share, and the command."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import strategies as st

from howdah.remote.messages import Progress
from howdah.values.link import LinkSpec
from howdah.values.outcome import Outcome, Sample, StreamOutcome
from howdah.values.plan import Plan
from howdah.values.probe import Counts, Probe
from howdah.values.record import Environment, HostLimits, Record, Swept, new_id

LIMITS = HostLimits(
    kernel="6.18.0",
    cpus=2,
    memory_bytes=2**33,
    congestion_controls_available=["reno", "cubic"],
    congestion_controls_allowed=["reno", "cubic"],
    congestion_control_default="cubic",
    rmem_max_bytes=212992,
    wmem_max_bytes=212992,
    tcp_rmem_max_bytes=6291456,
    tcp_wmem_max_bytes=4194304,
    tcp_mem_pages=(1, 2, 3),
    no_metrics_save=False,
    slow_start_after_idle=True,
    privileged=False,
)
SWITCHES = ("window_scaling", "timestamps", "sack", "receive_autotuning")
START = datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=UTC)

PROBE = Probe(
    way="icmp",
    address="192.0.2.7",
    elapsed_s=7.04,
    counts=Counts(sent=770, answered=768, lost=2),
    base_rtt_s=0.02002,
    base_is_seen=True,
    noise_s=0.00015,
    rtt_median_s=0.021,
    rtt_p90_s=0.03,
    rtt_p99_s=0.04,
    rtt_max_s=0.05,
    queue_from_s=0.00045,
    queue_share=0.341,
    queue_mean_s=0.005,
    queue_p90_s=0.01,
    queue_max_s=0.03,
    step_s=0.01,
    rtt_s=[],
    mean_of_ten_rtt_s=[],
)


def progress(**keys: object) -> Progress:
    """A copy that moves, but for what is given."""
    begin = {
        "phase": "moving",
        "elapsed_s": 1.0,
        "bytes_done": 0,
        "scan_complete": True,
        "files_done": 0,
        "files_skipped": 0,
        "bytes_skipped": 0,
        "streams": 4,
        "retransmissions": 0,
    }
    return msgspec.convert({**begin, **keys}, Progress)


def record(after_s: float = 0) -> Record:
    started_at = START + timedelta(seconds=after_s)
    return Record(
        id=new_id(started_at),
        kind="transfer",
        started_at=started_at,
        command=["howdah", "cp"],
        environment=Environment(near=LIMITS),
    )


def sample(t_s: float, stream: int, **changed: float | str | None) -> Sample:
    made = Sample(
        t_s=t_s,
        stream=stream,
        bytes_acked=1000 * stream + round(t_s * 10),
        cwnd=10,
        rtt_s=0.05,
        min_rtt_s=0.04,
        retransmissions=0,
        delivery_rate_bps=1e9,
        notsent_bytes=0,
    )
    return msgspec.structs.replace(made, **changed)


def run(
    after_s: float = 0,
    *,
    rate_bps: float = 1e9,
    control: str = "cubic",
    buffer_bytes: int | None = None,
    link: LinkSpec | None = None,
    host: str = "dtn2",
    rtt_s: float | None = 0.05,
    samples: list[Sample] | None = None,
    streams: int = 2,
    flags: list[str] | None = None,
    sweep: Swept | None = None,
) -> Record:
    """A record of ten seconds from memory to memory."""
    outcome = Outcome(
        direction="push",
        bytes=round(rate_bps * 10 / 8),
        files=0,
        folders=0,
        links=0,
        files_skipped=0,
        bytes_skipped=0,
        elapsed_s=10.5,
        setup_s=0.5,
        moving_s=10.0,
        encrypted=False,
        congestion_control=control,
        streams=[StreamOutcome(bytes=1, retransmissions=3, congestion_control=control)] * streams,
        samples=samples or [],
    )
    return msgspec.structs.replace(
        record(after_s),
        host=host,
        environment=Environment(near=LIMITS, link=msgspec.to_builtins(link) if link else None),
        rtt_s=rtt_s,
        plan=Plan(streams=streams, buffer_bytes=buffer_bytes, block_bytes=2**20, encrypt=False),
        outcome=outcome,
        flags=flags or [],
        sweep=sweep,
    )


SIZES = st.integers(4096, 2**31 - 1)
CONTROLS = st.lists(st.sampled_from(["reno", "cubic", "bbr", "htcp"]), min_size=1, unique=True)


@st.composite
def hosts(draw: st.DrawFn) -> HostLimits:
    available = draw(CONTROLS)
    allowed = draw(st.lists(st.sampled_from(available), unique=True))
    return msgspec.structs.replace(
        LIMITS,
        congestion_controls_available=available,
        congestion_controls_allowed=allowed,
        congestion_control_default=available[0],
        rmem_max_bytes=draw(SIZES),
        wmem_max_bytes=draw(SIZES),
        tcp_rmem_max_bytes=draw(SIZES),
        tcp_wmem_max_bytes=draw(SIZES),
        tcp_mem_pages=draw(st.none() | st.tuples(*[st.integers(1, 2**30)] * 3)),
        privileged=draw(st.booleans()),
        **{name: draw(st.none() | st.booleans()) for name in SWITCHES},
    )


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def howdah(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "howdah", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )
