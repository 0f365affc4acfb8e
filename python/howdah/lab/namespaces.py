"""Network namespaces without a name, and what keeps a user without root from making any.

A descriptor is all that keeps a network namespace.
"""

import contextlib
import os
import subprocess
from pathlib import Path

from howdah._native import HowdahError

_SYSCTLS = Path("/proc/sys")
_REFUSING = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "15000"),
}
"""The sysctls that refuse namespaces: each with the value that does, and one that allows them."""


def refused_by() -> dict[str, str]:
    """The sysctls that refuse namespaces here, each with a value that allows it; empty when none does."""
    found = {}
    for name, (refusing, allowing) in _REFUSING.items():
        path = _SYSCTLS / name.replace(".", "/")
        if path.exists() and path.read_text(encoding="ascii").strip() == refusing:
            found[name] = allowing
    return found


def make(count: int) -> list[int]:
    """``count`` new network namespaces, as descriptors. Raises HowdahError when the kernel gives no more.

    In each a process lives for as long as it takes to open the namespace by the process's number.
    """
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(_holder()) for _ in range(count)]
        return [_opened(holder) for holder in holders]


def path(descriptor: int) -> str:
    """The path to a namespace that process 1 of this lab holds."""
    return f"/proc/1/fd/{descriptor}"


def _holder() -> "subprocess.Popen[bytes]":
    """Starts a process that echoes its input once it is in its namespace, and ends with its input."""
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
