"""What crosses ``howdah._native`` during a transfer, as JSON (crates/transfer has the same in serde).

Paths are raw bytes, base64 in JSON. Missing is null. What is kept of a run (Outcome, Sample,
HostLimits) is part of the record and defined there.
"""

from typing import Literal

import msgspec

from howdah.values.record import Change, HostLimits

SAMPLE_EVERY_S = 0.1


class FarHello(msgspec.Struct, frozen=True, kw_only=True):
    """What the far end says of itself as soon as it runs."""

    version: str
    limits: HostLimits
    addresses: list[str]
    """Where the data streams may reach it; the address ssh came in by first."""
    port: int
    """Of its listener for data streams."""
    rtt_s: float | None = None
    """Smallest the far kernel saw on the ssh connection; null when ssh came through a pipe."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to copy. Destinations mean what they mean to ``cp -r``."""

    direction: Literal["push", "pull"]
    sources: list[bytes]
    destination: bytes
    destination_is_folder: bool
    memory_bytes: int | None = None
    """Memory to memory: this many bytes, and no files at either end."""
    memory_s: float | None = None
    """Memory to memory for so long from the first byte, in place of ``memory_bytes``."""
    dry_run: bool = False
    encrypt: bool = True
    data_address: str | None = None
    """Tried before FarHello.addresses."""
    digests: bytes | None = None
    """File for the digests of what has been moved; null to keep none."""
    sample_every_s: float = SAMPLE_EVERY_S
    """Between two samples of a stream, 0.01 to 10."""


class Steering(msgspec.Struct, frozen=True, kw_only=True):
    """How the open streams shall send from now on, whole: the last one counts."""

    congestion_control: str | None = None
    """As Linux names it at the sender; null: the one there is."""
    streams: int
    """That carry payload, of those the plan opened."""
    pacing_bps: int | None = None
    """Of each stream; null: without a bound."""
    why: str
    """For the record: words of a ``values.reason.Reason``, or a caller's own."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer at one instant."""

    phase: Literal["connecting", "scanning", "moving", "finishing", "done", "failed"]
    elapsed_s: float
    bytes_done: int
    """Payload verified at the receiver."""
    bytes_total: int | None = None
    """Known so far; final once ``scan_complete``."""
    scan_complete: bool
    files_done: int
    files_total: int | None = None
    files_skipped: int
    bytes_skipped: int
    streams: int
    """Open now."""
    retransmissions: int
    """Segments, over all streams."""
    rtt_s: float | None = None
    acked_bytes: list[int] = []
    """By the far kernel, of payload and what goes with it, of each stream; as of ``acked_s``."""
    acked_s: float = 0.0
    """On the sender's clock; only differences mean anything."""
    current: str | None = None
    """Printable name of a file on its way."""
    latest: Change | None = None
    """What came of the last steering that is settled; null before the first."""
