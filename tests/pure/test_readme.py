"""The commands a reader copies out of the documents exist and take the options shown."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from howdah.cli import app
from howdah.cli.pages import walk

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PIPED = {"pg_dump", "tar", "zfs", "set", "export"}
"""What docs/pipes.md has before a pipe, and words of the shell."""
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The words of each command in the ``sh`` blocks; ``X -- Y`` gives X and Y."""
    found = []
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while "--" in words:
                at = words.index("--")
                found.append(words[:at])
                words = words[at + 1 :]
            if words:
                found.append(words)
    return found


def documented(program: str) -> list[tuple[str, ...]]:
    texts = [path.read_text() for path in DOCUMENTS]
    return sorted({tuple(words) for text in texts for words in commands(text) if words[0] == program})


@functools.cache
def help_of(*words: str) -> subprocess.CompletedProcess[str]:
    """The whole help of a command, which many lines of the documents are about."""
    argv = [sys.executable, "-m", "howdah", *words]
    for option in ("--help", "--help-all"):
        told = subprocess.run(
            [*argv, option], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
        if "--help-all" not in told.stdout:
            break
    return told


def test_words_of_a_block() -> None:
    text = "```sh\nhowdah lab run --rate 1Gbit \\\n  -- howdah cp 'a b' far:  # over there\n```\n"
    assert commands(text) == [["howdah", "lab", "run", "--rate", "1Gbit"], ["howdah", "cp", "a b", "far:"]]


def test_the_readme_leads_with_the_two_commands() -> None:
    assert commands((ROOT / "README.md").read_text())[:2] == [["make", "demo"], ["make", "test"]]


@pytest.mark.parametrize("words", documented("make"), ids=" ".join)
def test_make_has_the_target(words: tuple[str, ...]) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {word for word in words[1:] if "=" not in word} <= targets


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.parametrize("words", documented("howdah"), ids=" ".join)
def test_howdah_takes_the_options(words: tuple[str, ...]) -> None:
    groups = {tuple(called[1:]) for called, command in walk(app.howdah()) if command.run is None}
    depth = next(depth for depth in range(2, len(words) + 1) if words[1:depth] not in groups)
    told = help_of(*words[1:depth])
    assert told.returncode == 0, told.stderr
    options = {word.partition("=")[0] for word in words[depth:] if word.startswith("--")}
    assert options <= set(re.findall(r"--[a-z][a-z-]*", told.stdout))


def test_every_program_shown_is_one_we_know() -> None:
    shown = {words[0] for path in DOCUMENTS for words in commands(path.read_text())}
    assert shown <= {"make", "howdah", "scripts/lock.sh", ".ci/run", "ping", "iperf3", "nft"} | PIPED
