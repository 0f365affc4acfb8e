"""The one flow of a transfer: ssh, hello, plan, start, watch, result, record.

Whatever happens, a Record comes out: with an Outcome, or with the error in one line. What differs by the kind
of the path is in its service (``howdah.transfer.service``).
"""

import contextlib
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from howdah import HowdahError, decoding, interrupt
from howdah._native import Policy, Quota, Refused, format_duration
from howdah.archive import Archive
from howdah.arguments import BadArgument
from howdah.remote import hosts
from howdah.remote.far import TICK_S, ConnectionLost, StaleHello, StaleLogin, judged
from howdah.remote.lab_link import link_of_a_lab
from howdah.remote.messages import Job, Progress
from howdah.text import of_error
from howdah.transfer import incomplete, sources
from howdah.transfer.again import Patience, for_another, unanswered
from howdah.transfer.display import Display
from howdah.transfer.ends import FarEnds, ahead_after
from howdah.transfer.pilot import Pilot, Schedule
from howdah.transfer.planning import address_of, job_of, path_of, plan_of
from howdah.transfer.request import Request
from howdah.transfer.resuming import Recollection
from howdah.transfer.service import Underway
from howdah.transfer.state import Result, State
from howdah.values import plan, record
from howdah.values.limit import now_in_words
from howdah.values.outcome import Outcome
from howdah.values.path import Path as KnownPath
from howdah.values.plan import Plan
from howdah.values.record import Record

if TYPE_CHECKING:
    from howdah.transfer.rereading import Rereading

CONNECTING_TICK_S = 0.01
"""The time between two looks at a copy whose streams are still connecting, in its first second."""


class Done(NamedTuple):
    """The result of a transfer."""

    record: Record
    file: Path | None
    """The file that has the record; None for a dry run, or when nothing was begun."""
    exit_code: int
    archive_error: str | None
    """The reason why the record could not be kept; None: it was, or was not to be."""
    stopped: BaseException | None = None
    """What is to be raised again: a stop from outside (a signal, Ctrl-C, a cancelled task), or an error that
    is not of a copy. The record is made all the same."""


def run(request: Request, display: Display, archive: Archive) -> Done:
    """Carries the request out. Never raises HowdahError: what went wrong is in the record."""
    run = State(request)
    with run.outside:
        done = _carried_out(run, display, archive)
        unlogged = run.outside.ended(done.record)
    if unlogged is not None:
        display.far_says(f"howdah: the log lacks the rest: {unlogged}\n")
    return done


def _carried_out(run: State, display: Display, archive: Archive) -> Done:
    request = run.request
    error, flags, exit_code = None, [], 0
    stopped: BaseException | None = None
    outcome: Result = "complete"
    try:
        display = run.outside.begin(display)
        sources.check(request.route)
        run.rereading = _rereading(run, archive)
        with run.service:
            _transfer(run, display, archive)
        if run.rereading is not None and run.outcome is not None:
            run.verification = run.rereading.reread(run.digests, run.outcome, display)
            run.rereading.check(run.verification)
        if run.outcome is not None and (short := incomplete.in_words(request, run.outcome)) is not None:
            error, exit_code, outcome = short, 1, "incomplete"
    except HowdahError as problem:
        error, exit_code = str(problem), 1
        if isinstance(problem, BadArgument) and request.spell is not None:
            error = problem.spelt(request.spell)
        if request.route.pipe and run.started_s is not None:
            moved = run.moved is not None and run.moved.bytes_done > 0
            error = incomplete.ended_early(request.route, error, moved=moved)
        outcome = "refused" if isinstance(problem, Refused) else "failed"
    except interrupt.STOPS as stop:
        error, flags, stopped = str(stop) or "interrupted by SIGINT", ["interrupted"], stop
        outcome = "interrupted"
        exit_code = 128 + (stop.number if isinstance(stop, interrupt.Interrupted) else signal.SIGINT)
    except BaseException as problem:
        # A bug, or an error of the program whose display it is: the record and the logs come all the same.
        error, exit_code, stopped = of_error(problem), 1, problem
        outcome = "failed"
    finally:
        # All has been shown.
        with contextlib.suppress(OSError):
            display.close()
    try:
        run.log(outcome, error)
    except Refused as problem:
        error, exit_code = error or str(problem), exit_code or 1
    made = run.record(error, flags)
    if run.unjoined is not None and made.outcome is not None:
        warnings = [*made.outcome.warnings, run.unjoined]
        made = msgspec.structs.replace(made, outcome=msgspec.structs.replace(made.outcome, warnings=warnings))
    if run.plan is None or request.dry_run:
        return Done(made, None, exit_code, None, stopped)
    try:
        return Done(made, archive.save(made), exit_code, None, stopped)
    except HowdahError as problem:
        return Done(made, None, exit_code, str(problem), stopped)


def _rereading(run: State, archive: Archive) -> "Rereading | None":
    """What follows the copy; None: nothing. Raises HowdahError for what cannot be.

    What follows needs the digests, which the archive keeps.
    """
    request = run.request
    if not request.verify and request.manifest is None:
        return None
    archive.check_room(run.id)
    # Other copies do not load it.
    from howdah.transfer.rereading import Rereading  # noqa: PLC0415

    return Rereading(request)


def _transfer(run: State, display: Display, archive: Archive) -> None:
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
        except StaleHello:
            continue
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


def _pause(run: State, display: Display, patience: Patience, why: str) -> None:
    """Waits for the next session's turn. Raises HowdahError when the patience is over."""
    until_s = time.monotonic() + patience.pause_s()
    while (now_s := time.monotonic()) < until_s:
        left_s = patience.left_s(now_s)
        if not left_s:
            tried = format_duration(run.request.patience_s)
            raise HowdahError(f"{_first_clause(why)}; tried again for {tried}, the same command goes on")
        display.waiting(f"{_first_clause(why)}; {for_another(left_s)}")
        interrupt.check()
        time.sleep(TICK_S)


def _first_clause(why: str) -> str:
    return why.partition(";")[0]


def _session(run: State, display: Display, archive: Archive, handed: Plan | None) -> None:
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
        detour_port = run.detour.begin(ends.only, underway)
        near_ports = _near_ports(run, ends) if detour_port is not None else None
        job = msgspec.structs.replace(
            job_of(request, underway, own_digests, detour_port, near_ports), limit=run.valve.begin()
        )
        processors = record.ProcessorTime.now()
        began_s = time.monotonic()
        _start(run, ends, job, underway.plan if again else run.resuming.begun(underway))
        run.outside.read_digests(own_digests)
        run.started_s = run.started_s or began_s
        try:
            _watch(run, ends, display, run.service.pilot(underway, request.pilot or Schedule(underway.plan)))
            outcome = _outcome(request, ends)
        except ConnectionLost:
            # Where what ssh carried has failed and not ssh, the login is as good as before.
            keep_login = run.goes_on and all(login.is_kept() for login in ends.logins)
            raise
        finally:
            _end_digests(run, own_digests)
        run.last_outcome = outcome
        run.outcome = run.earlier.and_last(outcome, began_s - run.started_s)
        run.near_cpu_busy_fraction = processors.busy_fraction()
        run.link_stats = run.close_account()
        finished = True
        ends.release(ahead_after(request, underway, outcome))
    except HowdahError as error:
        keep_login = keep_login or isinstance(error, StaleHello)
        raise run.detour.explained(error) from None
    finally:
        run.detour.close()
        run.resumed = run.resuming.ended() or run.resumed
        if ends is not None:
            run.logins = ends.logins
            if not finished:
                ends.end(keep_login=keep_login)


def _start(run: State, ends: FarEnds, job: Job, decided: Plan) -> None:
    """Gives the far ends their job, after that of the session before."""
    ends.start(job, decided, run.session)
    run.session = ends.session


def _greeted(run: State, ends: FarEnds, display: Display, archive: Archive, handed: Plan | None) -> Underway:
    """Waits for the far end's hello; makes the plan, unless this is a later session, which has it."""
    if run.plan is None and run.request.limits is None and run.request.sweep is None:
        run.presume(hosts.limits(*(name for login in ends.logins for name in login.names)))
    request, kind = run.request, run.service
    data_address = ends.data_address
    recollection = None
    if run.plan is None:
        if handed is None and request.sweep is None and kind.remembers:
            recollection = Recollection(request, archive, run.resuming.prepare)
        kind.prepare(data_address)
    greeted = ends.greet(display)
    if run.plan is None and run.rereading is not None:
        # Only now: what a host is asked may have to be brought to it.
        run.rereading.ask()
    if run.plan is None and sources.has_patterns(request.route):
        listed = request.names is not None
        request = request._replace(route=sources.expanded(request.route, listed, ends.only, display))
    far, path = greeted.far, path_of(request, greeted)
    if run.plan is None:
        if recollection is not None:
            memory = recollection.of(far.rtt_s, address_of(far, ends.logins))
            path = msgspec.structs.replace(path, memory=memory)
        run.far, run.origin = greeted
        run.connect_s = request.before_s + time.monotonic() - run.began_s
        with judged(ends.sessions):
            decided = plan_of(request, kind, path, handed)
            ends.check(decided)
        run.plan = run.resuming.planned(decided, path, kind.others_present)
        run.request = request
        _begin_at_site(run, path)
        display.planned(run.plan, far)
        # Where something follows the copy, the archive has already shown that it has room.
        keeps = not request.dry_run and (run.rereading is not None or _keeps(run, display, archive))
        # From another host they would come over a path that may be slow, so only where they are asked for.
        asked = request.verify or request.manifest is not None or request.log_file is not None
        wanted = request.route.origin is None or asked
        if wanted and keeps and not request.from_memory:
            run.digests = archive.new_digests(run.id)
            if run.digests is not None:
                run.outside.hold(run.digests)
    return Underway(run.plan, path, far, data_address)


def _keeps(run: State, display: Display, archive: Archive) -> bool:
    """Whether the archive can keep anything of the copy. Says so where it cannot."""
    try:
        archive.check_room(run.id)
    except HowdahError as problem:
        display.far_says(f"howdah: warning: {problem}\n")
        return False
    return True


def _begin_at_site(run: State, path: KnownPath) -> None:
    """Begins the account that the site keeps of a copy. Raises Refused for a copy that it forbids."""
    if run.policy is None or run.plan is None:
        return
    run.policy.check_plaintext(encrypt=run.plan.encrypt)
    if not run.request.dry_run and run.request.route.origin is None:
        run.quota = Quota(run.policy)
        run.quota.begin(path.bytes_total)
    run.logged().begin(run.policy)


def _outcome(request: Request, ends: FarEnds) -> Outcome:
    outcome = decoding.from_json(_result(ends), Outcome)
    if request.route.origin is None:
        return outcome
    # Loaded when all has been moved.
    from howdah.remote.meeting import with_its_begin  # noqa: PLC0415

    return with_its_begin(outcome)


def _result(ends: FarEnds) -> bytes:
    try:
        return ends.session.result()
    except HowdahError as error:
        if ends.session.lost_connection():
            raise ConnectionLost(str(error)) from None
        raise


def _end_digests(run: State, own: Path | None) -> None:
    """Has the digests of a session that has ended be among those before it."""
    run.outside.read_digests(None)
    if run.digests is not None and own != run.digests:
        run.unjoined = _join_digests(run.digests, own) or run.unjoined
        # The list is another file now.
        run.outside.hold(run.digests)


def _join_digests(all_digests: Path | None, own: Path | None) -> str | None:
    """Adds the digests of a later session to those before it. Of a file that both name the later counts.

    Returns why they are not added, if they are not: that fails no copy.
    """
    if all_digests is None or own is None or own == all_digests or not own.exists():
        return None
    # Whoever reads the list meanwhile, and who finds it after a crash, has the one or the other whole.
    joined = all_digests.with_suffix(".joined")
    try:
        with own.open("rb") as lines:
            named = {line.partition(b"  ")[2] for line in lines}
        with joined.open("wb") as file:
            joined.chmod(0o600)
            with all_digests.open("rb") as earlier:
                file.writelines(line for line in earlier if line.partition(b"  ")[2] not in named)
            with own.open("rb") as later:
                shutil.copyfileobj(later, file)
        joined.replace(all_digests)
        own.unlink()
    except OSError as problem:
        joined.unlink(missing_ok=True)
        own.unlink(missing_ok=True)
        return f"the digests could not all be kept: {problem.strerror}"
    return None


def _watch(run: State, ends: FarEnds, display: Display, pilot: Pilot) -> None:
    """Shows and steers the transfer until its session ends."""
    host = " or ".join(login.host.rpartition("@")[2] for login in ends.logins)
    # What the pilot decides before the first byte is to count before the streams have connected.
    wait_s, shown_s = 0.0, -TICK_S
    while not ends.session.wait(wait_s):
        interrupt.check()
        now = _progress(run, ends)
        connecting = now.phase == "connecting" and now.elapsed_s < 1
        wait_s = CONNECTING_TICK_S if connecting else TICK_S
        if not connecting or now.elapsed_s >= shown_s + TICK_S:
            _show(run, display, now)
            shown_s = now.elapsed_s
        if now.unanswered_s is not None:
            display.waiting(unanswered(host, now.unanswered_s, run.request.patience_s))
        display.far_says(ends.new_stderr())
        if (limit := run.valve.news()) is not None:
            ends.session.limit(msgspec.json.encode(limit))
            display.far_says(f"howdah: {now_in_words(limit.most_bps, paused=limit.paused)}\n")
        if (news := run.service.news()) is not None:
            display.far_says(f"howdah: {news}\n")
        if run.valve.paused:
            display.waiting(f"paused; continue with: howdah continue {run.id.rpartition('-')[2]}")
        steers = pilot
        held = now.latest is not None and now.latest.held_by_rule
        if run.service.judges and (held or run.valve.applies):
            steers = run.service.rest
        run.detour.tell(now, display.far_says)
        if (steering := run.detour.steering(now, steers, run.plan)) is not None:
            ends.session.steer(msgspec.json.encode(steering))
    last = _progress(run, ends)
    _show(run, display, last)
    run.detour.tell(last, display.far_says)
    display.far_says(ends.new_stderr(to_end=True))


def _show(run: State, display: Display, now: Progress) -> None:
    since_s = time.monotonic() - (run.started_s or 0.0)
    run.moved = run.earlier.and_now(now, since_s)
    if run.quota is not None:
        # To a host, zeros are zeros, however they came.
        run.quota.moved(run.moved.bytes_placed, _known_bytes(run.request, run.moved))
    run.valve.look(run.moved)
    if not run.valve.paused:
        display.progress(run.moved)


def _known_bytes(request: Request, now: Progress) -> int:
    """The bytes that the copy is known to move; a receiver knows them all once everything was offered."""
    if request.route.direction == "pull" and now.scan_complete and now.bytes_to_place is not None:
        return max(now.bytes_to_place, now.bytes_placed)
    return now.bytes_placed


def _progress(run: State, ends: FarEnds) -> Progress:
    """The progress of this session, noted for what may come after it."""
    now = decoding.from_json(ends.session.progress(), Progress)
    # A pause is no time in which a byte was awaited.
    if run.valve.paused or now.bytes_placed > (run.last.bytes_placed if run.last else 0):
        run.moved_s = time.monotonic()
    run.last = now
    return now


def _near_ports(run: State, ends: FarEnds) -> tuple[int, int] | None:
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
