"""What the archive remembers of a path: looked up while ssh logs in, and sent at once (Careful Resume).

Howdah's program ``hd_resume`` begins the streams in place of the plan's congestion control. The kernel moves
each of them to that when it has sent its part, or when it may not. Root tells it the capacity, for the far
end's data port alone; it is forgotten when the copy has ended, and by itself soon after the streams have
connected. A copy of another user does with what root has told it of the destination (``howdah cc load
resume``).
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from howdah import HowdahError
from howdah._native import format_bytes
from howdah.archive import Archive
from howdah.transfer.request import Request
from howdah.transfer.service import Underway
from howdah.values.memory import JUMP_SHARE, Direction, PastCopy, PathMemory, Resume, Resumed, recall
from howdah.values.path import Path as KnownPath
from howdah.values.plan import Plan
from howdah.values.record import HostLimits, lab_link
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
_PATIENCE_S = 0.5
"""The longest that a plan waits for the look-up: on a very slow disk a copy goes without."""
_LACKS = (OSError, ImportError, MemoryError, HowdahError)
"""How a host says that it has no file, or no memory, for the look-up: a copy goes without then too."""


class Resuming:
    """What one copy sends at once."""

    def __init__(self, request: Request) -> None:
        """The state of a copy that was asked for so; nothing is told to the kernel yet."""
        self._request = request
        self._told: list[str] = []
        self._port: int | None = None
        self._namespace = Path("/proc/self/ns/net").stat().st_ino
        self._refused: str | None = None
        self._loading = threading.Lock()
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


class Recollection:
    """The memory of one path, from its look-up on.

    A thread does that, because reading the archive takes some milliseconds, in which a far end that waited
    has long said hello. Copies only add to the inbox. If much has gathered there, the same thread takes it
    in while the copy runs, so that the next copy finds all of it.
    """

    def __init__(
        self, request: Request, archive: Archive, remembers: Callable[[], None] | None = None
    ) -> None:
        """Begins the look-up, in a thread; it calls ``remembers`` where there is something."""
        self._remembers = remembers
        self._archive = archive
        self._request = request
        self._path: str | None = None
        self._direction: Direction = request.route.direction
        self._copies: list[PastCopy] = []
        self._looked = threading.Event()
        threading.Thread(target=self._look, name="howdah-memory", daemon=True).start()

    def of(self, rtt_s: float | None, address: str | None) -> PathMemory | None:
        """What is remembered, for a path with this base RTT to this address; None: nothing."""
        if not self._looked.wait(_PATIENCE_S) or self._path is None or not self._copies:
            return None
        return recall(self._path, self._direction, self._copies, rtt_s, address)

    def _look(self) -> None:
        try:
            with suppress(*_LACKS):
                self._find()
        finally:
            self._looked.set()
        with suppress(*_LACKS):
            if self._remembers is not None and self._copies:
                self._remembers()
            from howdah.archive import paths  # noqa: PLC0415

            paths.take_in(self._archive.inbox)

    def _find(self) -> None:
        from howdah.archive import paths  # noqa: PLC0415, while ssh logs in

        self._path = paths.named(*self._names(), lab_link())
        if self._path is not None:
            self._copies = paths.copies(self._archive.inbox, self._path, self._direction)

    def _names(self) -> tuple[str, str | None]:
        route = self._request.route
        origin = route.origin and route.origin.rpartition("@")[2]
        return route.host.rpartition("@")[2], origin
