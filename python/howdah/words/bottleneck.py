"""What limited a copy, in a sentence, and what mends it."""

from typing import NamedTuple

from howdah._native import format_rate
from howdah.values.bottleneck import Bottleneck, Cause
from howdah.values.outcome import Outcome


class Ends(NamedTuple):
    """The names of the two ends, as a sentence has them."""

    sender: str
    receiver: str
    shut: str | None = None
    """The host whose data port was closed; None: it was open, or the data had no need of it."""
    by_ssh: bool = False
    """Whether the data then went through the ssh connection."""

    @classmethod
    def of(cls, outcome: Outcome, host: str | None, origin: str | None) -> "Ends":
        """Those of a copy: hosts by their names, and this one."""
        far, near = host or "the far host", origin or "this host"
        by_ssh = outcome.through_ssh is not None
        shut = far if by_ssh or outcome.by_far_end or outcome.other_address else None
        sender, receiver = (near, far) if outcome.direction == "push" else (far, near)
        return cls(sender, receiver, shut, by_ssh)

    def port_took(self, cause: Cause) -> bool:
        """Whether a cause is that of a closed data port: another way is found late, and ssh is slower."""
        if self.shut is None:
            return False
        return cause is Cause.START or (self.by_ssh and cause in {Cause.PATH, Cause.WINDOW, Cause.END})


_WHAT = {
    Cause.SOURCE_DISK: "The disk of {sender}",
    Cause.SOURCE_CPU: "The processor of {sender}",
    Cause.SEALING: "Encryption at {sender}",
    Cause.WINDOW: "Socket buffers too small for the path",
    Cause.PACING: "The {bound}",
    Cause.PATH: "The path",
    Cause.OUTAGE: "The outage",
    Cause.RECEIVER_CPU: "The processor of {receiver}",
    Cause.RECEIVER_DISK: "The disk of {receiver}",
    Cause.SMALL_FILES: "Small files",
    Cause.START: "The start",
    Cause.END: "The end",
}
_MENDS = {
    Cause.SOURCE_DISK: "read from a faster disk",
    Cause.SOURCE_CPU: "give {sender} more cores, and the copy more --streams to use them",
    Cause.SEALING: "more --streams use more cores; on fibre of your own, --plaintext",
    Cause.WINDOW: "raise what howdah doctor names at both hosts",
    Cause.PACING: "raise the {bound}",
    Cause.PATH: "howdah probe shows the path, and howdah sweep what other plans get of it",
    Cause.RECEIVER_CPU: "give {receiver} more cores, and the copy more --streams to use them",
    Cause.RECEIVER_DISK: "write to a faster disk",
    Cause.SMALL_FILES: "copy an archive of them through a pipe",
    Cause.START: "copy more at a time, while the login is kept",
    Cause.END: "copy more at a time",
}
SHORT = {
    Cause.SOURCE_DISK: "source disk",
    Cause.SOURCE_CPU: "source processor",
    Cause.SEALING: "encryption",
    Cause.WINDOW: "socket buffers",
    Cause.PACING: "limit",
    Cause.PATH: "path",
    Cause.OUTAGE: "outage",
    Cause.RECEIVER_CPU: "receiver's processor",
    Cause.RECEIVER_DISK: "receiver's disk",
    Cause.SMALL_FILES: "small files",
    Cause.START: "start",
    Cause.END: "end",
}
"""The causes where there is room for a word."""


def line(found: Bottleneck | None, ends: Ends, *, buffer_given: bool = False) -> str | None:
    """``The disk of dtn2 took 71 % of the time: 2.1 Gb/s; this path has given 9.2 Gb/s. To mend it, …``

    None where no cause took most of the time, or to mend it would hardly help. Of a path whose rate nobody
    has measured, it does not say how much faster a copy could be.
    """
    if found is None or not found.is_worth_a_line or found.main is None:
        return None
    names = {**ends._asdict(), "bound": "share" if found.by_share else "limit"}
    main = found.main
    what, mends = _WHAT[main.cause].format(**names), _MENDS[main.cause].format(**names)
    if main.cause is Cause.WINDOW and buffer_given:
        mends = f"leave --buffer out, and {mends}"
    if ends.port_took(main.cause):
        what = f"{what}, with the data port closed,"
        mends = f"have the data port opened, as howdah doctor {ends.shut} says"
    rates = "" if main.cause in {Cause.START, Cause.END} else _rates(found)
    most = (found.known_bps, found.capacity_bps, found.share_most_bps)
    unknown = main.cause in {Cause.PATH, Cause.PACING} and most == (None, None, None)
    gain = "" if unknown else f": {_gain(found)}"
    return f"{what} took {main.share:.0%} of the time{rates}. To mend it, {mends}{gain}"


def details(found: Bottleneck | None) -> list[str]:
    """All causes that took some of the time, with what shows each."""
    if found is None:
        return []
    shown = [share for share in found.shares if share.share >= 0.01]
    lines = [
        f"  {share.share:4.0%}  {SHORT[share.cause]}{share.evidence and f': {share.evidence}'}"
        for share in shown
    ]
    return ["Where the time went:", *lines] if lines else []


def _rates(found: Bottleneck) -> str:
    """``: 2.1 Gb/s; this path has given 9.2 Gb/s``, or what it was measured to carry, if that is less."""
    rate = "" if found.rate_bps is None else f": {format_rate(found.rate_bps)}"
    known_bps, capacity_bps = found.known_bps, found.capacity_bps
    if capacity_bps is not None and (known_bps is None or capacity_bps < known_bps):
        return f"{rate}; this path carries {format_rate(capacity_bps)}"
    return rate if known_bps is None else f"{rate}; this path has given {format_rate(known_bps)}"


def _gain(found: Bottleneck) -> str:
    if found.faster < 2:
        return f"up to {found.faster - 1:.0%} faster"
    two_digits = float(f"{min(found.faster, 100):.2g}")
    return f"up to {two_digits:g} times as fast"
