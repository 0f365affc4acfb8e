"""Another howdah at work on this host is seen, and what only looks like one is not."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from samples import howdah

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


PLAN = """
name = "tiny"
[lab]
rate = "1Gbit"
rtt = "1ms"
[[runs]]
congestion_control = ["{control}"]
streams = 1
buffer = "auto"
time = "300ms"
"""


@pytest.mark.parametrize(
    ("control", "options", "says"),
    [
        ("cubic", [], "wait for it, or give --beside-others"),
        ("cubic", ["--beside-others"], None),
        ("nosuch", ["--beside-others"], "neither this kernel nor howdah has nosuch"),
    ],
)
def test_a_dry_run_says_that_the_sweep_would_be_refused(
    tmp_path: Path, control: str, options: list[str], says: str | None
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(control=control))
    with subprocess.Popen(["howdah", "cp", "-"], executable="/bin/cat", stdin=-1, stderr=-1) as other:
        shown = howdah("sweep", str(plan), "--dry-run", *options, XDG_DATA_HOME=str(tmp_path))
        planned = howdah("sweep", str(plan), "--dry-run", "--json", *options, XDG_DATA_HOME=str(tmp_path))
        other.communicate()
    assert (shown.returncode, planned.returncode) == (0, 0)
    refused = json.loads(planned.stdout)["refused"]
    if says is None:
        assert (shown.stderr, refused) == ("", None)
    else:
        assert says in shown.stderr
        assert shown.stderr.startswith("howdah: the sweep would be refused now: ")
        assert says in refused
