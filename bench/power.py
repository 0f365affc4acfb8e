"""Power cuts at 2,000 places of a disk's log: ``make bench-power``.

The test is ``crates/transfer/tests/power_cut/replay.rs``; docs/guarantees.md says what is excluded.
"""

import sys
from typing import Any

from bench import counting
from bench.report import Row, Target, publish

CUTS = 2_000
AMID = {
    "amid_removal": "the removal of what the source has not",
    "amid_other_names": "the giving of other names",
    "amid_folders": "the giving of folders' attributes",
}
"""Steps of a mirror, by what the test calls cuts in their middle."""
_SAYS = "power cuts: "
_TEST = "no_cut_leaves_what_the_guarantees_exclude"


def measure(cuts: int) -> dict[str, Any]:
    """What so many cuts left; the events of the log, where the cuts were, and each finding in words."""
    return counting.counted("power_cut", _TEST, _SAYS, "HOWDAH_POWER_CUTS", cuts)


def main() -> int:
    """Runs the bench; returns its exit code."""
    counted = measure(CUTS)
    rows = [
        Row("power cuts", counted["in_a_copy"] + counted["outside_one"], "", Target.at_least(CUTS)),
        Row("in the middle of a copy", counted["in_a_copy"], ""),
        Row("states that docs/guarantees.md excludes", len(counted["wrong"]), "", Target.at_most(0)),
        *(Row(f"amid {what}", counted[key], "", Target.at_least(1)) for key, what in AMID.items()),
        Row("followed by the same command, which finished", counted["finished_again"], ""),
        Row("sectors and flushes in the log", counted["events"], ""),
    ]
    return 0 if publish("power", rows, [counted]) else 1


if __name__ == "__main__":
    sys.exit(main())
