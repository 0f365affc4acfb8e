"""Records that are measured in parts: the last run of each, as long as all are of one commit."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench import report

Run = dict[str, Any]


def kept(name: str) -> list[Run]:
    """The runs of ``results/NAME.json``, or of a bench that was stopped, if they are of this commit."""
    now = report.commit()
    found = (record(name), record(_unfinished(name)))
    return next((list(each["runs"]) for each in found if each.get("commit") == now), [])


def record(name: str) -> dict[str, Any]:
    """``results/NAME.json``; empty where there is none."""
    path = report.RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keeps(name: str, *, whole: bool) -> bool:
    """Whether runs may be kept: a part never takes the place of another commit's record. Says so if not."""
    found = record(name).get("commit")
    if whole or found in (None, report.commit()):
        return True
    remedy = f"measure all parts, or remove {report.RESULTS / name}.json first"
    print(f"nothing of this is kept, for the record is of {found}; {remedy}", file=sys.stderr)
    return False


def key(run: Run, names: Sequence[str]) -> tuple[Any, ...]:
    """What tells a run from all others."""
    return tuple(run.get(name) for name in names)


def gather(
    name: str,
    names: Sequence[str],
    measured: Iterable[Run],
    rows: Callable[[list[Run]], list[report.Row]],
    line: Callable[[Run], str],
    *,
    keep: bool,
) -> list[Run]:
    """All runs, those measured now in the place of kept ones with the same ``key``.

    Each is told by its ``line`` and, if ``keep``, written at once: whatever stops the bench costs one.
    Another commit's record stays until the last run.
    """
    runs = kept(name) if keep else []
    own = record(name).get("commit") in (None, report.commit())
    at = name if own else _unfinished(name)
    for run in measured:
        print(line(run), file=sys.stderr)
        runs = [each for each in runs if key(each, names) != key(run, names)] + [run]
        if keep:
            report.write(at, rows(runs), runs)
    if keep and not own:
        report.write(name, rows(runs), runs)
        (report.RESULTS / f"{at}.json").unlink(missing_ok=True)
    return runs


def _unfinished(name: str) -> str:
    return f"{name}.unfinished"
