"""Sending at once what the archive remembers of a path, by howdah's program ``hd_resume`` (Careful Resume).

The program begins the streams in place of the plan's congestion control, and the kernel moves each of them to
that when it has sent its part, or when it may not. Root tells it the capacity, for the far end's data port
alone; it is forgotten when the copy has ended, and by itself soon after the streams have connected. A copy of
another user does with what root has told it of the destination (``howdah cc load resume``).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from howdah import HowdahError
from howdah._native import format_bytes
from howdah.transfer.request import Request
from howdah.transfer.service import Underway
from howdah.values.memory import JUMP_SHARE, PathMemory, Resume, Resumed
from howdah.values.path import Path as KnownPath
from howdah.values.plan import Plan
from howdah.values.record import HostLimits
from howdah.values.sizes import INITIAL_WINDOW_BYTES

if TYPE_CHECKING:
    from howdah.cc.resume import Destination

PROGRAM = "resume"
CONTROL = f"hd_{PROGRAM}"

WORTH_INITIAL_WINDOWS = 4
"""What is sent at once is worth it from so many initial windows a stream on (RFC 9959 stores no less)."""

_COUNTS = [each for each in Resumed.__struct_fields__ if each != "refused"]
_VALID_S = 60.0
"""The streams connect within this time, or begin as without a memory."""


class Resuming:
    """What one copy sends at once."""

    def __init__(self, request: Request) -> None:
        """Of a copy that was asked for so; nothing is told to the kernel yet."""
        self._request = request
        self._told: list[str] = []
        self._port: int | None = None
        self._namespace = Path("/proc/self/ns/net").stat().st_ino
        self._refused: str | None = None
        self._loading = Lock()
        self._sends = request.route.direction == "push" and request.route.origin is None

    def prepare(self) -> None:
        """Loads the program, in any thread, while ssh logs in: it takes 0.2 s. A failure is told later."""
        request = self._request
        bounded = request.dry_run or request.limits is not None
        if self._sends and not bounded and HostLimits.here().privileged:
            with suppress(HowdahError):
                self._load()

    def planned(self, plan: Plan, path: KnownPath, others_present: Callable[[KnownPath], bool]) -> Plan:
        """The plan with what is sent at once, or with the reason why nothing is.

        ``others_present`` is asked last: whether competing traffic was measured before the first byte.
        """
        memory, request = path.memory, self._request
        if plan.resume is not None:
            # Of a plan that was made before: the path may have changed since.
            return msgspec.structs.replace(plan, resume=None)
        bounded = bool(plan.changes or plan.pacing_bps or request.limits)
        if memory is None or not memory.same_route or bounded or not self._sends or plan.path == "guaranteed":
            return plan
        resume = _worth(plan, memory)
        if resume is None:
            return plan
        why_not = memory.why_not()
        if why_not is None and others_present(path):
            why_not = "competing traffic was measured before the first byte"
        source = None
        if why_not is None:
            source, why_not = self._ready(plan, path)
        if source is None:
            return _saying(plan, f"Nothing is sent at once: {why_not}.")
        most, part = format_bytes(resume.jump_bytes), f"{resume.part:.0%}"
        words = (
            f"{most} are sent at once, {part} of a round trip's worth ({source}); "
            f"{plan.congestion_control} goes on."
        )
        return msgspec.structs.replace(_saying(plan, words), resume=resume)

    def begun(self, underway: Underway) -> Plan:
        """The plan as the data plane is to carry it out, when the kernel has been told.

        Where it cannot be, the streams begin as ever.
        """
        plan = underway.plan
        if plan.resume is None or self._request.dry_run:
            return plan
        if underway.path.sender.privileged:
            try:
                self._tell(underway, plan.resume)
            except HowdahError as error:
                self._refused = str(error)
                return plan
        return msgspec.structs.replace(plan, congestion_control=CONTROL)

    def ended(self) -> Resumed | None:
        """Has the kernel forget the capacity; what came of it, null where nothing was told."""
        if not self._told and self._refused is None:
            return None
        from howdah.cc import resume  # noqa: PLC0415

        counts = dict.fromkeys(_COUNTS, 0)
        for address in self._told:
            with suppress(HowdahError):
                memory = resume.forget(self._destination(address))
                counts = {name: counts[name] + getattr(memory, name) for name in counts}
        self._told, refused, self._refused = [], self._refused, None
        return Resumed(**counts, refused=refused)

    def _tell(self, underway: Underway, known: Resume) -> None:
        """Tells the kernel the capacity. Raises HowdahError where it refuses, or another copy has it now."""
        from howdah.cc import resume  # noqa: PLC0415

        addresses = _addresses(underway.data_address, underway.far.addresses)
        self._port = underway.far.port
        mine = {self._destination(address) for address in addresses}
        for other in resume.memories():
            elsewhere = other.port is None or other.namespace != self._namespace
            if other.to in addresses and not elsewhere and other.left_s > 0 and other.destination not in mine:
                raise HowdahError("another copy has just begun with it")
        saved = resume.Saved(
            capacity_bytes=known.capacity_bytes,
            rtt_s=known.rtt_s,
            streams=underway.plan.streams,
            jump_part=known.part,
            valid_s=_VALID_S,
            then=str(underway.plan.congestion_control),
        )
        for address in addresses:
            resume.remember(self._destination(address), saved)
            self._told.append(address)

    def _destination(self, address: str) -> "Destination":
        from howdah.cc.resume import Destination  # noqa: PLC0415

        return Destination(address, port=self._port, namespace=self._namespace)

    def _ready(self, plan: Plan, path: KnownPath) -> tuple[str | None, str | None]:
        """Where the capacity is known from, when the program is there; else None and why it is not."""
        sender = path.sender
        loaded = CONTROL in sender.congestion_controls_available
        if plan.congestion_control is None:
            return None, "the plan leaves the congestion control to the kernel"
        if not sender.privileged:
            if loaded and CONTROL in sender.congestion_controls_usable:
                return "as far as root has told hd_resume of this destination", None
            return None, f"only root can change that: sudo howdah cc load {PROGRAM}"
        if loaded or not self._request.dry_run:
            try:
                self._load()
            except HowdahError as error:
                return None, str(error)
        return "howdah's hd_resume", None

    def _load(self) -> None:
        """Loads the program, or leaves it where it is loaded already.

        Raises HowdahError, at once where the program is in the kernel and was not loaded from here.
        """
        from howdah.cc import programs  # noqa: PLC0415

        with self._loading:
            known = next(each for each in programs.listed() if each.name == PROGRAM)
            if known.loaded is not None:
                return
            if known.in_kernel:
                raise HowdahError(
                    f"{CONTROL} was loaded elsewhere, as from within a lab, and can be told nothing from here"
                )
            programs.load(PROGRAM)


def _worth(plan: Plan, memory: PathMemory) -> Resume | None:
    """What may be sent at once; None where slow start sends as much as soon."""
    part, capacity_bytes = JUMP_SHARE, memory.capacity_bytes
    predicted = plan.why.prediction
    if plan.path == "dedicated" and predicted is not None:
        # Nobody else is there, so it is what the next run reaches with 95 %.
        rate_bps = min(predicted.rate_low_bps, memory.latest_bps)
        part, capacity_bytes = 1.0, round(rate_bps / 8 * memory.rtt_s)
    if capacity_bytes * part < WORTH_INITIAL_WINDOWS * INITIAL_WINDOW_BYTES * plan.streams:
        return None
    return Resume(capacity_bytes=capacity_bytes, rtt_s=memory.rtt_s, part=part)


def _saying(plan: Plan, sentence: str) -> Plan:
    why = msgspec.structs.replace(plan.why, summary=[*plan.why.summary, sentence])
    return msgspec.structs.replace(plan, why=why)


def _addresses(data_address: str | None, others: Iterable[str]) -> list[str]:
    """The addresses that the streams may go to, each once."""
    found = []
    if data_address is not None:
        from howdah.probing.far_end import resolved  # noqa: PLC0415

        with suppress(HowdahError):
            found = resolved(data_address, data_address)
    for each in others:
        with suppress(ValueError):
            found.append(str(ip_address(each)))
    return list(dict.fromkeys(found))
