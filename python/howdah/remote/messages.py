"""The messages across ``howdah._native`` during a transfer, as JSON (crates/transfer has the same in serde).

Paths are raw bytes, base64 in JSON. Missing is null. What is kept of a run (Outcome, Sample,
HostLimits) is part of the record and defined there.
"""

from typing import Annotated, Literal

import msgspec

from howdah.bounds import INTEGER_MOST
from howdah.values.outcome import Change, Spent
from howdah.values.record import HostLimits

SAMPLE_EVERY_S = 0.1


class FarHello(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of the far end, about itself."""

    version: str
    limits: HostLimits
    addresses: Annotated[list[str], msgspec.Meta(min_length=1)]
    """The addresses that data streams may reach it by; the one that ssh came in by is the first."""
    port: int
    """The port of its listener for data streams."""
    rtt_s: float | None = None
    """The least RTT that the far kernel saw on the ssh connection; null when ssh came through a pipe."""


class PortTried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the data port of another far end, tried from one."""

    rtt_s: float | None = None
    """The round trip to it; null: it cannot be reached."""
    why_not: str | None = None


class Expanded(msgspec.Struct, frozen=True, kw_only=True):
    """What sources with wildcards lead to at the far end that has them."""

    paths: list[bytes]


class Between(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What there is to a copy between two far ends. This host sends no data."""

    sender: str
    """The host that sends, as its user calls it."""
    receiver: str
    connects: Literal["sender", "receiver"]
    """Which of them connects to the other."""
    to: list[str]
    """The addresses that it connects to, 1 to 8."""
    from_: str
    """The address that it connects from."""


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """What is not sent for what is at the receiver; by default a file of the same size and time there."""

    missing: bool = False
    """What is not there: no name is made."""
    there: bool = False
    """What is there, whatever it is; folders are entered all the same."""
    newer: bool = False
    """A file that is newer there."""
    same: Literal["size-and-time", "size", "content", "nothing"] = "size-and-time"
    """What tells a file that is the same."""


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """How the sender goes through its sources."""

    one_file_system: bool = False
    """Whether nothing is looked at in folders of another file system than that of their source."""
    links: Literal["kept", "unsafe", "followed"] = "kept"
    """Which links are copied as what they lead to: none, those that lead out of what is copied, or all."""
    safe_links: bool = False
    """Whether links that lead out of what is copied are left out."""


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of files beside names and contents."""

    perms: bool = True
    """Whether modes are those of the sources; else a file that is there keeps its own, and a new one has what
    the receiver's umask leaves."""
    times: bool = True
    """Whether times of modification are those of the sources; else they are those of the copy."""
    omit_dir_times: bool = False
    """Whether times of folders are those of the copy."""
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
    """Whether extended attributes and flags are kept."""
    acls: bool = False
    """Whether access lists are kept."""
    top: bool = False
    """Whether ``SRC/.`` gives what is kept of it to the folder that takes its content."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What the user lets all streams send together, whatever plan and steerings say."""

    most_bps: int | None = None
    """The most that TCP carries of all streams together, bits per second; null: no limit."""
    paused: bool = False
    """Whether nothing is sent; both ends wait then."""


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
    walk: Walk = Walk()
    skip: Skip = Skip()
    delete: bool = False
    """Whether what is not at the sender is removed at the receiver."""
    delete_excluded: bool = False
    """Whether that is also of what the filters leave out at both ends."""
    max_delete: int | None = None
    """The most that is removed; where there is more, nothing is. Null: all is."""
    keep: Keep = Keep()
    memory_bytes: int | None = None
    """The bytes to send from memory to memory, with files at neither end."""
    memory_s: float | None = None
    """The seconds to send for from the first byte on, in place of ``memory_bytes``."""
    pipe: int | None = None
    """The descriptor that is read in place of the only source, or written to in place of the destination."""
    dry_run: bool = False
    encrypt: bool = True
    sync: bool = True
    """Whether all is put on stable storage before the receiver is done."""
    data_address: str | None = None
    """An address to try before FarHello.addresses."""
    detour_port: int | None = None
    """A port of this host's loopback from which a detour leads to the far end's data port; null: none."""
    near_ports: tuple[int, int] | None = None
    """The ports of which this host opens one, where the far end connects to it; null: the kernel chooses."""
    digests: bytes | None = None
    """The file for the digests of what has been moved; null keeps none."""
    sample_every_s: float = SAMPLE_EVERY_S
    """The seconds between two samples of a stream, 0.01 to 10."""
    patience_s: float = 300.0
    """The seconds for which both ends wait for a path that is out, 0 to 86,400."""
    limit: Limit = Limit()
    """What may be sent from the first byte on."""
    between: Between | None = None
    """The two far ends, where this host is a third one; ``direction`` is then push."""


class FarJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a near end asks a far end for, of which each host decides (crates/site)."""

    direction: Literal["push", "pull"]
    sources: list[bytes]
    destination: bytes
    from_memory: bool
    memory_bytes: int | None = None
    delete: bool = False
    """Whether the receiver removes what is not at the sender."""
    dry_run: bool
    encrypt: bool
    other: str | None = None
    """The address of the host that the data goes to or comes from, where that is not the near end's."""


class FarAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What an end has moved when its copy has ended, well or not (crates/site)."""

    bytes: int
    files: int
    removed: int = 0
    """Files, folders and links that were removed at the receiver."""
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
    streams: Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)]
    """How many of those the plan opened carry payload."""
    pacing_bps: Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MOST)] | None = None
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
    hole_bytes: int = 0
    """Holes that the receiver has made, whose zeros are not sent; ``bytes_total`` is without them."""
    removed: int = 0
    """Files, folders and links that were removed at the receiver."""
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
    by_far_end: str | None = None
    """What came of the data port where the far end connects to this host; null where it does not."""
    other_address: str | None = None
    """The far host's address of the other family, and why, where the data goes there (``Outcome``)."""
    sender: Spent = Spent()
    """What the sender's streams have spent their time on so far, together; told each second."""
    receiver: Spent = Spent()

    @property
    def bytes_placed(self) -> int:
        """How much of the files the receiver has got: what was sent, and holes."""
        return self.bytes_done + self.hole_bytes

    @property
    def bytes_to_place(self) -> int | None:
        """How much of the files it is to get, as far as that is known; null with ``bytes_total``."""
        return None if self.bytes_total is None else self.bytes_total + self.hole_bytes
