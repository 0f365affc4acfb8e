"""Traces as Parquet: one row a sample, one folder a month, ``traces/year=2026/month=11/NAME.parquet``.

DuckDB writes and reads them; any other reader of partitioned Parquet finds ``year`` and ``month`` in the
names. A file is written hidden and shown by a rename, so such a reader never meets a half.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from howdah import private
from howdah.archive import parquet
from howdah.values.record import Sample

_TYPES: dict[str, type[Any]] = {
    "t_s": np.float64,
    "stream": np.int64,
    "bytes_acked": np.int64,
    "cwnd": np.int64,
    "ssthresh": np.int64,
    "rtt_s": np.float64,
    "min_rtt_s": np.float64,
    "retransmissions": np.int64,
    "delivery_rate_bps": np.float64,
    "pacing_rate_bps": np.float64,
    "notsent_bytes": np.int64,
    "limited": str,
}
"""The columns but for ``id`` and ``sample``, which is a sample's place in its record."""

_NULLABLE = ("ssthresh", "pacing_rate_bps")
_COLUMNS = ", ".join(("sample", *_TYPES))


class Trace(NamedTuple):
    """The samples of one run as equally long arrays, in the order they were taken.

    ``ssthresh`` (before the first loss) and ``pacing_rate_bps`` are NaN where unknown, ``limited`` is "".
    """

    t_s: np.ndarray[Any, np.dtype[np.float64]]
    """Since the session's start."""
    stream: np.ndarray[Any, np.dtype[np.int64]]
    bytes_acked: np.ndarray[Any, np.dtype[np.int64]]
    """Of the stream, since it began."""
    cwnd: np.ndarray[Any, np.dtype[np.int64]]
    """Segments."""
    ssthresh: np.ndarray[Any, np.dtype[np.float64]]
    """Segments."""
    rtt_s: np.ndarray[Any, np.dtype[np.float64]]
    """Smoothed."""
    min_rtt_s: np.ndarray[Any, np.dtype[np.float64]]
    retransmissions: np.ndarray[Any, np.dtype[np.int64]]
    """Segments of the stream, since it began."""
    delivery_rate_bps: np.ndarray[Any, np.dtype[np.float64]]
    pacing_rate_bps: np.ndarray[Any, np.dtype[np.float64]]
    notsent_bytes: np.ndarray[Any, np.dtype[np.int64]]
    limited: np.ndarray[Any, np.dtype[np.str_]]

    def of(self, stream: int) -> "Trace":
        """The samples of one stream."""
        chosen = self.stream == stream
        return Trace(*(column[chosen] for column in self))


Columns = Mapping[str, "np.ma.MaskedArray[Any, Any]"]
"""``sample`` and those of a trace, nulls masked."""


def columns(samples: Sequence[Sample]) -> Columns:
    """The samples of one run, at least one. Raises OverflowError when a count is beyond 64 bits."""
    values = zip(*map(msgspec.structs.astuple, samples), strict=True)
    by_name = dict(zip(Sample.__struct_fields__, values, strict=True))
    masked = {name: column(by_name[name], kind) for name, kind in _TYPES.items()}
    return {"sample": np.ma.masked_array(np.arange(len(samples))), **masked}


def column(values: Sequence[Any], kind: type[Any]) -> np.ma.MaskedArray[Any, Any]:
    """Values of one kind as an array, nulls masked; text becomes objects."""
    missing = [value is None for value in values]
    filled = [kind() if value is None else value for value in values] if any(missing) else values
    return np.ma.masked_array(np.array(filled, np.object_ if kind is str else kind), missing)


def samples(columns: Columns) -> list[Sample]:
    """What ``columns`` were made from."""
    values = (columns[name].tolist() for name in _TYPES)
    return [Sample(**dict(zip(_TYPES, each, strict=True))) for each in zip(*values, strict=True)]


def trace(columns: Columns) -> Trace:
    """The same for calculations."""
    floats = {name: np.ma.filled(columns[name].astype(np.float64), np.nan) for name in _NULLABLE}
    limited = np.ma.filled(columns["limited"], "").astype(np.str_)
    rest = {name: columns[name].data for name in _TYPES if name not in _NULLABLE}
    return Trace(**{**rest, **floats, "limited": limited})


def write(file: Path, runs: Sequence[tuple[str, Columns]]) -> int:
    """Writes one file with the samples of these runs, on the disk when it returns; how many samples."""
    counts = [len(each["sample"]) for _, each in runs]
    table = {name: _concatenated([each[name] for _, each in runs]) for name in ("sample", *_TYPES)}
    table["id"] = np.ma.masked_array(np.repeat(np.array([run_id for run_id, _ in runs], np.object_), counts))
    private.create(file)
    with parquet.engine({"samples": table}) as engine:
        engine.execute(f"COPY (SELECT id, {_COLUMNS} FROM samples) TO {parquet.text(file)} {parquet.OPTIONS}")
    parquet.flush(file)
    return sum(counts)


def join(file: Path, parts: Sequence[Path], ids: Sequence[str]) -> int:
    """Writes one file with the samples of these runs that are in ``parts``; how many samples."""
    private.create(file)
    with parquet.engine({"wanted": {"id": np.array(ids, np.object_)}}) as engine:
        engine.execute(f"COPY ({_select(parts)}) TO {parquet.text(file)} {parquet.OPTIONS}")
        (count,) = engine.execute(f"SELECT count(*) FROM read_parquet({parquet.text(file)})").fetchall()[0]
    parquet.flush(file)
    return int(count)


def read(parts: Sequence[Path], ids: Sequence[str]) -> dict[str, Columns]:
    """The samples of these runs that are in ``parts``, by id; a run without any is not in it."""
    if not parts:
        return {}
    with parquet.engine({"wanted": {"id": np.array(ids, np.object_)}}) as engine:
        found = engine.execute(_select(parts)).fetchnumpy()
    masked = {name: np.ma.masked_array(column) for name, column in found.items()}
    starts = np.flatnonzero(masked["sample"].data == 0)
    ends = [*starts[1:].tolist(), len(masked["sample"])]
    return {
        str(masked["id"][start]): {name: column[start:end] for name, column in masked.items() if name != "id"}
        for start, end in zip(starts.tolist(), ends, strict=True)
    }


def _concatenated(columns: Sequence[np.ma.MaskedArray[Any, Any]]) -> np.ma.MaskedArray[Any, Any]:
    values = np.concatenate([column.data for column in columns])
    return np.ma.masked_array(values, np.concatenate([np.ma.getmaskarray(column) for column in columns]))


def _select(parts: Sequence[Path]) -> str:
    files = ", ".join(parquet.text(part) for part in parts)
    return (
        f"SELECT id, {_COLUMNS} FROM read_parquet([{files}], hive_partitioning = false) "
        "SEMI JOIN wanted USING (id) ORDER BY id, sample"
    )
