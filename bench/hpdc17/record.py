"""What is kept of the sweep: every run as one row, samples only where a figure is drawn from them.

``bench/results/hpdc17.json`` has the rows beside the bench's table, and the newest record without its
samples, for the set-up; ``hpdc17-traces.parquet`` the samples. The whole archive stays in ``.bench/hpdc17``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from bench.report import RESULTS
from howdah.archive import Archive, parquet
from howdah.archive.layout import columns
from howdah.archive.runs import COLUMNS, KINDS, Runs, Trace, trace
from howdah.report.cells import Cell
from howdah.report.figures import COUNTERPARTS
from howdah.report.material import Material
from howdah.values.record import Record

FILE = RESULTS / "hpdc17.json"
TRACES = RESULTS / "hpdc17-traces.parquet"
_OF_TRACES = {"traces", "poincare", "exponents", "relation"}
"""Families of figures that are drawn from samples."""


def kept(runs: Runs, newest: Record) -> list[dict[str, Any]]:
    """The runs as rows, unknown as null, and the newest record."""
    columns = {name: getattr(runs, name).tolist() for name in COLUMNS}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float) and np.isnan(value):
                row[name] = None
    return [*rows, {"record": msgspec.to_builtins(_without_samples(newest))}]


def keep_traces(archive: Archive, material: Material) -> None:
    """Writes the samples of the cells that a figure or a statement needs them of."""
    ids = sorted({each for cell in traced(material) for each in material.cells.ids(cell)})
    records = ((each, archive.load(each).outcome) for each in ids)
    samples = [(each, columns(outcome.samples)) for each, outcome in records if outcome is not None]
    parquet.write(TRACES, samples)


def traced(material: Material) -> list[Cell]:
    """The cells whose samples figures are drawn from."""
    subsets = [each.subset(material.cells) for each in COUNTERPARTS if each.family in _OF_TRACES]
    return [
        Cell(configuration, rtt_s)
        for subset in subsets
        for configuration in subset.configurations
        for rtt_s in subset.rtts(material.cells, configuration)
    ]


def load() -> tuple[Runs, Record]:
    """What was kept. Raises OSError when there is nothing."""
    *rows, last = json.loads(FILE.read_text())["runs"]
    names = [name for name in COLUMNS if name in rows[0]]
    columns = {name: np.array([row[name] for row in rows], KINDS[name]) for name in names}
    return Runs.of(_read, **columns), msgspec.convert(last["record"], Record)


def _read(ids: Sequence[str]) -> Mapping[str, Trace]:
    return {each: trace(found) for each, found in parquet.read([TRACES], ids).items()}


def _without_samples(record: Record) -> Record:
    if record.outcome is None:
        return record
    return msgspec.structs.replace(record, outcome=msgspec.structs.replace(record.outcome, samples=[]))
