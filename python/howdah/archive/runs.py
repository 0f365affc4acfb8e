"""Runs and their traces: the columns that everything analyses, and the samples of one run, as arrays."""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from howdah.archive.layout import Columns
from howdah.archive.store import Store

_FLOATS = ("t_s", "ssthresh", "rtt_s", "min_rtt_s", "delivery_rate_bps", "pacing_rate_bps")
"""The columns that are calculated with as floats; those that may be null are among them."""


class Trace(NamedTuple):
    """The samples of one run as equally long arrays, in the order they were taken.

    ``ssthresh`` (before the first loss) and ``pacing_rate_bps`` are NaN where unknown, ``limited`` is "".
    """

    t_s: np.ndarray[Any, np.dtype[np.float64]]
    """The time since the session's start."""
    stream: np.ndarray[Any, np.dtype[np.int64]]
    bytes_acked: np.ndarray[Any, np.dtype[np.int64]]
    """The bytes of the stream, since it began."""
    cwnd: np.ndarray[Any, np.dtype[np.int64]]
    """The congestion window in segments."""
    ssthresh: np.ndarray[Any, np.dtype[np.float64]]
    """The slow-start threshold in segments."""
    rtt_s: np.ndarray[Any, np.dtype[np.float64]]
    """The smoothed round-trip time."""
    min_rtt_s: np.ndarray[Any, np.dtype[np.float64]]
    retransmissions: np.ndarray[Any, np.dtype[np.int64]]
    """The segments of the stream sent again, since it began."""
    delivery_rate_bps: np.ndarray[Any, np.dtype[np.float64]]
    pacing_rate_bps: np.ndarray[Any, np.dtype[np.float64]]
    notsent_bytes: np.ndarray[Any, np.dtype[np.int64]]
    limited: np.ndarray[Any, np.dtype[np.str_]]

    def of(self, stream: int) -> "Trace":
        """The samples of one stream."""
        chosen = self.stream == stream
        return Trace(*(column[chosen] for column in self))


def trace(columns: Columns) -> Trace:
    """The columns of samples as arrays."""
    return Trace(**{name: _trace_array(name, columns[name]) for name in Trace._fields})


def _trace_array(name: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    if name == "limited":
        return np.array([value or "" for value in values], np.str_)
    return np.array(values, np.float64 if name in _FLOATS else np.int64)


Value = str | float | bool | None
"""The value of a condition; None is what is unknown."""


class Configuration(NamedTuple):
    """The choices of a transfer that its throughput depends on."""

    congestion_control: str
    streams: int
    buffer_bytes: float | None
    """The buffer; None: autotuned."""


def _no_traces(ids: Sequence[str]) -> dict[str, Trace]:
    return {}


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Runs:
    """Runs of one configuration that moved something, not through ssh, oldest first: equally long arrays.

    Unknown is NaN, "" or −1.
    """

    id: NDArray[np.str_]
    path: NDArray[np.str_]
    """The far host, or a lab's link in words without its delays."""
    congestion_control: NDArray[np.str_]
    """The name that users know: ``htcp`` also for howdah's own ``hd_htcp``."""
    program: NDArray[np.bool_]
    """Whether the congestion control is howdah's own program rather than the kernel's."""
    streams: NDArray[np.int64]
    buffer_bytes: NDArray[np.float64]
    """The buffer in bytes; NaN: autotuned."""
    rtt_s: NDArray[np.float64]
    """The round-trip time without queues: of a lab's link, else as measured before the run. Runs that
    belong together have one value (``together``)."""
    capacity_bps: NDArray[np.float64]
    """The capacity of a lab's link, on the wire."""
    loss: NDArray[np.float64]
    """Mean share of segments that a lab's link loses."""
    rate_bps: NDArray[np.float64]
    """Mean goodput from the first byte on: Θ_O of the HPDC 2017 paper, section 3."""
    elapsed_s: NDArray[np.float64]
    """The time of the whole session, setting up included."""
    bytes: NDArray[np.int64]
    retransmissions: NDArray[np.int64]
    late: NDArray[np.bool_]
    """The machine, not the lab's link, spoilt it."""
    encrypted: NDArray[np.bool_]
    memory: NDArray[np.bool_]
    """Whether the run was from memory to memory."""
    sweep: NDArray[np.str_]
    repeat: NDArray[np.int64]
    read_traces: Callable[[Sequence[str]], Mapping[str, Trace]] = dataclasses.field(
        default=_no_traces, repr=False
    )

    @classmethod
    def of(
        cls, read_traces: Callable[[Sequence[str]], Mapping[str, Trace]] = _no_traces, **columns: NDArray[Any]
    ) -> "Runs":
        """The runs with these columns, ``id`` among them; all other columns are unknown, or False."""
        count = len(columns["id"])
        unknown = {name: _array(name, [None] * count) for name in COLUMNS if name not in columns}
        return cls(read_traces=read_traces, **columns, **unknown)

    def __post_init__(self) -> None:
        if len({len(getattr(self, name)) for name in COLUMNS}) > 1:
            raise ValueError("columns of unequal length")

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, chosen: NDArray[Any] | slice) -> "Runs":
        """The runs of a mask, of indices or of a slice."""
        return dataclasses.replace(self, **{name: getattr(self, name)[chosen] for name in COLUMNS})

    def where(self, **conditions: Value | Collection[Value]) -> "Runs":
        """The runs whose columns have these values, or one of several: ``where(streams=(1, 4), late=False)``.

        None stands for what is unknown, so ``buffer_bytes=None`` is autotuned.
        """
        kept = np.ones(len(self), np.bool_)
        for name, wanted in conditions.items():
            alternatives = (
                [wanted] if isinstance(wanted, str) or not isinstance(wanted, Collection) else wanted
            )
            matches = [_equals(getattr(self, name), value) for value in alternatives]
            kept &= np.any(matches, axis=0) if matches else False
        return self[kept]

    def configurations(self) -> list[Configuration]:
        """The configurations that occur, sorted; autotuned after the largest buffer."""
        return self.by_configuration()[0]

    def by_configuration(self) -> tuple[list[Configuration], NDArray[np.int64]]:
        """The configurations that occur, sorted, and for each run the index of its own."""
        codes = np.zeros(len(self), np.int64)
        for column in (self.congestion_control, self.streams, self.buffer_bytes):
            values, places = np.unique(column, return_inverse=True)
            codes = codes * (len(values) + 1) + places
        _, first, own = np.unique(codes, return_index=True, return_inverse=True)
        buffers = (None if np.isnan(size) else float(size) for size in self.buffer_bytes[first])
        found = zip(self.congestion_control[first], self.streams[first], buffers, strict=True)
        return [Configuration(str(control), int(streams), size) for control, streams, size in found], own

    def traces(self, ids: Sequence[str] | None = None) -> Mapping[str, Trace]:
        """The traces of these runs, by default of all, by id; a run without one is not in it."""
        return self.read_traces(self.id.tolist() if ids is None else ids)


COLUMNS = tuple(field.name for field in dataclasses.fields(Runs) if field.name != "read_traces")


def load(store: Store, read_traces: Callable[[Sequence[str]], Mapping[str, Trace]]) -> Runs:
    """Every run of one configuration that moved something.

    The arrays are kept beside the table, because making them of 30,000 rows takes longer than analysing them.
    Triggers empty the table ``columns`` whenever a run changes, so what is found there is true.
    """
    kept = store.ask("SELECT name, type, data FROM columns")
    arrays = {name: np.frombuffer(data, type_) for name, type_, data in kept}
    if set(arrays) != set(COLUMNS):
        arrays = _keep(store)
    return Runs(**arrays, read_traces=read_traces)


def _keep(store: Store) -> dict[str, NDArray[Any]]:
    if store.is_read_only:
        return _read(store)
    # In one transaction, so that what is kept is what was read.
    with store.writing() as database:
        arrays = _read(store)
        database.executemany(
            "INSERT OR REPLACE INTO columns (name, type, data) VALUES (?, ?, ?)",
            [(name, array.dtype.str, array.tobytes()) for name, array in arrays.items()],
        )
    return arrays


def _read(store: Store) -> dict[str, NDArray[Any]]:
    rows = store.ask(
        f"SELECT {', '.join(COLUMNS)}, rtt_emulated FROM runs "
        "WHERE rate_bps IS NOT NULL AND NOT changed AND NOT through_ssh AND NOT limited ORDER BY id"
    )
    *values, emulated = zip(*rows, strict=True) if rows else [()] * (len(COLUMNS) + 1)
    arrays = {name: _array(name, column) for name, column in zip(COLUMNS, values, strict=True)}
    measured = ~np.array(emulated, np.bool_)
    arrays["rtt_s"][measured] = together(arrays["path"][measured], arrays["rtt_s"][measured])
    return arrays


def _array(name: str, values: Sequence[Any]) -> NDArray[Any]:
    kind = KINDS[name]
    if kind in _UNKNOWN:
        values = [_UNKNOWN[kind] if value is None else value for value in values]
    return np.array(values, kind)


KINDS = {
    name: get_args(get_args(hint)[1])[0] for name, hint in get_type_hints(Runs).items() if name in COLUMNS
}
"""The kind of value in each column."""
_UNKNOWN: dict[type[Any], Any] = {np.str_: "", np.int64: -1}
"""The values that stand for null; of floats it is NaN."""


def together(path: NDArray[np.str_], rtt_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """One round-trip time for runs that belong together, the smallest of them.

    Those of one path do whose times are within ``SPREAD`` of it: what a path measures varies by the
    queues and hosts of the moment, and runs at times that all differ would make no profile.
    """
    shared = rtt_s.copy()
    for place in np.unique(path):
        (members,) = np.nonzero((path == place) & ~np.isnan(rtt_s))
        members = members[np.argsort(rtt_s[members], kind="stable")]
        ordered = rtt_s[members]
        start = 0
        while start < len(ordered):
            least = ordered[start]
            end = int(np.searchsorted(ordered, least * (1 + SPREAD) + SPREAD_S, side="right"))
            shared[members[start:end]] = least
            start = end
    return shared


SPREAD = 0.1
SPREAD_S = 50e-6
"""The same as a time, for paths so short that a host's own delays are most of what is measured."""


def _equals(column: NDArray[Any], value: Value) -> NDArray[np.bool_]:
    found: NDArray[np.bool_]
    if value is not None and not (isinstance(value, float) and math.isnan(value)):
        found = column == value
    elif column.dtype.kind == "f":
        found = np.isnan(column)
    else:
        found = column == ("" if column.dtype.kind == "U" else -1)
    return found
