"""The archive with 30,000 runs of 100 samples in it: ``make bench-archive``.

The runs are made up, their records and the way into the store are not. Nothing here needs privilege or a lab.
"""

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from pathlib import Path
from typing import Any

import msgspec

from bench.report import Row, Target, publish
from howdah.archive import Archive
from howdah.archive.layout import FILE
from howdah.archive.paths import copies
from howdah.archive.reading import entry
from howdah.archive.runs import Runs
from howdah.archive.store import Store
from howdah.archive.upkeep import collect
from howdah.profiles.profile import Profile, profiles
from howdah.values.link import symmetric
from howdah.values.outcome import Outcome, Sample, StreamOutcome
from howdah.values.plan import Plan
from howdah.values.record import Environment, HostLimits, Record, dumps, new_id

RUNS = 30_000
SAMPLES = 100
REPEATS = 7
"""Of each measurement; its median counts."""

CONTROLS = ("cubic", "hd_htcp", "hd_scalable")
STREAMS = (1, 4, 10)
BUFFERS_BYTES = (250_000, 256_000_000, 1_000_000_000)
RTTS_S = (0.0004, 0.0118, 0.0226, 0.0456, 0.0916, 0.183, 0.366)
"""The cells of the HPDC 2017 paper."""

RATE_BPS = 10_000_000_000
PATH = "lab 10 Gb/s"
SPAN_S = 10.0
APART = timedelta(minutes=5)
_BATCH = 500


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="howdah-bench-") as folder:
        archive = Archive(Path(folder) / "howdah" / "records")
        taking_s = _timed(lambda: fill(archive, options.runs))
        measured = {"runs": options.runs, "samples": SAMPLES, "taking_s": taking_s, **measure(archive)}
    full = options.runs >= RUNS
    met = publish("archive", rows(measured), [measured], keep=options.keep and full)
    return 0 if met else 1


def fill(archive: Archive, count: int) -> None:
    """Takes so many runs in, by the way that a record of a copy takes."""
    made = islice(records(), count)
    archive.root.mkdir(parents=True)
    with Store(archive.root) as store:
        while batch := list(islice(made, _BATCH)):
            store.add([entry(dumps(record), record.id) for record in batch])


def records() -> Iterator[Record]:
    """Runs of all cells in turn, endlessly, at rates that fall with the RTT."""
    chance = random.Random(1)  # noqa: S311
    started_at = datetime(2026, 1, 1, tzinfo=UTC)
    limits = HostLimits.here()
    cells = list(product(CONTROLS, STREAMS, BUFFERS_BYTES, RTTS_S))
    while True:
        for control, streams, buffer_bytes, rtt_s in cells:
            window_bps = streams * buffer_bytes * 8 / rtt_s
            rate_bps = min(0.95 * RATE_BPS * math.exp(-rtt_s), window_bps) * chance.uniform(0.9, 1)
            link = msgspec.to_builtins(symmetric(RATE_BPS, round(rtt_s * 1e9)))
            yield Record(
                id=new_id(started_at),
                kind="transfer",
                started_at=started_at,
                command=["howdah", "sweep", "hpdc17"],
                host="far",
                environment=Environment(near=limits, far=limits, link=link),
                rtt_s=rtt_s,
                plan=Plan(streams=streams, buffer_bytes=buffer_bytes, block_bytes=2**20, encrypt=False),
                outcome=_outcome(control, streams, rate_bps, rtt_s),
            )
            started_at += APART


def _outcome(control: str, streams: int, rate_bps: float, rtt_s: float) -> Outcome:
    moved_bytes = round(rate_bps * SPAN_S / 8)
    share_bytes = moved_bytes // streams
    ticks = SAMPLES // streams
    return Outcome(
        direction="push",
        bytes=moved_bytes,
        files=0,
        folders=0,
        links=0,
        files_skipped=0,
        bytes_skipped=0,
        elapsed_s=SPAN_S + 2 * rtt_s,
        setup_s=2 * rtt_s,
        moving_s=SPAN_S,
        encrypted=False,
        congestion_control=control,
        streams=[StreamOutcome(bytes=share_bytes, retransmissions=0, congestion_control=control)] * streams,
        samples=[
            Sample(
                t_s=tick * SPAN_S / ticks,
                stream=stream,
                bytes_acked=share_bytes * tick // ticks,
                cwnd=10 + tick,
                rtt_s=rtt_s,
                min_rtt_s=rtt_s,
                retransmissions=0,
                delivery_rate_bps=rate_bps / streams,
                notsent_bytes=0,
            )
            for tick in range(ticks)
            for stream in range(streams)
        ],
    )


def measure(archive: Archive) -> dict[str, Any]:
    """Seconds, each the median of some, and bytes."""
    first_s = _timed(archive.runs)
    warm_s = _median_s(lambda: profile_of_all(archive))
    runs = archive.runs()
    middle = str(runs.id[len(runs) // 2])
    data = str(archive.root.parents[1])
    return {
        "first_s": first_s,
        "profile_s": warm_s,
        "cells": sum(len(each.rtt_s) for each in profile_of_all(archive)),
        "trace_s": _median_s(lambda: archive.traces([middle])),
        "memory_s": _median_s(lambda: copies(archive.inbox, PATH, "push")),
        "profile_starts_s": _median_s(lambda: _command(data, "profile", "--path", "nowhere")),
        "profile_whole_s": _median_s(lambda: _command(data, "profile")),
        "ls_s": _median_s(lambda: _command(data, "archive", "ls")),
        "database_bytes": _database_bytes(archive) - (traces_bytes := _traces_bytes(archive)),
        "traces_bytes": traces_bytes,
        "gc_s": _timed(lambda: collect(archive.inbox)),
    }


def profile_of_all(archive: Archive) -> list[Profile]:
    """Every run read and grouped: box statistics of each configuration at each RTT."""
    runs: Runs = archive.runs()
    return profiles(runs.by_configuration()[1], runs.rtt_s, runs.rate_bps)


def rows(measured: dict[str, Any]) -> list[Row]:
    """The table."""
    what = f"{measured['runs']:,} runs × {measured['samples']} samples"
    return [
        Row(
            f"{what}: a profile over all",
            measured["profile_s"],
            "s",
            Target.at_most(0.1, "< 0.1"),
            f"warm, {measured['cells']} cells",
        ),
        Row(
            "howdah profile: start, all runs read",
            measured["profile_starts_s"],
            "s",
            Target.at_most(0.5, "< 0.5"),
        ),
        Row(
            "what a copy asks before its first byte: the memory of one path",
            measured["memory_s"],
            "s",
            Target.at_most(0.002, "< 0.002"),
            "warm, in a thread while ssh logs in",
        ),
        Row("howdah profile: all of it, with its tables", measured["profile_whole_s"], "s"),
        Row("the same runs read when one has changed", measured["first_s"], "s"),
        Row("the trace of one run", measured["trace_s"], "s"),
        Row("howdah archive ls", measured["ls_s"], "s"),
        Row("taken in", measured["runs"] / measured["taking_s"], "runs/s"),
        Row("howdah archive gc", measured["gc_s"], "s"),
        Row("SQLite but for traces", measured["database_bytes"] / measured["runs"], "B/run"),
        Row("traces", measured["traces_bytes"] / measured["runs"] / measured["samples"], "B/sample"),
    ]


def _command(data: str, *words: str) -> None:
    argv = [sys.executable, "-m", "howdah", *words]
    subprocess.run(argv, env={**os.environ, "XDG_DATA_HOME": data}, capture_output=True, check=False)


def _timed(work: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


def _median_s(work: Callable[[], object]) -> float:
    return statistics.median(_timed(work) for _ in range(REPEATS))


def _database_bytes(archive: Archive) -> int:
    return (archive.root / FILE).stat().st_size


def _traces_bytes(archive: Archive) -> int:
    with Store(archive.root) as store:
        ((total,),) = store.ask("SELECT sum(length(trace)) FROM traces")
    return int(total)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.archive", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help="fewer, to try it")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="leave bench/results as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
