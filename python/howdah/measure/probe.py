"""``howdah probe`` from its arguments to its exit code: by ICMP echo, and by UDP where asked or needed."""

import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from howdah import HowdahError, interrupt
from howdah.archive import Archive
from howdah.probing.probing import Probed, Probing, Rhythm, Taken, probe
from howdah.probing.responder import FarResponder, Greeting
from howdah.probing.target import Target, endpoint, resolved
from howdah.remote import ssh
from howdah.remote.lab_link import link_of_a_lab
from howdah.values import record
from howdah.values.probe import Burst, Probe, Way
from howdah.values.record import HostLimits, Record

if TYPE_CHECKING:
    from howdah.traffic.bursts import Bursts

FOR_S = 10.0
SILENT_S = 1.5
"""Without an answer for so long, none will come."""
_SSH_S = 5.0
"""How long the ssh may take that nobody asked for."""
_LONGEST_S = 3600.0


class ProbeRequest(NamedTuple):
    """One probing as it was asked for."""

    host: str
    for_s: float | None
    """None: ten seconds, or as long as the bursts take."""
    udp: bool
    far_howdah: str | None
    active: bool = False
    """Send bursts beside the probes."""
    bursts: Path | None = None
    """Which; None: the paper's."""


class Quiet:
    """Shows nothing but what ssh and the far end say."""

    def far_says(self, text: str) -> None:
        """Passes it on."""
        sys.stderr.write(text)

    def say(self, line: str) -> None:
        """Nothing."""

    def look(self, taken: Taken, for_s: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing is open."""


class Done(NamedTuple):
    """How a probing ended."""

    record: Record
    exit_code: int
    archive_error: str | None


class _Seen(NamedTuple):
    way: Way
    address: str
    probed: Probed


def run(request: ProbeRequest, display: Quiet, archive: Archive) -> Done:
    """Probes and keeps the record. Raises HowdahError when nothing answers."""
    if request.for_s is not None and not 1.0 <= request.for_s <= _LONGEST_S:
        raise HowdahError(f"--for {request.for_s:g}s is not between 1s and 1h")
    # Loaded when the request is known to be right, and before the first probe: numpy takes a while.
    from howdah.measure.shown import showed  # noqa: PLC0415

    interrupt.install()
    began = datetime.now(UTC)
    bursts = _bursts(request) if request.active else None
    run = _Run(request, bursts, display)
    with interrupt.Held():
        close_account = link_of_a_lab()
    sent: list[Burst] = []
    try:
        with bursts or nullcontext():
            seen = run.by_udp(asks=True) if request.udp else run.by_any()
            if bursts:
                with interrupt.Held():
                    sent = bursts.end()
    finally:
        display.close()
    shown = showed(seen.probed, run.rhythm, seen.way, seen.address, sent)
    kept = _record(shown, began, run.target.name, close_account(), seen.probed.interrupted)
    exit_code = 128 + seen.probed.interrupted if seen.probed.interrupted else 0
    try:
        archive.save(kept)
    except HowdahError as error:
        return Done(kept, exit_code or 1, str(error))
    return Done(kept, exit_code, None)


def _bursts(request: ProbeRequest) -> "Bursts":
    """Loaded only where they are asked for: it brings all that a copy does."""
    from howdah.traffic.active import profile  # noqa: PLC0415
    from howdah.traffic.bursts import Bursts  # noqa: PLC0415

    return Bursts(profile(request.bursts, request.for_s), request.host, request.far_howdah)


class _Run:
    def __init__(self, request: ProbeRequest, bursts: "Bursts | None", display: Quiet) -> None:
        self.request, self.bursts = request, bursts
        self.for_s = request.for_s or (bursts.lasts_s if bursts else FOR_S)
        self.target = Target(request.host)
        self.rhythm = Rhythm()
        self.display = display

    def by_any(self) -> _Seen:
        """By ICMP, or by UDP where that is not answered."""
        address = self.target.address()
        try:
            return self._icmp(address)
        except _NoEchoError as no_echo:
            self.display.say(f"{no_echo}; asking by UDP, over ssh")
            try:
                return self.by_udp(asks=False)
            except HowdahError as error:
                raise HowdahError(f"{no_echo}, and by UDP: {error}") from None

    def by_udp(self, *, asks: bool) -> _Seen:
        """By a responder that ssh starts; ``asks`` whether it may ask the user, and take its time."""
        login = self.target.login()
        with interrupt.Held():
            far = FarResponder(login, self.request.far_howdah, asks=asks)
        with far:
            greeting = far.greeting(None if asks else _SSH_S, self.display.far_says)
            address = _reached(login, greeting, self.target.name)
            to = endpoint(address, greeting.port)
            seen = self._probe(Probing(way="udp", to=to, token=greeting.token, for_ns=self._for_ns()))
        if not seen.counts.answered:
            raise HowdahError(
                f"{self.target.name} answers no UDP probe at {to}{self._refusal(seen)}; "
                "let UDP to that host through, or let it answer ICMP echo"
            )
        return _Seen("udp", address, seen)

    def _icmp(self, address: str) -> _Seen:
        try:
            seen = self._probe(Probing(way="icmp", to=endpoint(address, 0), for_ns=self._for_ns()))
        except HowdahError as error:
            # Not open to this user, most of all.
            raise _NoEchoError(str(error)) from None
        if not seen.counts.answered:
            where = "" if address == self.target.name else f" ({address})"
            raise _NoEchoError(f"{self.target.name}{where} answers no ICMP echo{self._refusal(seen)}")
        return _Seen("icmp", address, seen)

    def _probe(self, probing: Probing) -> Probed:
        seen = probe(probing, self._watch)
        if seen.interrupted and not seen.counts.answered:
            raise interrupt.Interrupted(seen.interrupted)
        return seen

    def _watch(self, taken: Taken) -> bool:
        self.display.look(taken, self.for_s)
        silent = taken.elapsed_s > SILENT_S and not taken.counts.answered
        return silent or not (self.bursts is None or self.bursts.look(taken.elapsed_s))

    def _refusal(self, seen: Probed) -> str:
        said = f" ({seen.refused})" if seen.refused else ""
        return f"{said} within {min(SILENT_S, self.for_s):.1f} s"

    def _for_ns(self) -> int:
        return round(self.for_s * 1e9)


class _NoEchoError(HowdahError):
    """Nothing answers ICMP echo, or none may be sent."""


def _reached(login: ssh.Login, greeting: Greeting, name: str) -> str:
    """The address by which ssh came there, if the host is known by it here; else one it is known by."""
    known = resolved(login.data_address, name) if login.data_address else []
    found = next(iter(known), None) if greeting.address not in known else greeting.address
    if found is None and greeting.address is None:
        raise HowdahError(f"{name} is reached through a command of ssh's, which probes cannot go through")
    return found or str(greeting.address)


def _record(
    shown: Probe, began: datetime, name: str, link: dict[str, Any] | None, interrupted: int | None
) -> Record:
    spoilt = link is not None and link["lateness"]["spoilt"]
    return Record(
        id=record.new_id(began),
        kind="probe",
        started_at=began,
        command=record.printable_command(sys.argv),
        host=name,
        environment=record.environment(HostLimits.here(), None),
        rtt_s=shown.base_rtt_s,
        probe=shown,
        link_stats=link,
        flags=["interrupted"] * bool(interrupted) + ["lateness"] * spoilt,
    )
