"""What the documents say about the tree is so."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "python" / "howdah", ROOT / "crates")
NAMED = re.compile(r"`([\w.-]+/[\w./-]*)`")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"])
def test_named_paths_exist(document: str) -> None:
    named = set(NAMED.findall((ROOT / document).read_text()))
    assert [name for name in sorted(named) if not any((place / name).exists() for place in PLACES)] == []


def test_every_folder_of_the_tree_has_a_place_in_the_architecture() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    folders = {part for name in tracked if "/" in name for part in [name.split("/", 1)[0]]}
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert [folder for folder in sorted(folders) if f"{folder}/" not in text] == []


def test_the_changelog_has_a_place_for_what_is_not_released() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert "## Unreleased" in lines


def test_the_lock_holds_every_pin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    locked = {line.split(" ")[0] for line in (ROOT / "requirements" / "dev.txt").read_text().splitlines()}
    assert [pin for pin in pins if pin not in locked] == []
