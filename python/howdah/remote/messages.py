"""The messages across ``howdah._native`` during a transfer, as JSON (crates/transfer has the same in serde).

Paths are raw bytes, base64 in JSON. Missing is null. What is kept of a run (Outcome, Sample,
HostLimits) is part of the record and defined there.
"""

from typing import Literal

import msgspec

from howdah.values.outcome import Change
from howdah.values.record import HostLimits

SAMPLE_EVERY_S = 0.1


class FarHello(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of the far end, about itself."""

    version: str
    limits: HostLimits
    addresses: list[str]
    """The addresses that data streams may reach it by; the one that ssh came in by is the first."""
    port: int
    """The port of its listener for data streams."""
    rtt_s: float | None = None
    """The least RTT that the far kernel saw on the ssh connection; null when ssh came through a pipe."""


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of files beside names, contents, times and modes."""

    hard_links: bool = False
    """Whether names of one file stay names of one file."""
    sparse: bool = False
    """Whether runs of zeros become holes."""
    owner: bool = False
    """Whether files keep their users, where the receiver is root."""
    group: bool = False
    """Whether files keep their groups, where the receiver is root or in the group."""
    numeric_ids: bool = False
    """Whether users and groups are told by number in place of name."""
    devices: bool = False
    """Whether devices are made, where the receiver is root."""
    specials: bool = False
    """Whether FIFOs and sockets are made."""
    xattrs: bool = False
    """Whether extended attributes are kept."""
    acls: bool = False
    """Whether access lists are kept."""
    top: bool = False
    """Whether ``SRC/.`` gives what is kept of it to the folder that takes its content."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The files to copy. Destinations mean what they mean to ``cp -r``."""

    direction: Literal["push", "pull"]
    sources: list[bytes]
    destination: bytes
    destination_is_folder: bool
    filters: list[bytes] = []
    """The rules that say which names below the sources are copied, in their order."""
    names: bytes | None = None
    """The file that lists what is copied below the only source; null: all is."""
    names_nul_separated: bool = False
    keep: Keep = Keep()
    memory_bytes: int | None = None
    """The bytes to send from memory to memory, with files at neither end."""
    memory_s: float | None = None
    """The seconds to send for from the first byte on, in place of ``memory_bytes``."""
    dry_run: bool = False
    encrypt: bool = True
    sync: bool = True
    """Whether all is put on stable storage before the receiver is done."""
    data_address: str | None = None
    """An address to try before FarHello.addresses."""
    detour_port: int | None = None
    """A port of this host's loopback from which a detour leads to the far end's data port; null: none."""
    digests: bytes | None = None
    """The file for the digests of what has been moved; null keeps none."""
    sample_every_s: float = SAMPLE_EVERY_S
    """The seconds between two samples of a stream, 0.01 to 10."""
    patience_s: float = 300.0
    """The seconds for which both ends wait for a path that is out, 0 to 86,400."""


class FarJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a near end asks a far end for, of which the far end's host decides."""

    direction: Literal["push", "pull"]
    sources: list[bytes]
    destination: bytes
    from_memory: bool
    memory_bytes: int | None = None
    dry_run: bool
    encrypt: bool


class FarAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What a far end has moved when its copy has ended, well or not."""

    bytes: int
    files: int
    digest_sum: str | None = None
    """The sum of the digests of its files, in hexadecimal; null where there are none."""
    error: str | None = None
    """The reason why it ended early."""
    cancelled: bool
    """Whether the near end stopped it."""


class Steering(msgspec.Struct, frozen=True, kw_only=True):
    """A change of how the open streams send. Each steering is whole: the last one counts."""

    congestion_control: str | None = None
    """The control as Linux names it at the sender; null keeps the one there is."""
    streams: int
    """How many of those the plan opened carry payload."""
    pacing_bps: int | None = None
    """The most that each stream sends, bits per second; null: without a bound."""
    why: str
    """The reason for the record: words of a ``values.reason.Reason``, or a caller's own."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer at one instant."""

    phase: Literal["connecting", "scanning", "moving", "finishing", "done", "failed"]
    elapsed_s: float
    bytes_done: int
    """Payload verified at the receiver."""
    bytes_total: int | None = None
    """The bytes known so far; final once ``scan_complete``."""
    scan_complete: bool
    files_done: int
    files_total: int | None = None
    files_skipped: int
    bytes_skipped: int
    bytes_resumed: int = 0
    """What was there from an interrupted copy and is the same; ``bytes_total`` is without it."""
    streams: int
    """Streams that are open now."""
    connections_replaced: int = 0
    """The data streams' connections that broke, and that others replaced."""
    unanswered_s: float | None = None
    """How long the far host has not answered, if the path is out now."""
    outages: int = 0
    """Outages of the path that are over."""
    outage_s: float = 0.0
    """The seconds that they took, together."""
    retransmissions: int
    """Segments sent again, over all streams."""
    rtt_s: float | None = None
    acked_bytes: list[int] = []
    """The bytes that the far kernel has acknowledged, by stream, payload and overhead, at ``acked_s``."""
    acked_s: float = 0.0
    """A time on the sender's clock; only differences mean anything."""
    current: str | None = None
    """The printable name of a file on its way."""
    latest: Change | None = None
    """The result of the last steering that has taken effect or was refused; null before the first."""
    through_ssh: str | None = None
    """What came of the data port where the data goes through ssh; null where it does not."""
