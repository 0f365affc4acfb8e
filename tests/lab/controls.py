"""What the tests of ``howdah cc`` share: the command, and a kernel with none of howdah's programs in it."""

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from copying import wait_until
from requirement import missing
from traces import HOWDAH

from bench import bpffs
from howdah._native import HowdahError
from howdah.cc import programs

PINS = Path("/sys/fs/bpf/howdah")
LEAVING_S = 5.0
"""A program that is unloaded is gone when its last connection is."""


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


def refused(*arguments: str, through: Sequence[str] = (), code: int = 1) -> str:
    """A command that must fail with one line on standard error; that line."""
    done = cc(*arguments, through=through)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stderr.startswith("howdah: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def clean_kernel() -> Iterator[None]:
    """Body of a fixture: refuses to run where somebody uses howdah's programs, and leaves none.

    The program that a copy by root loads stays behind, used by nobody: it is taken away first.
    """
    if [program.name for program in programs.listed() if program.loaded] == ["resume"]:
        with contextlib.suppress(HowdahError):
            programs.unload("resume")
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not in_kernel(), LEAVING_S)
    if used := in_kernel():
        missing(f"{', '.join(used)} in use on this machine; unload with: howdah cc unload")
    with bpffs.mounted():
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
    """Ends every rule and unloads every program; one that leaves with its process may take a moment."""
    for rule in programs.status().rules:
        programs.detach(rule.place)
    for program in programs.listed():
        if program.in_kernel and program.loaded:
            programs.unload(program.name)
    wait_until(lambda: not in_kernel(), LEAVING_S)


def in_kernel() -> list[str]:
    """Names of howdah's programs that are in the kernel, loaded or still leaving it."""
    return [program.name for program in programs.listed() if program.in_kernel]
