import re
import subprocess
from pathlib import Path

import pytest

from bench import fuzz

ROOT = Path(__file__).parents[2]


def run(target: str, inputs: int, findings: int = 0) -> dict[str, object]:
    return {"target": target, "commit": "abc", "inputs": inputs, "findings": findings, "seconds": 1}


def test_each_target_has_its_sources() -> None:
    named = re.findall(
        r"^    \w+::(\w+),$", (ROOT / "crates/fuzz/src/targets/mod.rs").read_text(), re.MULTILINE
    )
    assert sorted(named) == sorted(fuzz.READS)
    crates = fuzz._crates()
    for target in fuzz.READS:
        assert [path for path in fuzz.sources(target, crates) if not (ROOT / path).exists()] == []


def test_a_target_depends_on_what_its_crate_is_built_on() -> None:
    crates = {"howdah-wire": ["howdah-filter"], "howdah-filter": [], "howdah-units": []}
    assert fuzz.sources("paths", crates) == [
        "crates/filter/src",
        "crates/wire/src",
        "crates/fuzz/src/targets/pieces.rs",
        "crates/fuzz/src/input.rs",
        "crates/fuzz/src/memory.rs",
    ]
    assert "crates/fuzz/src/message.rs" in fuzz.sources("transfer", {"howdah-transfer": []})


def test_the_page_shows_the_inputs_of_the_code_as_it_is() -> None:
    runs = fuzz.kept(fuzz._crates())
    assert fuzz.TABLE.of(fuzz.PAGE.read_text()) == fuzz.table(runs), "run: make records"


def test_a_run_counts_as_long_as_the_code_of_its_target_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], stdout=subprocess.PIPE, text=True, check=True).stdout
    of_now = {**run("units", 5), "commit": head.strip()}
    # The first version of the tree had other code.
    first = ["git", "rev-list", "--max-parents=0", "HEAD"]
    root = subprocess.run(first, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0]
    before = {**run("transfer", 7), "commit": root}
    monkeypatch.setattr(fuzz.parts, "record", lambda _: {"runs": [of_now, before]})
    monkeypatch.setattr(fuzz, "sources", lambda target, _: ["LICENSE" if target == "units" else "crates"])
    assert fuzz.kept({}) == [of_now]


def test_the_page_tells_targets_that_had_less_from_those_that_had_all() -> None:
    lines = fuzz.table([run("units", fuzz.INPUTS), run("link", 5, findings=1)]).splitlines()
    assert lines[2] == "| `units` | 100,000,000 | 100,000,000 |"
    assert lines[3] == "| `link` | **5** | 100,000,000 |"
    assert "`policies`" in lines[4] and "| **0** |" in lines[4]
    assert lines[5] == "| findings | 1 | 0 |"


def test_a_target_without_a_run_and_one_with_too_few_inputs_are_not_met() -> None:
    rows = {row.what: row for row in fuzz.rows([run("units", fuzz.INPUTS), run("link", 5)])}
    assert len(rows) == len(fuzz.READS) + 1
    assert [rows[f"inputs of {name}"].met for name in ("units", "link", "paths")] == [True, False, False]
    assert rows["findings"].met
    assert not fuzz.rows([run("units", 7, findings=1)])[-1].met


def test_pieces_add_up_and_a_finding_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = iter(["units: 60 inputs, no finding\n", "units: 40 inputs, no finding\n"])
    asked = []

    def told(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[command.index("--inputs") + 1])
        return subprocess.CompletedProcess(command, 0, stdout=next(pieces))

    monkeypatch.setattr(subprocess, "run", told)
    assert [each["inputs"] for each in fuzz.measured(run("units", 0), 100)] == [60, 100]
    assert asked == ["100", "40"]
    pieces = iter(["units: a finding, see units.log\n", "units: 40 inputs, no finding\n"])
    assert [each["findings"] for each in fuzz.measured(run("units", 0), 100)] == [1]
    pieces = iter(["missing on this machine\n"])
    with pytest.raises(SystemExit, match="before it had counted"):
        list(fuzz.measured(run("units", 0), 100))
