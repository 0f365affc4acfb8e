"""The rows of the bench: the sweep, the papers' statements, RTTs left out, and the other benches."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.report import RESULTS, Row, Target
from howdah import HowdahError
from howdah.archive import Archive
from howdah.archive.runs import Runs
from howdah.measure import schedule
from howdah.measure.plan import SweepPlan
from howdah.profiles.selection.evaluate import draw, evaluate
from howdah.report.contents import SEED
from howdah.report.material import Material
from howdah.report.statements import judge
from howdah.report.statements.statement import StatementVerdict

PARTS = {
    "profile": "synthetic profiles of known transition RTT",
    "dynamics": "logistic map and noise",
    "models": "loss model beside the public CUBIC cells",
    "archive": "30,000 runs × 100 samples",
}
"""Other benches, each with a record of its own, which answer for the rest of the table."""


def of_sweep(plan: SweepPlan, archive: Archive) -> Row:
    """Whether the sweep ran to its end."""
    planned = sum(plan.repeats().values())
    left = sum(len(runs) for _, runs in schedule.remaining(plan, schedule.finished_in(archive, plan)))
    return Row(f"runs of {plan.name} made", planned - left, f"of {planned}", Target.at_least(planned))


def of_lateness(material: Material) -> Row:
    """How many runs the machine spoilt."""
    late = {f"{1e3 * rtt_s:g} ms": found.late for rtt_s, found in material.late.items() if found.late}
    where = ", ".join(f"{count} at {rtt}" for rtt, count in late.items())
    return Row("of all runs, left out as late", sum(late.values()), "runs", note=where)


def of_statements(material: Material) -> Iterator[Row]:
    """Each statement: 1 agrees, 0 differs, nothing where its cells are lacking."""
    found = judge(material)
    values: dict[StatementVerdict, float | None] = {"agrees": 1.0, "differs": 0.0, "cannot tell": None}
    for each in found:
        note = "; ".join([each.numbers, *each.why])
        yield Row(f"{each.key}: {each.says}", values[each.verdict], each.verdict, note=note)
    verdicts = Counter(each.verdict for each in found)
    for verdict in values:
        yield Row(f"statements: {verdict}", verdicts[verdict], f"of {len(found)}")


def of_selection(material: Material) -> Iterator[Row]:
    """Choice and prediction at three RTTs that are taken away first, drawn by seed."""
    runs = material.cells.runs
    values: tuple[float | None, ...]
    try:
        rtts = draw(runs, SEED)
        found = evaluate(runs, rtts)
    except HowdahError as error:
        values, note = (None,) * 4, str(error)
    else:
        values = (found.share_mean, found.share_worst, found.error_median, found.coverage)
        note = f"{', '.join(f'{1e3 * rtt_s:g}' for rtt_s in rtts)} ms left out"
    asked = (
        ("choice, of the best measured, mean", Target.at_least(95)),
        ("choice, worst", Target.at_least(90)),
        ("prediction, median error", Target.at_most(8)),
        ("runs inside the 90 % interval", Target.within(85, 97)),
    )
    for (what, target), value in zip(asked, values, strict=True):
        yield Row(what, None if value is None else 100 * value, "%", target, note)
    if values[0] is not None:
        yield from _every_three(runs)


def _every_three(runs: Runs) -> Iterator[Row]:
    """The same whichever three inner RTTs are left out: how much it was the luck of the draw."""
    inner = np.unique(runs.rtt_s)[1:-1].tolist()
    found = [evaluate(runs, three) for three in itertools.combinations(inner, 3)]
    predictions = [each for one in found for each in one.predictions]
    inside = sum(each.runs_inside for each in predictions) / sum(each.runs for each in predictions)
    for what, value in (
        ("choice, mean", np.mean([one.share_mean for one in found])),
        ("choice, worst", min(one.share_worst for one in found)),
        ("prediction, median error", np.median([each.error for each in predictions])),
        ("runs inside the 90 % interval", inside),
    ):
        yield Row(f"over all {len(found)} draws: {what}", 100 * float(value), "%")


def of_parts(folder: Path = RESULTS) -> Iterator[Row]:
    """How many targets each of the other benches reached, from its record."""
    for name, what in PARTS.items():
        try:
            record = json.loads((folder / f"{name}.json").read_text())
        except OSError:
            yield Row(what, None, "", Target.at_least(1), f"no record; make bench-{name}")
            continue
        met = [row["met"] for row in record["rows"] if row["met"] is not None]
        missed = [row["what"] for row in record["rows"] if row["met"] is False]
        note = "; ".join([f"bench {name} at {record['commit']}", *(f"missed: {each}" for each in missed)])
        yield Row(what, int(np.sum(met)), "targets met", Target.at_least(len(met)), note)
