"""Bottlenecks made on purpose: what is drawn, and how runs are judged."""

from typing import Any

from bench.why import judge
from bench.why.kinds import KEPT, KINDS, cases


def test_cases_are_of_fourteen_kinds_and_the_same_for_a_seed() -> None:
    drawn = cases(10)
    assert len(drawn) == 140
    assert len(KINDS) == 14
    assert drawn == cases(10)
    assert set(KEPT) <= set(KINDS)
    assert sum(case.for_the_test for case in drawn) == 20
    for case in drawn:
        ways = [case.takes_s is not None, case.control is not None, case.processor is not None]
        assert sum(ways) == 1, f"the truth of {case.kind} is told in one way"


def run(kind: str, share: float, *, right: bool) -> dict[str, Any]:
    return {
        "kind": kind,
        "right": right,
        "share": share,
        "true_share": 0.8,
        "for_the_test": kind in KEPT,
    }


def test_the_names_and_the_shares_are_judged_apart() -> None:
    runs = [run("loss", 0.75, right=True), run("loss", 0.5, right=True), run(KEPT[0], 0.8, right=False)]
    rows = {row.what: row for row in judge.rows(runs)}
    assert rows["named rightly, all kinds"].value == 2 / 3
    assert rows["named rightly, the kinds kept for the test"].value == 0.0
    assert rows["shares within 10 points of the truth, all kinds"].value == 2 / 3
    assert not any(row.met for row in rows.values() if row.target is not None)
    assert rows["loss: share apart from the truth, median"].value is not None
