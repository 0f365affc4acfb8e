"""Values the pure tests share, and the command."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import strategies as st

from howdah.record import Environment, HostLimits, Record, new_id

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
START = datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=UTC)


def record(after_s: float = 0) -> Record:
    started_at = START + timedelta(seconds=after_s)
    return Record(
        id=new_id(started_at),
        kind="transfer",
        started_at=started_at,
        command=["howdah", "cp"],
        environment=Environment(near=LIMITS),
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
