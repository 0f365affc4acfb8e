"""The table of runs as arrays, kept beside it: making arrays of 30,000 rows takes longer than analysing them.

Triggers empty the table ``columns`` whenever one of the runs changes, so what is found there is true.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howdah.archive.runs import COLUMNS, Runs, together
from howdah.archive.store import Store
from howdah.archive.traces import Trace

_TEXT = ("id", "path", "congestion_control", "sweep")
_WHOLE = ("streams", "bytes", "retransmissions", "repeat")
_TRUE_OR_FALSE = ("program", "late", "encrypted", "memory")


def load(store: Store, read_traces: Callable[[Sequence[str]], Mapping[str, Trace]]) -> Runs:
    """Every run of one configuration that moved something."""
    kept = store.ask("SELECT name, type, data FROM columns")
    arrays = {name: np.frombuffer(data, type_) for name, type_, data in kept} or _keep(store)
    return Runs(**arrays, read_traces=read_traces)


def _keep(store: Store) -> dict[str, NDArray[Any]]:
    # In one transaction, so that what is kept is what was read.
    with store.writing() as database:
        rows = database.execute(
            f"SELECT {', '.join(COLUMNS)}, rtt_emulated FROM runs "
            "WHERE rate_bps IS NOT NULL AND NOT changed ORDER BY id"
        ).fetchall()
        *values, emulated = zip(*rows, strict=True) if rows else [()] * (len(COLUMNS) + 1)
        arrays = {name: _array(name, column) for name, column in zip(COLUMNS, values, strict=True)}
        measured = ~np.array(emulated, np.bool_)
        arrays["rtt_s"][measured] = together(arrays["path"][measured], arrays["rtt_s"][measured])
        database.executemany(
            "INSERT OR REPLACE INTO columns (name, type, data) VALUES (?, ?, ?)",
            [(name, array.dtype.str, array.tobytes()) for name, array in arrays.items()],
        )
    return arrays


def _array(name: str, values: Sequence[Any]) -> NDArray[Any]:
    if name in _TEXT:
        return np.array([value or "" for value in values], np.str_)
    if name in _WHOLE:
        return np.array([-1 if value is None else value for value in values], np.int64)
    return np.array(values, np.bool_ if name in _TRUE_OR_FALSE else np.float64)
