"""The one flow of a transfer: ssh, hello, plan, start, watch, result, record.

Whatever happens, a Record comes out: with an Outcome, or with the error in one line. What differs by the kind
of the path is in its service (``howdah.transfer.service``).
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from howdah import HowdahError, interrupt
from howdah._native import CopyLog, Policy, Quota, Refused, format_duration
from howdah.archive import Archive
from howdah.remote import hosts
from howdah.remote.far import TICK_S, ConnectionLost, StaleLogin
from howdah.remote.lab_link import link_of_a_lab
from howdah.remote.messages import FarAccount, FarHello, FarJob, Job, Progress
from howdah.remote.ssh import Login
from howdah.text import printable
from howdah.transfer import globs, incomplete, sources
from howdah.transfer.again import Earlier, Patience
from howdah.transfer.detour import Detour
from howdah.transfer.display import Display
from howdah.transfer.ends import FarEnds, Greeted
from howdah.transfer.outside import Outside
from howdah.transfer.pilot import Pilot, Schedule
from howdah.transfer.recollection import Recollection
from howdah.transfer.request import Request
from howdah.transfer.resuming import Resuming
from howdah.transfer.service import Service, Underway, service
from howdah.transfer.valve import Valve
from howdah.values import plan, record
from howdah.values.limit import now_in_words
from howdah.values.memory import Carried, Resumed
from howdah.values.outcome import Outcome
from howdah.values.path import Path as KnownPath
from howdah.values.plan import Plan
from howdah.values.record import HostLimits, Record
from howdah.values.verification import Verification

if TYPE_CHECKING:
    from howdah.transfer.rereading import Rereading

STDIN, STDOUT = 0, 1
Result = Literal["complete", "incomplete", "refused", "failed", "interrupted"]


class Done(NamedTuple):
    """The result of a transfer."""

    record: Record
    file: Path | None
    """The file that holds the record; None for a dry run, or when nothing was begun."""
    exit_code: int
    archive_error: str | None
    """The reason why the record could not be kept; None: it was, or was not to be."""
    stopped: BaseException | None = None
    """The stop from outside: a signal, Ctrl-C or a cancelled task. The record is made all the same."""


class _Run:
    """The state so far, which becomes the record however far the transfer came."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.service = service(request)
        self.started_at = datetime.now(UTC)
        self.began_s = time.monotonic()
        self.id = record.new_id(self.started_at)
        self.digests: Path | None = None
        self.far: FarHello | None = None
        self.origin: FarHello | None = None
        self.plan: Plan | None = None
        self.outcome: Outcome | None = None
        self.last_outcome: Outcome | None = None
        """That of the last session alone."""
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
        self.last: Progress | None = None
        """The latest session as it was last seen."""
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
            moved = self.outcome.bytes, self.outcome.files
        else:
            moved = (self.moved.bytes_done, self.moved.files_done) if self.moved else (0, 0)
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
        near = HostLimits.here()
        made = Record(
            id=self.id,
            kind="transfer",
            started_at=self.started_at,
            command=self.request.command,
            host=self.request.route.host.rpartition("@")[2],
            origin=self.request.route.origin and self.request.route.origin.rpartition("@")[2],
            near_host=os.uname().nodename,
            address=None if self.far is None else _address(self.far, self.logins),
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

        return carried(
            self.outcome, self.far.rtt_s if self.far else None, paced=self.plan.pacing_bps is not None
        )

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


def run(request: Request, display: Display, archive: Archive) -> Done:
    """Carries the request out. Never raises HowdahError: what went wrong is in the record."""
    run = _Run(request)
    with run.outside:
        done = _carried_out(run, display, archive)
        unlogged = run.outside.ended(done.record)
    if unlogged is not None:
        display.far_says(f"howdah: --log-file: the rest is missing: {unlogged}\n")
    return done


def _carried_out(run: _Run, display: Display, archive: Archive) -> Done:
    request = run.request
    error, flags, exit_code, stopped = None, [], 0, None
    outcome: Result = "complete"
    try:
        display = run.outside.begin(display)
        sources.check(request.route)
        after = _after(request)
        with run.service:
            _transfer(run, display, archive)
        if after is not None and run.outcome is not None:
            run.verification = after.reread(run.digests, run.outcome, display)
            after.check(run.verification)
        if run.outcome is not None and (short := incomplete.in_words(request, run.outcome)) is not None:
            error, exit_code, outcome = short, 1, "incomplete"
    except HowdahError as problem:
        error, exit_code = str(problem), 1
        if request.route.pipe and run.started_s is not None:
            # Other copies do not load it.
            from howdah.transfer import piped  # noqa: PLC0415

            error = piped.ended_early(request.route, error)
        outcome = "refused" if isinstance(problem, Refused) else "failed"
    except interrupt.STOPS as stop:
        error, flags, stopped = str(stop) or "interrupted by SIGINT", ["interrupted"], stop
        outcome = "interrupted"
        exit_code = 128 + (stop.number if isinstance(stop, interrupt.Interrupted) else signal.SIGINT)
    finally:
        display.close()
    try:
        run.log(outcome, error)
    except Refused as problem:
        error, exit_code = error or str(problem), exit_code or 1
    made = run.record(error, flags)
    if run.plan is None or request.dry_run:
        return Done(made, None, exit_code, None, stopped)
    try:
        return Done(made, archive.save(made), exit_code, None, stopped)
    except HowdahError as problem:
        return Done(made, None, exit_code or 1, str(problem), stopped)


def _after(request: Request) -> "Rereading | None":
    """What follows the copy; None: nothing. Raises HowdahError for what cannot be."""
    if not request.verify and request.manifest is None:
        return None
    # Other copies do not load it.
    from howdah.transfer.rereading import Rereading  # noqa: PLC0415

    return Rereading(request)


def plan_only(request: Request, far: FarHello) -> Plan:
    """The plan that the request would be carried out by, and nothing is done. Raises HowdahError for none.

    What is sent at once of what is remembered is chosen when a copy begins, and is no part of it.
    """
    path = _path(request, Greeted(far))
    if request.path != "guaranteed":
        memory = Recollection(request, Archive()).of(far.rtt_s, None)
        path = msgspec.structs.replace(path, memory=memory)
    with service(request) as kind:
        return _plan(request, kind, path)


def _transfer(run: _Run, display: Display, archive: Archive) -> None:
    """Carries the request out, in as many sessions as it takes."""
    request = run.request
    run.policy = Policy()
    run.policy.check_plaintext(encrypt=request.encrypt)
    receives = request.route.direction == "pull"
    run.policy.check_delete(delete=receives and request.delete is not None and not request.dry_run)
    handed = plan.load(request.plan_file) if request.plan_file else request.plan
    patience = Patience(request.patience_s)
    while True:
        began_s = time.monotonic()
        try:
            _session(run, display, archive, handed)
            return
        except StaleLogin as lost:
            display.waiting(f"{lost}; logging in again")
        except ConnectionLost as lost:
            ended_s = time.monotonic()
            if not run.goes_on:
                raise
            patience.lost(began_s, run.moved_s, ended_s)
            try:
                _pause(run, display, patience, str(lost))
            except BaseException:
                for login in run.logins:
                    login.end()
                raise
            if run.last is not None:
                run.earlier.add(run.last, time.monotonic() - ended_s)


def _pause(run: _Run, display: Display, patience: Patience, why: str) -> None:
    """Waits for the next session's turn. Raises HowdahError when the patience is over."""
    until_s = time.monotonic() + patience.pause_s()
    while (now_s := time.monotonic()) < until_s:
        left_s = patience.left_s(now_s)
        if not left_s:
            tried = format_duration(run.request.patience_s)
            raise HowdahError(f"{_first_clause(why)}; tried again for {tried}, the same command goes on")
        display.waiting(f"{_first_clause(why)}; trying again for another {_clock(left_s)}")
        interrupt.check()
        time.sleep(TICK_S)


def _first_clause(why: str) -> str:
    return why.partition(";")[0]


def _clock(duration_s: float) -> str:
    minutes, seconds = divmod(round(duration_s), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _session(run: _Run, display: Display, archive: Archive, handed: Plan | None) -> None:
    """One session with one far end. Raises ConnectionLost where another one may go on."""
    request = run.request
    again = run.started_s is not None
    ends, finished, keep_login = None, False, False
    run.last = run.moved_s = None
    try:
        with interrupt.Held():
            # A password is asked for where somebody can see that it is.
            ends = FarEnds(request, asks=not again or sys.stderr.isatty())
            ends.begin()
            # Before the first data, and while ssh connects.
            run.close_account = run.close_account or link_of_a_lab()
        underway = _greeted(run, ends, display, archive, handed)
        request = run.request
        own_digests = run.digests
        if again and run.digests is not None:
            own_digests = run.digests.with_suffix(".again")
        detour_port = run.detour.begin(ends.only, underway.far, underway.path.bytes_total)
        near_ports = _near_ports(run, ends) if detour_port is not None else None
        job = _job(request, underway, own_digests, detour_port, near_ports)
        job = msgspec.structs.replace(job, limit=run.valve.begin())
        processors = record.ProcessorTime.now()
        began_s = time.monotonic()
        ends.start(job, underway.plan if again else run.resuming.begun(underway))
        run.outside.read_digests(own_digests)
        run.started_s = run.started_s or began_s
        try:
            _watch(run, ends, display, run.service.pilot(underway, request.pilot or Schedule(underway.plan)))
            outcome = msgspec.json.decode(_result(ends), type=Outcome)
        except ConnectionLost:
            # Where what ssh carried has failed and not ssh, the login is as good as before.
            keep_login = run.goes_on and all(login.is_kept() for login in ends.logins)
            raise
        finally:
            run.outside.read_digests(None)
            _join_digests(run.digests, own_digests)
        run.last_outcome = outcome
        run.outcome = run.earlier.and_last(outcome, began_s - run.started_s)
        run.near_cpu_busy_fraction = processors.busy_fraction()
        run.link_stats = run.close_account()
        finished = True
        ends.release()
    except HowdahError as error:
        raise run.detour.explained(error) from None
    finally:
        run.detour.close()
        run.resumed = run.resuming.ended() or run.resumed
        if ends is not None:
            run.logins = ends.logins
            if not finished:
                ends.end(keep_login=keep_login)


def _greeted(run: _Run, ends: FarEnds, display: Display, archive: Archive, handed: Plan | None) -> Underway:
    """Hears the far end's hello; makes the plan, unless this is a later session, which has it."""
    request, kind = run.request, run.service
    data_address = ends.data_address
    recollection = None
    if run.plan is None:
        if handed is None and request.sweep is None and request.path != "guaranteed":
            recollection = Recollection(request, archive, run.resuming.prepare)
        kind.prepare(data_address)
    greeted = ends.greet(display)
    if run.plan is None and globs.has_any(request.route):
        listed = request.names is not None
        request = request._replace(route=globs.expanded(request.route, listed, ends.only, display))
        run.request = request
    far, path = greeted.far, _path(request, greeted)
    if run.plan is None:
        if recollection is not None:
            memory = recollection.of(far.rtt_s, _address(far, ends.logins))
            path = msgspec.structs.replace(path, memory=memory)
        run.far, run.origin = greeted
        run.connect_s = request.before_s + time.monotonic() - run.began_s
        run.plan = run.resuming.planned(_plan(request, kind, path, handed), path, kind.others_present)
        _begin_at_site(run, path)
        if request.limits is None and request.sweep is None:
            run.valve.presume(hosts.limits(*(name for login in ends.logins for name in login.names)))
        display.planned(run.plan, far)
        # From another host they would come over a path that may be slow, so only where they are asked for.
        asked = request.verify or request.manifest is not None or request.log_file is not None
        wanted = request.route.origin is None or asked
        if wanted and not request.dry_run and not request.from_memory:
            run.digests = archive.new_digests(run.id)
    return Underway(run.plan, path, far, data_address)


def _begin_at_site(run: _Run, path: KnownPath) -> None:
    """Begins the account that the site keeps of a copy. Raises Refused for a copy that it forbids."""
    if run.policy is None or run.plan is None:
        return
    run.policy.check_plaintext(encrypt=run.plan.encrypt)
    if not run.request.dry_run and run.request.route.origin is None:
        run.quota = Quota(run.policy)
        run.quota.begin(path.bytes_total)
    run.logged().begin(run.policy)


def _result(ends: FarEnds) -> bytes:
    try:
        return ends.session.result()
    except HowdahError as error:
        if ends.session.lost_connection():
            raise ConnectionLost(str(error)) from None
        raise


def _join_digests(all_digests: Path | None, own: Path | None) -> None:
    """Adds the digests of a later session to those before it. Of a file that both name the later counts."""
    if all_digests is None or own is None or own == all_digests or not own.exists():
        return
    later = own.read_bytes().splitlines(keepends=True)
    named = {line.partition(b"  ")[2] for line in later}
    earlier = all_digests.read_bytes().splitlines(keepends=True)
    kept = [line for line in earlier if line.partition(b"  ")[2] not in named]
    with all_digests.open("wb") as file:
        file.writelines(kept + later)
    own.unlink()


def _watch(run: _Run, ends: FarEnds, display: Display, pilot: Pilot) -> None:
    """Shows and steers the transfer until its session ends."""
    host = " or ".join(login.host.rpartition("@")[2] for login in ends.logins)
    while not ends.session.wait(TICK_S):
        interrupt.check()
        now = _progress(run, ends)
        _show(run, display, now)
        if now.unanswered_s is not None:
            left_s = max(0.0, run.request.patience_s - now.unanswered_s)
            silent = f"no answer from {host} for {_clock(now.unanswered_s)}"
            display.waiting(f"{silent}; trying again for another {_clock(left_s)}")
        display.far_says(ends.new_stderr())
        if (limit := run.valve.news()) is not None:
            ends.session.limit(msgspec.json.encode(limit))
            display.far_says(f"howdah: {now_in_words(limit.most_bps, paused=limit.paused)}\n")
        if run.valve.paused:
            display.waiting(f"paused; continue with: howdah continue {run.id.rpartition('-')[2]}")
        steers: Pilot = _stays if run.service.judges and run.valve.holds else pilot
        if (steering := run.detour.steering(now, display, steers, run.plan)) is not None:
            ends.session.steer(msgspec.json.encode(steering))
    _show(run, display, _progress(run, ends))
    display.far_says(ends.new_stderr(to_end=True))


def _stays(now: Progress) -> None:
    """The pilot of a copy that a limit holds: all stays as it is."""


def _show(run: _Run, display: Display, now: Progress) -> None:
    since_s = time.monotonic() - (run.started_s or 0.0)
    run.moved = run.earlier.and_now(now, since_s)
    if run.quota is not None:
        run.quota.moved(run.moved.bytes_done, _known_bytes(run.request, run.moved))
    run.valve.look(run.moved)
    if not run.valve.paused:
        display.progress(run.moved)


def _known_bytes(request: Request, now: Progress) -> int:
    """The bytes that the copy is known to move; a receiver knows them all once everything was offered."""
    if request.route.direction == "pull" and now.scan_complete and now.bytes_total is not None:
        return max(now.bytes_total, now.bytes_done)
    return now.bytes_done


def _progress(run: _Run, ends: FarEnds) -> Progress:
    """The progress of this session, noted for what may come after it."""
    now = msgspec.json.decode(ends.session.progress(), type=Progress)
    # A pause is no time in which a byte was awaited.
    if run.valve.paused or now.bytes_done > (run.last.bytes_done if run.last else 0):
        run.moved_s = time.monotonic()
    run.last = now
    return now


def _plan(request: Request, kind: Service, path: KnownPath, handed: Plan | None = None) -> Plan:
    decided = handed or kind.plan(path)
    if not request.encrypt:
        decided = decided.given("encrypt", False, "--plaintext", "Plaintext streams")
    chosen = None
    for choice in request.given:
        if choice.key == "congestion_control":
            chosen = str(choice.value)
        else:
            decided = decided.given(*choice)
    named = chosen is not None or any(change.congestion_control for change in decided.changes)
    if not named and decided.congestion_control in (None, *path.sender.congestion_controls_available):
        return decided
    # Only here: a copy whose control is there already does not load it.
    from howdah.transfer import congestion  # noqa: PLC0415

    route = request.route
    sender = congestion.Sender(path.sender, route.origin if route.direction == "push" else route.host)
    decided = congestion.scheduled(decided, sender, dry_run=request.dry_run)
    if chosen is None:
        return congestion.brought(decided, sender, dry_run=request.dry_run)
    return congestion.given(decided, chosen, sender, dry_run=request.dry_run)


def _path(request: Request, greeted: Greeted) -> KnownPath:
    (far, origin), route = greeted, request.route
    near = HostLimits.here() if origin is None else origin.limits
    pushed = route.direction == "push"
    ends = (near, far.limits) if pushed else (far.limits, near)
    source = "the far kernel, on the ssh connection" if origin is None else f"{route.origin} to {route.host}"
    return KnownPath(
        sender=ends[0],
        receiver=ends[1],
        rtt_s=far.rtt_s,
        rtt_source="unknown" if far.rtt_s is None else source,
        kind=request.path,
        bytes_total=request.memory_bytes if request.from_memory else sources.size(request.route),
        encrypt=request.encrypt,
        host=request.route.host.rpartition("@")[2],
        link=record.lab_link(),
        programs_loadable=pushed and origin is None and near.privileged,
    )


def _address(far: FarHello, logins: Sequence[Login]) -> str | None:
    """The far host's own address on the ssh connection; None where that did not go straight to it."""
    straight = len(logins) == 1 and logins[0].data_address is not None
    return far.addresses[0] if far.addresses and straight else None


def _near_ports(run: _Run, ends: FarEnds) -> tuple[int, int] | None:
    """The ports of which this host opens one if the far end is to connect; None: any.

    The range that was asked for is that of the far end. Where the policy of this host has another, it counts.
    """
    asked = ends.only.ports
    if run.policy is None:
        return asked
    try:
        return run.policy.ports_of(asked)
    except Refused:
        return run.policy.ports_of(None)


def _job(
    request: Request,
    underway: Underway,
    digests: Path | None,
    detour_port: int | None,
    near_ports: tuple[int, int] | None,
) -> Job:
    route = request.route
    return Job(
        direction=route.direction,
        sources=route.sources,
        destination=route.destination,
        destination_is_folder=route.destination_is_folder,
        filters=list(request.filters),
        walk=request.walk,
        skip=request.skip,
        delete=request.delete is not None,
        delete_excluded=request.delete is not None and request.delete.excluded,
        max_delete=request.delete.most if request.delete else None,
        keep=request.keep,
        names=request.names.path if request.names else None,
        names_nul_separated=request.names is not None and request.names.nul_separated,
        memory_bytes=request.memory_bytes,
        memory_s=request.memory_s,
        pipe=None if not route.pipe else STDIN if route.direction == "push" else STDOUT,
        dry_run=request.dry_run,
        encrypt=underway.plan.encrypt,
        sync=request.sync,
        data_address=underway.data_address,
        detour_port=detour_port,
        near_ports=near_ports,
        digests=os.fsencode(digests) if digests else None,
        sample_every_s=request.sample_every_s,
        patience_s=request.patience_s,
    )
