"""``howdah probe`` from its arguments to its exit code: by ICMP echo, and by UDP where asked or needed."""

import os
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from howdah import HowdahError, interrupt
from howdah.archive import Archive
from howdah.arguments import check_within
from howdah.bounds import PROBED_S
from howdah.probing.far_end import FarResponder, Greeting, Target, endpoint, resolved
from howdah.probing.prober import ProbeUpdate, Probing, ProbingResult, Rhythm, probe
from howdah.remote import ssh
from howdah.remote.lab_link import link_of_a_lab
from howdah.remote.meeting import usable
from howdah.text import of_error
from howdah.values import record
from howdah.values.probe import Burst, Probe, ProbeKind
from howdah.values.record import HostLimits, Record

if TYPE_CHECKING:
    from howdah.traffic.bursts import Bursts

FOR_S = 10.0
SILENT_S = 1.5
"""The longest wait for an answer; after that none will come."""
_SSH_S = 5.0
"""How long ssh may take where the user did not ask for UDP."""


class ProbeRequest(NamedTuple):
    """The request for one probing."""

    host: str
    for_s: float | None
    """The duration; None: ten seconds, or as long as the bursts take."""
    udp: bool
    far_howdah: str | None
    active: bool = False
    """Whether bursts are sent beside the probes."""
    bursts: Path | None = None
    """The file of the bursts; None: the paper's."""
    command: list[str] | None = None
    """The command in the record; None: the command line of this process."""


class ProbeDisplay:
    """The display of a probing. This one shows nothing but what ssh and the far end say."""

    def far_says(self, text: str) -> None:
        """Passes on what the far end says."""
        sys.stderr.write(text)

    def say(self, line: str) -> None:
        """Shows a line; this one does not."""

    def look(self, taken: ProbeUpdate, for_s: float) -> None:
        """Shows how far the probing is; this one does not."""

    def close(self) -> None:
        """Ends the display."""


class ProbeResult(NamedTuple):
    """The result of a probing."""

    record: Record
    exit_code: int
    archive_error: str | None
    interrupted: int | None = None
    """The signal that ended it, with what was seen until then in the record."""
    failed: BaseException | None = None
    """The error of the display that ended it likewise."""


class _Answered(NamedTuple):
    way: ProbeKind
    address: str
    probed: ProbingResult


def run(request: ProbeRequest, display: ProbeDisplay, archive: Archive) -> ProbeResult:
    """Probes and keeps the record. Raises HowdahError when nothing answers."""
    check_within("for_s", request.for_s, PROBED_S, mend="leave it out for 10 s")
    # Loaded when the request is known to be right, and before the first probe: numpy takes a while.
    # A C extension whose loading is broken off crashes when Python ends.
    with interrupt.Held():
        from howdah.measure.probe_summary import summary  # noqa: PLC0415

    began = datetime.now(UTC)
    bursts = _bursts(request) if request.active else None
    run = _ProbeRun(request, bursts, display)
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
    number = seen.probed.interrupted
    try:
        shown = summary(seen.probed, run.rhythm, seen.way, seen.address, sent)
    except HowdahError:
        if run.failed is not None:
            raise run.failed from None
        if number:
            raise interrupt.Interrupted(number) from None
        raise
    kept = _record(shown, began, request, close_account(), number)
    if run.failed is not None:
        kept = msgspec.structs.replace(kept, error=of_error(run.failed))
    exit_code = 128 + number if number else 0
    try:
        archive.save(kept)
    except HowdahError as error:
        return ProbeResult(kept, exit_code or 1, str(error), number, run.failed)
    return ProbeResult(kept, exit_code, None, number, run.failed)


def _bursts(request: ProbeRequest) -> "Bursts":
    """The bursts, whose modules are loaded only here: they bring all that a copy does."""
    from howdah.traffic.bursts import Bursts, profile  # noqa: PLC0415

    return Bursts(profile(request.bursts, request.for_s), request.host, request.far_howdah)


class _ProbeRun:
    def __init__(self, request: ProbeRequest, bursts: "Bursts | None", display: ProbeDisplay) -> None:
        self.request, self.bursts = request, bursts
        self.for_s = request.for_s or (bursts.lasts_s if bursts else FOR_S)
        self.target = Target(request.host)
        self.rhythm = Rhythm()
        self.display = display
        self.failed: BaseException | None = None
        """What the display raised."""

    def by_any(self) -> _Answered:
        """Probes by ICMP, or by UDP where that is not answered."""
        address = self.target.address()
        try:
            return self._icmp(address)
        except _NoEchoError as no_echo:
            self.display.say(f"{no_echo}; asking by UDP, over ssh")
            try:
                return self.by_udp(asks=False)
            except HowdahError as error:
                raise HowdahError(f"{no_echo}, and by UDP: {error}") from None

    def by_udp(self, *, asks: bool) -> _Answered:
        """Probes a responder that ssh starts; with ``asks``, ssh may ask the user and take its time."""
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
                "allow UDP to that host, or let it answer ICMP echo"
            )
        return _Answered("udp", address, seen)

    def _icmp(self, address: str) -> _Answered:
        try:
            seen = self._probe(Probing(way="icmp", to=endpoint(address, 0), for_ns=self._for_ns()))
        except HowdahError as error:
            if error is self.failed:
                raise
            # Mostly because this user may not send echo requests.
            raise _NoEchoError(str(error)) from None
        if not seen.counts.answered:
            where = "" if address == self.target.name else f" ({address})"
            raise _NoEchoError(f"{self.target.name}{where} answers no ICMP echo{self._refusal(seen)}")
        return _Answered("icmp", address, seen)

    def _probe(self, probing: Probing) -> ProbingResult:
        seen = probe(probing, self._watch)
        if seen.interrupted and not seen.counts.answered:
            raise interrupt.Interrupted(seen.interrupted)
        if self.failed is not None and not seen.counts.answered:
            raise self.failed
        return seen

    def _watch(self, taken: ProbeUpdate) -> bool:
        if self.failed is not None:
            return True
        try:
            self.display.look(taken, self.for_s)
        except interrupt.STOPS:
            raise
        except BaseException as error:
            # What was seen so far is kept, and then it is raised again.
            self.failed = error
            return True
        silent = taken.elapsed_s > SILENT_S and not taken.counts.answered
        return silent or not (self.bursts is None or self.bursts.look(taken.elapsed_s))

    def _refusal(self, seen: ProbingResult) -> str:
        said = f" ({seen.refused})" if seen.refused else ""
        return f"{said} within {min(SILENT_S, self.for_s):.1f} s"

    def _for_ns(self) -> int:
        return round(self.for_s * 1e9)


class _NoEchoError(HowdahError):
    """Raised where nothing answers ICMP echo, or none may be sent."""


def _reached(login: ssh.Login, greeting: Greeting, name: str) -> str:
    """The address by which ssh came there, if the host is known by it here; else one it is known by.

    What only the far end tells counts where ssh goes through another host, and never as one of this host.
    """
    known = resolved(login.data_address, name) if login.data_address else []
    told = [greeting.address] if greeting.address is not None else []
    if known:
        return told[0] if told and told[0] in known else known[0]
    found = next(map(str, usable(told)), None)
    if found is None:
        raise HowdahError(f"{name} is reached through an ssh command, and probes cannot pass through it")
    return found


def _record(
    shown: Probe,
    began: datetime,
    request: ProbeRequest,
    link: dict[str, Any] | None,
    interrupted: int | None,
) -> Record:
    spoilt = link is not None and link["lateness"]["spoilt"]
    return Record(
        id=record.new_id(began),
        kind="probe",
        started_at=began,
        command=record.printable_command(sys.argv if request.command is None else request.command),
        host=Target(request.host).name,
        near_host=os.uname().nodename,
        environment=record.environment(HostLimits.here(), None),
        rtt_s=shown.base_rtt_s,
        probe=shown,
        link_stats=link,
        flags=["interrupted"] * bool(interrupted) + ["lateness"] * spoilt,
    )
