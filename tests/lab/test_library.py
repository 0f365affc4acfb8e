"""The examples of the Python interface over a real link, and what calls leave behind that are stopped."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import examples
import msgspec
import pytest
from copying import SLACK_S, STOP_S, Copier, tree

from howdah.lab import Lab
from howdah.values.record import Record

pytestmark = [pytest.mark.lab, pytest.mark.beside]

PROGRAMS = {name: text for name, text in examples.programs().items() if examples.needs_a_network(text)}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "PATH": path}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the examples run, with what they copy."""
    for name in ("a", "b", "below/c"):
        file = tmp_path / "run42" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(100_000))
    return tmp_path


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_run(name: str, wan: Lab, folder: Path, environment: dict[str, str]) -> None:
    program = PROGRAMS[name].replace(f"{examples.HOST}:", f"far:{folder}/").replace(examples.HOST, "far")
    program = program.replace(f'"far:{folder}/"', '"far:"').replace(f"far:{folder}//", f"far:{folder}/")
    argv = [sys.executable, "-c", program]
    given: dict[str, Any] = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    # Of files there is nothing to move the second time.
    for _ in range(2 if "run42" in program else 1):
        if "howdah.Lab(" in program:
            done = subprocess.run(argv, **given, timeout=60, check=False)
        else:
            done = wan.run("near", argv, **given, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""


STOPPED = f"""
import asyncio, os, signal, sys, threading, time
import howdah

before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
source, begun, records = sys.argv[1], threading.Event(), howdah.archive.Archive()

def look(now):
    if now.bytes_done:
        begun.set()

def newest():
    return next(records.newest())

async def cancelled():
    task = asyncio.create_task(howdah.acopy(source, "far:" + sys.argv[2], on_progress=look))
    await asyncio.to_thread(begun.wait)
    asked_s = time.monotonic()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return time.monotonic() - asked_s

took_s = asyncio.run(cancelled())
assert took_s < {STOP_S + SLACK_S}, took_s
assert (newest().flags, newest().error) == (["interrupted"], "cancelled by the program that began it")

def interrupts(now):
    if now.bytes_done:
        os.kill(os.getpid(), signal.SIGINT)

try:
    howdah.copy(source, "far:" + sys.argv[2], on_progress=interrupts)
except KeyboardInterrupt:
    assert (newest().flags, newest().error) == (["interrupted"], "interrupted by SIGINT")
else:
    raise SystemExit("it went on")
assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

def fails(now):
    raise LookupError("mine")

try:
    howdah.copy(source, "far:" + sys.argv[2], on_progress=fails)
except LookupError:
    pass
"""


def test_calls_that_are_stopped_leave_nothing_behind(
    nothing_kept: None, cp: Copier, wan: Lab, tmp_path: Path, environment: dict[str, str]
) -> None:
    """By a cancelled task, by Ctrl-C and by the caller's own error."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "small").write_bytes(os.urandom(10_000))
    (source / "zlarge").write_bytes(os.urandom(300_000_000))
    argv = [sys.executable, "-c", STOPPED, f"{source}/.", target]
    done = wan.run("near", argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    cp.wait_for_nothing_left()
    left = {path.name for path in target.rglob("*")}
    assert left <= {"small", ".zlarge.howdah-part"}, "nothing stays but what the same copy goes on with"
    cp.good(f"{source}/.", f"far:{target}")
    assert tree(target) == tree(source)


FAILED = """
import sys
import howdah, msgspec

try:
    howdah.copy(sys.argv[1], "far:/proc/1/no-such/")
except howdah.HowdahError as error:
    sys.stdout.buffer.write(msgspec.json.encode([str(error), error.record]))
"""


def test_a_copy_that_fails_on_its_way_has_a_record(
    wan: Lab, folder: Path, environment: dict[str, str]
) -> None:
    argv = [sys.executable, "-c", FAILED, folder / "run42"]
    done = wan.run("near", argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    error, record = msgspec.json.decode(done.stdout, type=tuple[str, Record])
    assert record.error == error
    assert record.plan is not None
    assert record.outcome is None
    assert record.command[0] == "howdah.copy"


FAILS = """
import sys
import howdah

def fails(*now):
    calls.append(now)
    if len(calls) == 3:
        raise kind("of its own")

archive = howdah.Archive()
for kind in (KeyError, howdah.HowdahError):
    for run in (
        lambda: howdah.probe("far", for_s=5, on_progress=fails),
        lambda: howdah.send_traffic(sys.argv[1], "far", for_s=5, on_progress=fails),
    ):
        calls = []
        try:
            run()
        except kind as error:
            print(repr(error), getattr(error, "record", None) is not None, len(calls))
        kept = archive.load("last")
        print(kept.kind, kept.error, kept.probe is not None or kept.traffic is not None)
"""


def test_an_error_of_a_program_s_own_call_leaves_the_record(
    wan: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    pattern = tmp_path / "pattern.toml"
    pattern.write_text('name = "x"\nduration = "5s"\n[[load]]\nkind = "udp"\nrate = "1Mbit"\n')
    argv = [sys.executable, "-c", FAILS, str(pattern)]
    done = wan.run("near", argv, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "KeyError('of its own') False 3",
        "probe KeyError: 'of its own' True",
        "KeyError('of its own') False 3",
        "traffic KeyError: 'of its own' True",
        "HowdahError('of its own') True 3",
        "probe of its own True",
        "HowdahError('of its own') True 3",
        "traffic of its own True",
    ]
