"""The samples of one run as they are kept: one compressed blob.

It holds the columns of the samples as a JSON object of equally long lists, compressed by zlib. Columns
compress far better than rows, and anybody can read them without howdah. Eight streams sampled for 60 s take
some 29 B a sample; binary columns with their bytes transposed took 30.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from howdah.values.outcome import Sample

Columns = Mapping[str, Sequence[Any]]
"""The keys of a Sample, each with its values in the order in which they were taken; null where unknown."""


def columns(samples: Sequence[Sample]) -> Columns:
    """The samples of one run, at least one, by column."""
    values = zip(*map(msgspec.structs.astuple, samples), strict=True)
    return dict(zip(Sample.__struct_fields__, values, strict=True))


def pack(columns: Columns) -> bytes:
    """The blob of these columns. Raises OverflowError when a count is beyond 64 bits."""
    for values in columns.values():
        if any(isinstance(value, int) and value >= 2**63 for value in values):
            raise OverflowError
    return zlib.compress(msgspec.json.encode(columns))


def unpack(blob: bytes) -> Columns:
    """The columns in a blob."""
    return msgspec.json.decode(zlib.decompress(blob), type=dict[str, list[Any]])


def samples(blob: bytes) -> list[Sample]:
    """The samples in a blob."""
    found = unpack(blob)
    rows = zip(*found.values(), strict=True)
    return msgspec.convert([dict(zip(found, row, strict=True)) for row in rows], list[Sample])
