"""Runs and traces as Parquet, for export and import: a row a run, and a row a sample.

DuckDB writes and reads it, and is given no network and no file but those that are named.
"""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from howdah import HowdahError, private
from howdah.archive.layout import Columns
from howdah.text import no_room

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SAMPLE: dict[str, type[Any]] = {
    "t_s": float,
    "stream": int,
    "bytes_acked": int,
    "cwnd": int,
    "ssthresh": int,
    "rtt_s": float,
    "min_rtt_s": float,
    "retransmissions": int,
    "delivery_rate_bps": float,
    "pacing_rate_bps": float,
    "notsent_bytes": int,
    "limited": str,
}
"""The columns but for ``id`` and ``sample``, which is a sample's place in its record."""

_OPTIONS = "(FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
"""Options of COPY, into a file that is there and keeps its rights."""

_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


@contextmanager
def _engine(
    where: str, tables: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator["DuckDBPyConnection"]:
    """DuckDB with these arrays as tables. What it cannot do inside raises HowdahError naming ``where``."""
    # A profile needs no trace, and must be there at once.
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect(":memory:", config=_OFFLINE)
    try:
        for name, table in (tables or {}).items():
            connection.register(name, table)
        yield connection
    except duckdb.Error as error:
        said = str(error).partition("\n")[0]
        if os.strerror(errno.ENOSPC) in said:
            raise HowdahError(no_room(where)) from None
        # All else is of what a file holds: duckdb has a class for some of it only.
        of_the_host = isinstance(error, duckdb.IOException | duckdb.OutOfMemoryException)
        raise HowdahError(
            f"cannot read or write {where}: {said}; check the files' permissions and the room there"
            if of_the_host
            else f"{where} is damaged, cut short or not from howdah: {said}; copy the exported folder again"
        ) from None
    finally:
        connection.close()


def _text(file: Path) -> str:
    """The name of a file as a literal of SQL."""
    return "'{}'".format(str(file).replace("'", "''"))


def write_runs(file: Path, kinds: Mapping[str, type[Any]], rows: Sequence[Sequence[Any]]) -> None:
    """Writes one row a run; ``kinds`` are the columns."""
    values = zip(*rows, strict=True) if rows else [()] * len(kinds)
    table = {name: _array(each, kind) for (name, kind), each in zip(kinds.items(), values, strict=True)}
    private.create(file)
    with _engine(str(file), {"runs": table}) as engine:
        engine.execute(f"COPY (SELECT * FROM runs) TO {_text(file)} {_OPTIONS}")


def read_runs(file: Path) -> list[tuple[str, int, str]]:
    """The id, the number of samples and the JSON of each run, sorted by id."""
    with _engine(str(file)) as engine:
        return engine.execute(
            f"SELECT id, samples, json FROM read_parquet({_text(file)}) ORDER BY id"
        ).fetchall()


def write(file: Path, runs: Sequence[tuple[str, Columns]]) -> None:
    """Writes one file with the samples of these runs."""
    counts = [len(columns["t_s"]) for _, columns in runs]
    table = {
        name: _array([value for _, columns in runs for value in columns[name]], kind)
        for name, kind in _SAMPLE.items()
    }
    table["id"] = np.ma.masked_array(np.repeat(np.array([run for run, _ in runs], np.object_), counts))
    table["sample"] = np.ma.masked_array(np.concatenate([np.arange(count) for count in counts]))
    private.create(file)
    with _engine(str(file), {"samples": table}) as engine:
        columns = ", ".join(("id", "sample", *_SAMPLE))
        engine.execute(f"COPY (SELECT {columns} FROM samples) TO {_text(file)} {_OPTIONS}")


def read(files: Sequence[Path], ids: Sequence[str]) -> dict[str, Columns]:
    """The samples of these runs that are in ``files``, by id; a run without any is not in it."""
    if not files:
        return {}
    names = ", ".join(map(_text, files))
    with _engine(" or ".join(map(str, files)), {"wanted": {"id": np.array(ids, np.object_)}}) as engine:
        found = engine.execute(
            f"SELECT id, {', '.join(_SAMPLE)} FROM read_parquet([{names}], hive_partitioning = false) "
            "SEMI JOIN wanted USING (id) ORDER BY id, sample"
        ).fetchall()
    return {
        run: dict(zip(_SAMPLE, list(zip(*rows, strict=True))[1:], strict=True))
        for run, rows in groupby(found, itemgetter(0))
    }


def _array(values: Sequence[Any], kind: type[Any]) -> "np.ma.MaskedArray[Any, Any]":
    """Values of one kind as an array, nulls masked; text becomes objects."""
    missing = [value is None for value in values]
    filled = [kind() if value is None else value for value in values]
    return np.ma.masked_array(np.array(filled, np.object_ if kind is str else kind), missing)
