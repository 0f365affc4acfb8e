"""The table of the runs."""

import statistics
from collections.abc import Iterator

from bench.million.copies import AGAIN, FIRST, FOLDER, PATHS, SCATTERED, SIZES
from bench.parts import Run
from bench.report import Row, Target

MIB = 1 << 20
FLAT_MIB = 64.0
KINDS = (FIRST, AGAIN, SCATTERED, FOLDER)
_WORDS = {
    FIRST: "a first copy",
    AGAIN: "nothing to do",
    SCATTERED: "--delete, 1 % extraneous",
    FOLDER: "--delete, a folder of 10 % extraneous",
}


def rows(runs: list[Run]) -> list[Row]:
    """The rows of all sizes that were measured; what is asked for is asked of the largest."""
    sizes = sorted({run["files"] for run in runs}) or list(SIZES)
    return [*_memory(runs, sizes), *_times(runs, sizes), *_compared(runs, sizes)]


def _memory(runs: list[Run], sizes: list[int]) -> Iterator[Row]:
    for end in ("near", "far"):
        peaks = {files: _peak_mib(runs, "howdah", files, end) for files in sizes}
        for files, peak in peaks.items():
            yield Row(f"{end} end, {files:,} files: most memory", peak, "MiB")
        least, most = peaks[sizes[0]], peaks[sizes[-1]]
        grown = None if least is None or most is None or len(sizes) == 1 else most - least
        what = f"{end} end: memory at {sizes[-1]:,} files beyond that at {sizes[0]:,}"
        yield Row(what, grown, "MiB", Target.at_most(FLAT_MIB))
        yield Row(f"rsync's {end} end, {sizes[-1]:,} files", _peak_mib(runs, "rsync", sizes[-1], end), "MiB")


def _peak_mib(runs: list[Run], tool: str, files: int, end: str) -> float | None:
    of = [run for run in runs if (run["files"], run["tool"]) == (files, tool) and "wall_s" in run]
    peaks = [run["peak_bytes"][end] for run in of]
    return max(peaks) / MIB if peaks else None


def _times(runs: list[Run], sizes: list[int]) -> Iterator[Row]:
    for files in sizes:
        for path in PATHS:
            for kind in KINDS:
                pairs = _pairs(runs, files, path.name, kind)
                if not pairs:
                    continue
                where = f"{_WORDS[kind]}, {files:,} files, {path.name}"
                for index, tool in enumerate(("howdah", "rsync")):
                    walls = [pair[index] for pair in pairs]
                    spread = f"{min(walls):.2f} … {max(walls):.2f}"
                    yield Row(f"{where}: {tool}", statistics.median(walls), "s", note=spread)
                share = statistics.median(ours / theirs for ours, theirs in pairs)
                asked = kind != FIRST and files == sizes[-1]
                yield Row(f"{where}: of rsync's time", share, "", Target.at_most(1.0) if asked else None)


def _pairs(runs: list[Run], files: int, path: str, kind: str) -> list[tuple[float, float]]:
    """The seconds of howdah and of rsync in each round that has both."""
    walls = {
        (run["tool"], run["round"]): run["wall_s"]
        for run in runs
        if (run["files"], run["path"], run["kind"]) == (files, path, kind)
    }
    numbers = sorted(number for tool, number in walls if tool == "howdah" and ("rsync", number) in walls)
    return [(walls["howdah", number], walls["rsync", number]) for number in numbers]


def _compared(runs: list[Run], sizes: list[int]) -> Iterator[Row]:
    for files in sizes:
        found = [run["differences"] for run in runs if run["files"] == files and run["kind"] == "compared"]
        what = f"{files:,} files: what `rsync -anic --delete` finds to do at the end"
        yield Row(what, sum(found) if found else None, "", Target.at_most(0))
