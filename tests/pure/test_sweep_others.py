"""Another howdah at work on this host is seen, and what only looks like one is not."""

import os
from pathlib import Path

import pytest

from howdah.measure.sweep import others_at_work


def process(proc: Path, pid: int, parent: int, *words: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (folder / "stat").write_text(f"{pid} (a) b) S {parent} 1 1")


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (["/usr/bin/howdah", "cp", "a", "b:"], "howdah cp"),
        (["python3", "/venv/bin/howdah", "sweep", "b"], "howdah sweep"),
        (["/usr/bin/python3.11", "-P", "-m", "howdah", "cp", "a", "b:"], "howdah cp"),
        (["howdah", "archive", "ls"], None),
        (["python3", "-m", "howdah", "standby", "b"], None),
        (["python3", "-m", "howdah", "serve"], None),
        (["vim", "howdah", "cp"], None),
        (["python3", "other.py", "howdah", "cp"], None),
        ([], None),
    ],
)
def test_what_is_at_work(tmp_path: Path, words: list[str], seen: str | None) -> None:
    process(tmp_path, 4_000_001, 1, *words)
    (tmp_path / "meminfo").touch()
    assert [each.command for each in others_at_work(tmp_path)] == ([seen] if seen else [])


def test_a_process_and_those_it_came_from_do_not_count(tmp_path: Path) -> None:
    process(tmp_path, os.getpid(), 4_000_002, "howdah", "sweep", "b")
    process(tmp_path, 4_000_002, 4_000_003, "sudo", "howdah", "sweep", "b")
    process(tmp_path, 4_000_003, 0, "howdah", "cp", "a", "b:")
    process(tmp_path, 4_000_004, 1, "howdah", "cp", "a", "b:")
    assert [each.pid for each in others_at_work(tmp_path)] == [4_000_004]
