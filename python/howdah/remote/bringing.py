"""Brings the far end of a copy to a host that has no howdah, through the ssh that is open anyway.

The command at the far host (``far_command``) has said that howdah is missing and waits. Nothing is sent
before somebody has agreed. What the session had said by then is skipped there; it begins anew when the
program speaks.
"""

import os
import select
from collections.abc import Callable
from typing import NamedTuple

from howdah import HowdahError, interrupt
from howdah._native import format_bytes
from howdah.remote.far_command import BRING, MISSING, Brought
from howdah.remote.process import FarProcess
from howdah.text import printable

_WRITE_BYTES = 4096
"""A pipe that can be written to takes so many bytes at once (PIPE_BUF)."""
_FULL = ("No space left on device", "Disk quota exceeded")
"""What tools say of a file system that is full."""


class Offer(NamedTuple):
    """What would be brought, and why."""

    host: str
    why: str
    """What is wrong there, in words."""
    folder: str
    """The folder that it would be kept in."""
    packed_bytes: int

    def in_words(self) -> str:
        """What would be done, for a question or an error."""
        size = format_bytes(self.packed_bytes)
        return f"{self.why}; a far end of {size} can be brought into {self.folder} there, only for this user"


Agree = Callable[[Offer], bool]
"""Whether an offer is taken."""


def offer(host: str, said: str, why: str, program: Brought) -> Offer:
    """What can be done at a host that has ``said`` that howdah is missing.

    Raises HowdahError where nothing can.
    """
    machine, where, folder = [*said.partition(MISSING)[2].strip().split(" ", 2), "", ""][:3]
    if machine != program.machine:
        raise HowdahError(
            f"{why}, and the far end that can be brought is only for {program.machine}, "
            f"not for its processor ({machine}); install howdah there"
        )
    if where != "in":
        full = any(said in folder for said in _FULL)
        room = f"make room for {format_bytes(program.bytes)} there, " if full else ""
        raise HowdahError(
            f"{why}, and none can be brought, because no folder there can hold it ({folder.rstrip('; ')}); "
            f"{room}install howdah there, or set XDG_CACHE_HOME there to a folder of your own"
        )
    return Offer(host, why, printable(folder), program.packed_bytes)


def bring(far: FarProcess, read_fd: int, write_fd: int, program: Brought, tick_s: float) -> None:
    """Sends the program and returns when the far end says something, or has ended."""
    with open(program.path, "rb") as file:  # noqa: PTH123
        left = memoryview(f"\n{BRING}\n".encode() + file.read())
    poll = select.poll()
    poll.register(read_fd, select.POLLIN)
    poll.register(write_fd, select.POLLOUT)
    while True:
        interrupt.check()
        far.drain()
        ready = dict(poll.poll(tick_s * 1e3))
        if read_fd in ready:
            return
        if write_fd in ready and left:
            try:
                left = left[os.write(write_fd, left[:_WRITE_BYTES]) :]
            except BrokenPipeError:
                left = left[:0]
            if not left:
                poll.unregister(write_fd)
