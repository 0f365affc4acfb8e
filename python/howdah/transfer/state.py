"""The state of a copy, which becomes its record however far it came."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from howdah._native import CopyLog, Policy, Quota, Session
from howdah.remote.messages import FarAccount, FarHello, FarJob, Progress
from howdah.remote.ssh import Login
from howdah.text import printable
from howdah.transfer.again import Earlier
from howdah.transfer.detour import Detour
from howdah.transfer.outside import Outside
from howdah.transfer.planning import address_of
from howdah.transfer.request import Request
from howdah.transfer.resuming import Resuming
from howdah.transfer.service import service
from howdah.transfer.valve import Valve
from howdah.values import record
from howdah.values.limit import Limits
from howdah.values.memory import Carried, Resumed
from howdah.values.outcome import HOLD, Outcome
from howdah.values.plan import Plan
from howdah.values.record import HostLimits, Record
from howdah.values.verification import Verification

if TYPE_CHECKING:
    from howdah.transfer.rereading import Rereading

Result = Literal["complete", "incomplete", "refused", "failed", "interrupted"]


class State:
    """What belongs to one copy, and what has come of it so far."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.service = service(request)
        self.started_at = datetime.now(UTC)
        self.began_s = time.monotonic()
        self.id = record.new_id(self.started_at)
        self.digests: Path | None = None
        self.unjoined: str | None = None
        """Why the digests of a later session are not among them; None: they are, or there are none."""
        self.far: FarHello | None = None
        self.origin: FarHello | None = None
        self.plan: Plan | None = None
        self.outcome: Outcome | None = None
        self.last_outcome: Outcome | None = None
        """That of the last session alone."""
        self.rereading: Rereading | None = None
        """What follows the copy; None: nothing."""
        self.verification: Verification | None = None
        self.connect_s: float | None = None
        self.link_stats: dict[str, Any] | None = None
        self.near_cpu_busy_fraction: float | None = None
        self.close_account: Callable[[], dict[str, Any] | None] | None = None
        self.logins: list[Login] = []
        self.detour = Detour(request)
        self.valve = Valve(request.limits)
        self.outside = Outside(request, self.id, self.started_at, self.valve)
        self.earlier = Earlier()
        self.started_s: float | None = None
        """When the first session was given its job."""
        self.session: Session | None = None
        """The latest one that was given its job."""
        self.last: Progress | None = None
        """The latest look at that session."""
        self.moved_s: float | None = None
        """When it moved its last byte."""
        self.policy: Policy | None = None
        self.quota: Quota | None = None
        self.resuming = Resuming(request)
        self.resumed: Resumed | None = None
        self.moved: Progress | None = None
        """The sum of all sessions when it was looked at last."""

    @property
    def goes_on(self) -> bool:
        """Whether another session follows one that was lost.

        None does where none began, and what a measurement from memory went on with would be another one.
        A pipe gives its bytes, and takes them, once.
        """
        request = self.request
        measures = request.dry_run or request.from_memory or request.route.pipe
        return self.started_s is not None and not measures and request.patience_s > 0.0

    def presume(self, limits: Limits) -> None:
        """Has limits count for plan and copy that nobody gave for it."""
        self.valve.presume(limits)
        if any(span.most_bps is not None for span in limits.spans):
            self.request = self.service.request = self.request._replace(limits=limits)
            self.resuming = Resuming(self.request)

    def logged(self) -> CopyLog:
        """The copy as the log of this host has it."""
        request, decided = self.request, self.plan
        job = FarJob(
            direction=request.route.direction,
            sources=request.route.sources,
            destination=request.route.destination,
            from_memory=request.from_memory,
            memory_bytes=request.memory_bytes,
            delete=request.delete is not None,
            dry_run=request.dry_run,
            encrypt=request.encrypt if decided is None else decided.encrypt,
            other=request.route.origin,
        )
        return CopyLog(msgspec.json.encode(job), os.fsencode(request.route.host), self.id)

    def log(self, outcome: Result, error: str | None) -> None:
        """Logs the outcome. Raises Refused where the policy requires that and no log takes it."""
        if self.outcome is not None:
            moved = self.outcome.bytes_placed, self.outcome.files
        else:
            moved = (self.moved.bytes_placed, self.moved.files_done) if self.moved else (0, 0)
        account = FarAccount(
            bytes=moved[0],
            files=moved[1],
            removed=self._removed(),
            digest_sum=self.outcome.digest_sum if self.outcome else None,
            error=None if error is None else printable(os.fsencode(error)),
            cancelled=outcome == "interrupted",
        )
        self.logged().end(
            self.policy,
            outcome,
            msgspec.json.encode(account),
            elapsed_s=time.monotonic() - self.began_s,
            digests=self.digests if self.digests is not None and self._digests() else None,
        )

    def _removed(self) -> int:
        if self.outcome is not None:
            return self.outcome.removal.removed if self.outcome.removal else 0
        return self.moved.removed if self.moved else 0

    def record(self, error: str | None, flags: list[str]) -> Record:
        """The record of all that has come so far."""
        near = HostLimits.here()
        made = Record(
            id=self.id,
            kind="transfer",
            started_at=self.started_at,
            command=self.request.command,
            host=self.request.route.host.rpartition("@")[2],
            origin=self.request.route.origin and self.request.route.origin.rpartition("@")[2],
            near_host=os.uname().nodename,
            address=None if self.far is None else address_of(self.far, self.logins),
            environment=record.environment(
                near,
                self.far.limits if self.far else None,
                self.origin.limits if self.origin else None,
            ),
            connect_s=self.connect_s,
            rtt_s=self.far.rtt_s if self.far else None,
            plan=self.plan,
            outcome=self.outcome,
            verification=self.verification,
            filters=[printable(rule) for rule in self.request.filters],
            carried=self._carried(),
            resumed=self.resumed,
            limited=self.valve.to_record(),
            sweep=self.request.sweep,
            near_cpu_busy_fraction=self.near_cpu_busy_fraction,
            digests=self._digests(),
            link_stats=self.link_stats,
            error=error,
            flags=flags + self._flags(),
        )
        made = self.service.record(made)
        if self.last_outcome is None:
            return made
        # Loaded at the end of a copy.
        from howdah.transfer import attributing  # noqa: PLC0415

        return msgspec.structs.replace(
            made, bottleneck=attributing.found(made, self.last_outcome, self.request)
        )

    def _carried(self) -> Carried | None:
        if self.outcome is None or self.plan is None:
            return None
        from howdah.values.carried import carried  # noqa: PLC0415, when all has been moved

        paced = self.plan.pacing_bps is not None or self.outcome.congestion_control == HOLD
        return carried(self.outcome, self.far.rtt_s if self.far else None, paced=paced)

    def _digests(self) -> str | None:
        """The file of digests, if it holds any; an empty one is removed."""
        if self.digests is None or not self.digests.exists():
            return None
        if not self.digests.stat().st_size:
            self.digests.unlink()
            return None
        return record.printable_command([str(self.digests)])[0]

    def _flags(self) -> list[str]:
        spoilt = self.link_stats is not None and self.link_stats["lateness"]["spoilt"]
        return ["dry-run"] * self.request.dry_run + ["lateness"] * spoilt
