"""Parquet files through DuckDB, which is given no network and no file but those that are named."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howdah import HowdahError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

OPTIONS = "(FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
"""Of COPY, into a file that is there and keeps its rights."""

_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


@contextmanager
def engine(tables: Mapping[str, Mapping[str, Any]] | None = None) -> Iterator["DuckDBPyConnection"]:
    """DuckDB with these arrays as tables. What it cannot do inside raises HowdahError."""
    # A profile needs no trace, and must be there at once.
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect(":memory:", config=_OFFLINE)
    try:
        for name, table in (tables or {}).items():
            connection.register(name, table)
        yield connection
    except duckdb.Error as error:
        first_line = str(error).partition("\n")[0]
        raise HowdahError(
            f"cannot read or write Parquet: {first_line}; check the files' permissions and the room there"
        ) from None
    finally:
        connection.close()


def text(file: Path) -> str:
    """A name as a literal of SQL."""
    return "'{}'".format(str(file).replace("'", "''"))


def flush(file: Path) -> None:
    """To the disk, the name as well: what the database says is there must survive a power cut."""
    for each, flags in ((file, os.O_RDWR), (file.parent, os.O_RDONLY)):
        descriptor = os.open(each, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
