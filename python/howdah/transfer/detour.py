"""The way of a copy's data where the far end's data port cannot be reached."""

from collections.abc import Callable

from howdah import HowdahError
from howdah._native import format_duration, format_rate
from howdah.remote.messages import Progress, Steering
from howdah.remote.standby import FarSession
from howdah.remote.tunnel import OWN, Tunnel
from howdah.text import count
from howdah.transfer.pilot import Pilot, asked
from howdah.transfer.request import Request
from howdah.transfer.service import Underway
from howdah.values import sizes
from howdah.values.plan import Plan

_WORTH_LOGINS_BYTES = 64 << 20
"""A copy that is known to be smaller waits for no more logins than there are."""
_TOLD_AFTER_S = 1.0
"""A copy that has moved nothing for so long says why its data takes another way."""
_CHANNEL_WINDOW_BYTES = 2 << 20
"""The most of a channel that OpenSSH lets be on its way (CHAN_TCP_WINDOW_DEFAULT of channels.h)."""
_STREAM = "data stream: "
"""The beginning of an error of a stream that could not be opened or broke (crates/transfer)."""


def gain(streams: int, rtt_s: float | None) -> str:
    """The reason to open the port: the most that ssh carries of so many streams, where the RTT is known."""
    if rtt_s is None:
        return "An open port would be faster"
    most = format_rate(sizes.window_rate_bps(streams, _CHANNEL_WINDOW_BYTES, rtt_s))
    each = f"{count(streams, 'stream')} with 2 MiB each in a round trip of {format_duration(rtt_s)}"
    return f"ssh carries at most {most} ({each}); an open port has no such bound"


class Detour:
    """The detour of one copy, which the data plane takes where the straight way is closed."""

    def __init__(self, request: Request) -> None:
        """The detour of a copy; ssh is not asked before a session needs it."""
        self._request = request
        self._tunnel: Tunnel | None = None
        self._why: str | None = None
        self._gain = gain(0, None)
        self._told: set[str] = set()
        self._closed_s: float | None = None
        self._steered = False

    def begin(self, started: FarSession, underway: Underway) -> int | None:
        """The port of this host's loopback that the data plane may dial in this session; None: no detour.

        None has a copy without streams, one between two far ends, or one that the path itself is measured by
        or holds to a share.
        """
        request, self._closed_s = self._request, None
        if request.dry_run or request.path == "guaranteed" or request.sweep is not None:
            return None
        if request.route.origin is not None:
            return None
        far, path, streams = underway.far, underway.path, underway.plan.streams
        self._gain = gain(streams, path.rtt_s)
        own = OWN if path.bytes_total is None or path.bytes_total >= _WORTH_LOGINS_BYTES else 0
        self._tunnel = Tunnel(started.far.login, far.addresses[0], far.port, request.patience_s, own=own)
        return self._tunnel.port

    def close(self) -> None:
        """Ends what a session began."""
        if self._tunnel is not None:
            self._tunnel.close()
            self._tunnel = None

    def tell(self, now: Progress, say: Callable[[str], None]) -> None:
        """Says once by which other way the data goes, as soon as some has gone there.

        A far end that refuses the job closes its data port as well: then its refusal is all that is said.
        """
        ways = {
            "other": now.other_address
            and f"the data goes to the far host's other address, {now.other_address}",
            "far end": now.by_far_end
            and f"the far end connects to this host, because its data port is closed ({now.by_far_end})",
            "ssh": now.through_ssh
            and f"the data goes through the ssh connection, because the data port is closed "
            f"({now.through_ssh}). {self._gain}. What to ask the administrator for: "
            f"howdah doctor {self._request.route.host}",
        }
        new = {way: words for way, words in ways.items() if words and way not in self._told}
        if not new:
            return
        self._closed_s = now.elapsed_s if self._closed_s is None else self._closed_s
        waits = now.phase == "connecting" and now.elapsed_s < self._closed_s + _TOLD_AFTER_S
        if now.phase == "failed" or waits:
            return
        for way, words in new.items():
            self._told.add(way)
            say(f"howdah: {words}\n")

    def steering(self, now: Progress, pilot: Pilot, plan: Plan | None) -> Steering | None:
        """What the pilot wants. Through ssh none is asked: it would see, and change, the way to ssh alone.

        What a pilot has changed until then is taken back. Raises HowdahError where ssh carries no data.
        """
        if now.through_ssh is None:
            wanted = asked(pilot, now)
            self._steered = self._steered or wanted is not None
            return wanted
        self._why = now.through_ssh
        if self._tunnel is not None and self._tunnel.forbidden:
            raise HowdahError("sshd forwards no data")
        steered, self._steered = self._steered, False
        if not steered or plan is None:
            return None
        return Steering(streams=plan.streams, pacing_bps=plan.pacing_bps, why="the data goes through ssh")

    def explained(self, error: HowdahError) -> HowdahError:
        """The error that ended a session; where no way leads to the far end, one that says why."""
        tunnel = self._tunnel
        if self._why is None or tunnel is None or tunnel.said is None:
            return error
        if not tunnel.forbidden and not str(error).startswith(_STREAM):
            return error
        host = self._request.route.host
        return HowdahError(
            f"the data port of {host} is closed ({self._why}), and its sshd forwards no data either "
            f"({tunnel.said}); ask its administrator for AllowTcpForwarding yes in sshd_config, "
            f"or for the port: howdah doctor {host}"
        )
