"""What the documents say about the tree is so."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from howdah.remote.bringing import Offer

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "python" / "howdah", ROOT / "crates")
NAMED = re.compile(r"`([\w.-]+/[\w./-]*)`")


DOCUMENTS = [
    "ARCHITECTURE.md",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/README.md",
    "docs/results.md",
]
DESIGN = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "design").glob("*.md"))
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", [*DOCUMENTS, *DESIGN])
def test_named_paths_exist(document: str) -> None:
    named = set(NAMED.findall((ROOT / document).read_text()))
    assert [name for name in sorted(named) if not any((place / name).exists() for place in PLACES)] == []


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", *DESIGN])
def test_named_files_exist(document: str) -> None:
    there = {path.name for place in ("python", "crates", "tests") for path in (ROOT / place).rglob("*.*")}
    named = set(re.findall(r"`([a-z_]+\.(?:py|rs|h))`", (ROOT / document).read_text()))
    assert sorted(named - there) == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    assert {page for page in (ROOT / "docs").rglob("*.md") if page != index} - linked == set()


def test_every_folder_of_the_tree_has_a_place_in_the_architecture() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    folders = {part for name in tracked if "/" in name for part in [name.split("/", 1)[0]]}
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert [folder for folder in sorted(folders) if f"{folder}/" not in text] == []


def test_nothing_sends_people_to_a_package_that_is_not_published() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "python").rglob("*.py")]
    wrong = re.compile(r"pip install (?:--upgrade )?'?howdah\b")
    assert [str(page.relative_to(ROOT)) for page in pages if wrong.search(page.read_text())] == []


def test_the_question_that_is_shown_is_the_real_one() -> None:
    asked = Offer("dtn2", "howdah was not found on dtn2", "/home/me/.cache/howdah", 2_500_000).in_words()
    shown = re.sub(r"[\d.]+ MB", "… MB", asked)
    assert f"howdah: {shown}. Bring it? [y/N] y\n" in (ROOT / "docs" / "start.md").read_text()


def test_every_scenario_of_traffic_is_in_its_table() -> None:
    table = (ROOT / "docs" / "traffic.md").read_text().partition("## Scenarios")[2]
    named = set(re.findall(r"`(?:scenarios/traffic)?(-[\w-]+?)(?:\.toml)?`", table))
    scenarios = [file.stem.removeprefix("traffic") for file in (ROOT / "scenarios").glob("traffic-*.toml")]
    assert [name for name in scenarios if not any(name.endswith(each) for each in named)] == []


def test_the_changelog_has_a_place_for_what_is_not_released() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert "## Unreleased" in lines


def test_the_lock_holds_every_pin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    locked = {line.split(" ")[0] for line in (ROOT / "requirements" / "dev.txt").read_text().splitlines()}
    assert [pin for pin in pins if pin not in locked] == []
