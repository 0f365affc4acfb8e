"""What transfers to a destination carried before. By it, hd_resume begins new connections there (RFC 9959).

A memory is of all streams together: they jump as one sender, each to its part. It stays in the kernel when
this process goes. Capacities are bytes in flight, times seconds. Needs root, and that ``resume`` is loaded.
"""

from typing import Literal

import msgspec

from howdah import _native, decoding

Phase = Literal["reconnaissance", "unvalidated", "validating", "retreat", "normal"]
Why = Literal[
    "no memory",
    "void",
    "no part",
    "other path",
    "queue",
    "small",
    "congested",
    "unused",
    "validated",
    "retreated",
    "timed out",
]


class Destination(msgspec.Struct, frozen=True):
    """The connections that a memory is for.

    Of several that fit, those of one namespace come first, then those of a port, then the longest prefix.
    """

    to: str
    """The address of the far end, or a prefix, as 10.9.0.0/16."""
    port: int | None = None
    """The port of either end; null: every one."""
    namespace: int | None = None
    """The inode of the only network namespace it is for; null: all."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What transfers carried, and how far new ones may rely on it."""

    capacity_bytes: int
    """Bytes in flight that the path carried, of all streams together: rate x RTT."""
    rtt_s: float
    """The RTT of the path without a queue."""
    streams: int = 1
    """How many streams share the jump. Later ones begin as usual."""
    jump_part: float | None = None
    """How much of the capacity they jump to, 0.001 to 1; null: as the parameter ``jump_part`` says.

    RFC 9959 allows a half. Only a path without competing traffic may have more.
    """
    valid_s: float = 3600.0
    """How long this is used, at most a week."""
    then: str = "cubic"
    """The congestion control that goes on after the jump, as sockets choose it."""

    def check(self) -> None:
        """Raises HowdahError when it cannot have been saved on any host."""
        _native.cc_check_saved(msgspec.json.encode(self))


class Memory(msgspec.Struct, frozen=True):
    """A memory in the kernel, and what came of it since it was set."""

    to: str
    port: int | None
    namespace: int | None
    saved: Saved
    set_ns: int
    """When it was set, by CLOCK_BOOTTIME. A connection names the memory that it found by this."""
    left_s: float
    """The seconds for which it is still believed; 0: they have run out."""
    connections: int
    """Connections that found it."""
    jumps: int
    """How many of them jumped."""
    validated: int
    """How many jumps were validated."""
    retreats: int
    """How many jumps ended in a retreat. After one, no connection relies on it until it is set again."""
    other_paths: int
    """Connections that did not jump because their RTT was unlike the saved one."""
    jumped_bytes: int
    """The windows that connections jumped to, in all."""
    validated_bytes: int
    """What was acknowledged of these, with what was in flight before, in all."""

    @property
    def destination(self) -> Destination:
        """The destination as it was set."""
        return Destination(self.to, self.port, self.namespace)


class ResumeStatus(msgspec.Struct, frozen=True):
    """A connection that hd_resume has had; another control may go on since."""

    phase: Phase
    why: Why | None
    """Why the phase is normal; null before.

    ``no memory``: there is none, or it has run out. ``void``: another connection had to retreat. ``no part``:
    others had taken the jump. ``other path``: the RTT is unlike the saved one. ``queue``: the RTT says that
    one stands on the path. ``small``: the window was as large without a jump. ``congested``: before the jump.
    ``unused``: too little data. ``validated``, ``retreated``, ``timed out``: after the jump.
    """
    memory_ns: int | None
    """The memory that it found, by its ``set_ns``."""
    jumped_bytes: int
    """The window that it jumped to; 0: it did not."""
    validated_bytes: int
    """What was acknowledged of this, with what was in flight before."""
    retreats: int
    rtt_s: float | None
    """The RTT by which the path was compared; null before that."""


def remember(destination: Destination, saved: Saved) -> Memory:
    """Begins new connections to the destination with what is saved. Takes microseconds.

    It replaces what was known of exactly this destination, and counts anew.

    Raises HowdahError for what cannot have been saved, where resume is not loaded, and for a control that is
    not in this kernel.
    """
    told = _native.cc_remember(msgspec.json.encode(destination), msgspec.json.encode(saved))
    return decoding.from_json(told, Memory)


def forget(destination: Destination) -> Memory:
    """Forgets what is known of exactly this destination, and says what came of it.

    Raises HowdahError where nothing is known.
    """
    return decoding.from_json(_native.cc_forget(msgspec.json.encode(destination)), Memory)


def memories() -> list[Memory]:
    """Every memory, by destination; none where resume is not loaded."""
    return decoding.from_json(_native.cc_memories(), list[Memory])
