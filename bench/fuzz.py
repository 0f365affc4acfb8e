"""10^8 inputs for each fuzz target: ``make bench-fuzz``, many hours of one processor.

It goes on where an earlier run was stopped, in pieces of some minutes. What a target has had is kept as long
as the code that it reads with is as it was, and docs/results.md shows no more: ``--page`` writes its table
anew. docs/design/testing.md says what the targets are.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

from bench import parts
from bench.page import PAGE, ROOT, Part, has_changed
from bench.parts import Run
from bench.report import Row, Target, commit, publish, write

INPUTS = 100_000_000
PIECE_S = 300.0
"""At most so long goes by between two writings of the record."""

READS = {
    "units": ("units", "targets/text.rs"),
    "tcp_info": ("tcp", "targets/kernel.rs"),
    "greetings": ("wire", "targets/pieces.rs"),
    "sock_diag": ("tcp", "targets/kernel.rs"),
    "link": ("link", "targets/text.rs"),
    "arrivals": ("wire", "targets/pieces.rs"),
    "probes": ("probe", "targets/datagrams.rs"),
    "offload": ("emulator", "targets/datagrams.rs"),
    "rules": ("filter", "targets/filters.rs"),
    "access_lists": ("wire", "targets/pieces.rs"),
    "headers": ("wire", "targets/pieces.rs"),
    "frames": ("wire", "targets/control"),
    "paths": ("wire", "targets/pieces.rs"),
    "conversation": ("wire", "targets/control"),
    "printable": ("wire", "targets/text.rs"),
    "opening": ("transfer", "targets/tls.rs"),
    "records": ("transfer", "targets/tls.rs"),
    "traffic": ("traffic", "targets/datagrams.rs"),
    "transfer": ("transfer", "model"),
    "digest_lists": ("digest", "targets/lists.rs"),
    "verify_jobs": ("digest", "targets/lists.rs"),
    "name_lists": ("transfer", "targets/lists.rs"),
    "part_journals": ("transfer", "targets/parts.rs"),
    "forced_logins": ("far", "targets/host.rs"),
    "requests": ("far", "targets/host.rs"),
    "policies": ("site", "targets/host.rs"),
}
"""The crate that a target's bytes go into, and its own source below ``crates/fuzz/src``, by target."""

TABLE = Part("<!-- fuzz -->", "<!-- fuzz -->")
_OURS = ROOT / "crates/fuzz/src"
_SAYS = re.compile(r"^(\w+): (\d+) inputs, no finding$", re.MULTILINE)


def sources(target: str, crates: dict[str, list[str]]) -> list[str]:
    """What a run of the target depends on: its crate with all that it is built on, and the target itself."""
    crate, own = READS[target]
    found: list[str] = []
    wanted = [f"howdah-{crate}"]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.append(name)
            wanted += crates[name]
    folders = (name.removeprefix("howdah-") for name in sorted(found))
    return [
        *(f"crates/{folder}/src" for folder in folders),
        *(f"crates/fuzz/src/{each}" for each in _with(own)),
    ]


def _with(own: str) -> list[str]:
    """A target's own source, and what of the same crate that uses."""
    found = [own]
    for each in found:
        at = _OURS / each
        for file in at.rglob("*.rs") if at.is_dir() else [at]:
            used = (f"{name}.rs" for name in re.findall(r"\bcrate::(\w+)", file.read_text()))
            found += sorted({name for name in used if (_OURS / name).exists()} - set(found))
    return found


def kept(crates: dict[str, list[str]]) -> list[Run]:
    """The runs on record whose sources are as they were, also where nothing is committed yet."""
    return [
        run
        for run in parts.record("fuzz").get("runs", [])
        if run["target"] in READS and not has_changed(run["commit"], *sources(run["target"], crates))
    ]


def rows(runs: list[Run]) -> list[Row]:
    """A row a target, in the order of ``READS``, and the findings of all."""
    had = {run["target"]: run for run in runs}
    return [
        *(
            Row(
                f"inputs of {target}",
                had[target]["inputs"] if target in had else 0,
                "",
                Target.at_least(INPUTS),
            )
            for target in READS
        ),
        Row("findings", sum(run["findings"] for run in runs), "", Target.at_most(0)),
    ]


def table(runs: list[Run]) -> str:
    """What docs/results.md shows of these runs."""
    by_count: dict[int, list[str]] = {}
    had = {run["target"]: run["inputs"] for run in runs}
    for target in sorted(READS, key=lambda target: -had.get(target, 0)):
        by_count.setdefault(had.get(target, 0), []).append(f"`{target}`")
    lines = ["| targets | inputs of each | at least |", "| --- | --- | --- |"]
    for count, targets in by_count.items():
        shown = f"{count:,}" if count >= INPUTS else f"**{count:,}**"
        lines.append(f"| {', '.join(targets)} | {shown} | {INPUTS:,} |")
    return "\n".join([*lines, f"| findings | {sum(run['findings'] for run in runs)} | 0 |", ""])


def write_page(runs: list[Run]) -> None:
    """Has docs/results.md show these runs."""
    PAGE.write_text(TABLE.replaced(PAGE.read_text(), table(runs)))


def measured(run: Run, inputs: int) -> Iterator[Run]:
    """The run after each further piece, until it has had so many inputs or a finding."""
    while run["inputs"] < inputs and not run["findings"]:
        begun = time.monotonic()
        asked = [f"--seconds={PIECE_S:.0f}", f"--inputs={inputs - run['inputs']}"]
        words = [word for option in asked for word in option.split("=")]
        done = subprocess.run(
            ["scripts/fuzz.sh", *words, run["target"]], stdout=subprocess.PIPE, text=True, check=False
        )
        told = _SAYS.search(done.stdout)
        if told is None and "a finding" not in done.stdout:
            raise SystemExit(f"{run['target']} ended with {done.returncode} before it had counted")
        run = {
            **run,
            "inputs": run["inputs"] + (int(told[2]) if told else 0),
            "findings": run["findings"] + (told is None),
            "seconds": round(run["seconds"] + time.monotonic() - begun),
        }
        yield run


def main() -> int:
    """Runs the bench; returns its exit code."""
    parser = argparse.ArgumentParser(prog="bench.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help="those targets alone: " + ", ".join(READS))
    parser.add_argument("--inputs", type=int, default=INPUTS, help="that many in all, in place of 10^8")
    parser.add_argument("--page", action="store_true", help="run nothing, write the table of docs/results.md")
    asked = parser.parse_args()
    for target in asked.target:
        if target not in READS:
            parser.error(f"there is no target {target}: {', '.join(READS)}")
    crates = _crates()
    if asked.page:
        write_page(kept(crates))
        return 0
    now = commit()
    if now is None or now.endswith("+"):
        parser.error("commit first: the record names the commit that ran")
    runs = kept(crates)
    try:
        for target in asked.target or READS:
            new = {"target": target, "commit": now, "inputs": 0, "findings": 0, "seconds": 0}
            begun = next((run for run in runs if run["target"] == target), new)
            for run in measured(begun, asked.inputs):
                print(f"{target}: {run['inputs']:,} inputs, {run['seconds']:,} s", file=sys.stderr)
                runs = [each for each in runs if each["target"] != target] + [run]
                write("fuzz", rows(runs), runs)
        return 0 if publish("fuzz", rows(runs), runs) else 1
    finally:
        # Earlier, the record would say that the tree held changes.
        write_page(runs)


def _crates() -> dict[str, list[str]]:
    """The crates of ours that each crate of ours is built on."""
    command = ["cargo", "metadata", "--offline", "--locked", "--no-deps", "--format-version=1"]
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {
        package["name"]: [
            each["name"]
            for each in package["dependencies"]
            if each["name"].startswith("howdah-") and each["kind"] is None
        ]
        for package in told["packages"]
    }


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
