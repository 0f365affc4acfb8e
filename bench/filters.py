"""10,000 random trees under random filter rules, copied by howdah and by rsync: ``make bench-filters``.

The test is ``crates/transfer/tests/needing/filters``; docs/leave-out.md says what the rules mean.
"""

import subprocess
import sys
from typing import Any

from bench import counting
from bench.report import Row, Target, publish

CASES = 10_000
_SAYS = "filters: "
_TEST = "filters::howdah_leaves_out_what_rsync_leaves_out"


def measure(cases: int) -> dict[str, Any]:
    """What came of so many cases; the mistakes made on purpose, and how many of them were found."""
    return counting.counted("needing", _TEST, _SAYS, "HOWDAH_FILTER_CASES", cases)


def main() -> int:
    """Runs the bench; returns its exit code."""
    version = subprocess.run(["rsync", "--version"], capture_output=True, text=True, check=True).stdout
    counted = measure(CASES)
    counted["rsync"] = version.partition("\n")[0]
    rows = [
        Row("trees copied by howdah and by rsync", counted["cases"], "", Target.at_least(CASES)),
        Row("of which the two results differ", counted["wrong"], "", Target.at_most(0)),
        Row("trees of which something was left out", counted["left_out"], "", Target.at_least(CASES / 2)),
        Row("of which rules also take something", counted["taken_back"], ""),
        Row("trees with filter files in folders", counted["filter_files"], ""),
        Row("rules that both refuse", counted["refused_by_both"], ""),
    ]
    for mistake in counted["mistakes"]:
        found = mistake["found"] / mistake["made"] if mistake["made"] else None
        rows.append(Row(f"found, made on purpose: {mistake['what']}", found, "", Target.at_least(0.01)))
    return 0 if publish("filters", rows, [counted]) else 1


if __name__ == "__main__":
    sys.exit(main())
