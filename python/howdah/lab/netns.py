"""Network namespaces without a name: a descriptor is all that keeps one."""

import contextlib
import os
import subprocess

from howdah._native import HowdahError


def make(count: int) -> list[int]:
    """So many new ones, as descriptors. Raises HowdahError when the kernel gives no more.

    In each a process lives for as long as it takes to open the namespace by the process's number.
    """
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(_holder()) for _ in range(count)]
        return [_opened(holder) for holder in holders]


def path(descriptor: int) -> str:
    """A path to one that process 1 of this lab holds."""
    return f"/proc/1/fd/{descriptor}"


def _holder() -> "subprocess.Popen[bytes]":
    """Echoes what it is sent once it is in its namespace, and ends with its input."""
    return subprocess.Popen(
        ["unshare", "--net", "--", "cat"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _opened(holder: "subprocess.Popen[bytes]") -> int:
    if holder.stdin is None or holder.stdout is None:
        raise AssertionError("it was started with pipes")
    with contextlib.suppress(BrokenPipeError):
        holder.stdin.write(b"\n")
    said = holder.stdout.read(4096)
    if said != b"\n":
        why = said.decode(errors="replace").strip() or "unshare(1) said nothing"
        raise HowdahError(f"cannot make a network namespace: {why}")
    return os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
