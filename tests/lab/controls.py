"""What the tests of ``howdah cc`` share: the command, and a kernel with none of howdah's programs in it."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from requirement import missing
from traces import HOWDAH

from howdah._native import HowdahError
from howdah.cc import programs

PINS = Path("/sys/fs/bpf/howdah")


def cc(*arguments: str, through: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    """Runs ``howdah cc`` to its end, ``through`` another program."""
    argv = [*through, *HOWDAH, "cc", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


def good(*arguments: str) -> Any:  # noqa: ANN401, JSON
    """A command that must succeed; what it says as JSON."""
    done = cc(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return msgspec.json.decode(done.stdout)


def refused(*arguments: str, through: Sequence[str] = ()) -> str:
    """A command that must fail with one line on standard error; that line."""
    done = cc(*arguments, through=through)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stderr.startswith("howdah: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def clean_kernel() -> Iterator[None]:
    """Body of a fixture: refuses to run where somebody uses howdah's programs, and leaves none."""
    used = [program.name for program in programs.listed() if program.in_kernel]
    if used:
        missing(f"{', '.join(used)} in use on this machine; unload with: howdah cc unload")
    try:
        programs.status()
    except HowdahError as error:
        missing(str(error))
    try:
        yield
    finally:
        take_all_away()
    assert not PINS.exists()


def take_all_away() -> None:
    """Ends every rule and unloads every program."""
    for rule in programs.status().rules:
        programs.detach(rule.to, f"{rule.ports.least}-{rule.ports.most}")
    for program in programs.listed():
        if program.in_kernel:
            programs.unload(program.name)
