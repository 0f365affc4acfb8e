"""The papers' statements, judged by rules over what was measured."""

from collections.abc import Sequence

from howdah.report.cells import PathCells, gigabits, limit_words
from howdah.report.material import Material
from howdah.report.statements import dynamics, transitions, trends
from howdah.report.statements.statement import Finding, JudgedStatement, Statement

__all__ = ["STATEMENTS", "JudgedStatement", "judge"]

STATEMENTS = [
    each
    for module in (trends, transitions, dynamics)
    for each in vars(module).values()
    if isinstance(each, Statement)
]
"""Every statement, in the order of the modules and within each of their definitions."""

_CELLS_TOLD = 3


def judge(material: Material, statements: Sequence[Statement] = STATEMENTS) -> list[JudgedStatement]:
    """Judges each statement, in order."""
    return [_judged(statement, statement.judge(material), material.cells) for statement in statements]


def _judged(statement: Statement, finding: Finding, cells: PathCells) -> JudgedStatement:
    why = [
        f"{cell.words}: {gigabits(cells.mean_bps(cell))}, {limit_words(cells, cell)}"
        for cell in finding.where[:_CELLS_TOLD]
    ]
    more = len(finding.where) - _CELLS_TOLD
    return JudgedStatement(
        key=statement.key,
        says=statement.says,
        source=statement.source,
        rule=statement.rule,
        verdict=finding.verdict,
        numbers=finding.numbers,
        why=[*why, f"and {more} more cells"] if more > 0 else why,
    )
