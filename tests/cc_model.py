"""Reference models of congestion controls, in virtual time, of one connection over one path.

Windows are segments, times nanoseconds since the start. What is not given is null.
"""

import msgspec

from howdah._native import cc_model


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One connection that always has data, and when it loses a segment."""

    algorithm: str
    """The name of a folder of crates/cc/controls, such as ``cubic`` or ``hold``."""
    parameters: dict[str, int] = {}
    """The parameters that differ from the defaults of docs/cc.md."""
    window_segments: int | None = None
    """The window that ``hold`` keeps, in segments. Only ``hold`` takes this or ``hold_bps``."""
    hold_bps: int | None = None
    saved_segments: int | None = None
    """What earlier connections had in flight. Only ``resume`` takes this, with ``saved_rtt_ns``."""
    saved_rtt_ns: int | None = None
    rtt_ns: int
    rate_bps: int | None = None
    """The rate of the link on the wire; null: unlimited."""
    wire_bytes: int = 1538
    """A full segment on the wire."""
    packet_bytes: int = 1500
    """The same as an IP packet, by which hold reckons."""
    queue_segments: int | None = None
    """The room of the queue in segments; null: nothing overflows."""
    ack_segments: float = 1.0
    """Segments that an ACK acknowledges in the mean."""
    start_segments: int = 10
    ssthresh_segments: int | None = None
    losses_ns: tuple[int, ...] = ()
    """The next segment sent from each of these times on is lost."""
    span_ns: int


class Round(msgspec.Struct, frozen=True):
    """The end of a round trip."""

    t_ns: int
    cwnd_segments: int
    ssthresh_segments: int | None
    rtt_ns: int


class Cut(msgspec.Struct, frozen=True):
    """A loss that was found: the window before, and when it was repaired."""

    t_ns: int
    before_segments: int
    after_segments: int


class Trace(msgspec.Struct, frozen=True):
    """The events of the model, in the order of time."""

    rounds: tuple[Round, ...]
    cuts: tuple[Cut, ...]


def run(experiment: Experiment) -> Trace:
    """Runs the model. Raises HowdahError naming what cannot be."""
    return msgspec.json.decode(cc_model(msgspec.json.encode(experiment)), type=Trace)
