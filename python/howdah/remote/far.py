"""The far end until its hello has come."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from howdah import HowdahError, decoding, document, interrupt
from howdah._native import format_duration
from howdah.remote import standby
from howdah.remote.answers import FOREIGN, ended, may_pass, not_howdah, not_started, turned_away
from howdah.remote.far_command import ANEW, MISSING, brought
from howdah.remote.messages import FarHello
from howdah.remote.standby import FarSession, take
from howdah.text import INSTALL

if TYPE_CHECKING:
    from howdah.remote.bringing import Agree

TICK_S = 0.1
"""The time between two looks at progress; also the longest that a signal waits for its handler."""

_TURNS_S = 60.0
"""How long a login is tried at a host that takes none at the moment, if the patience is not shorter."""
_TURN_S = 1.0
_LONGEST_TURN_S = 8.0
"""The first pause between two such tries, and the longest one."""

CANCEL_S = 2.0
"""The longest that both ends take to stop after a cancel."""

_PROTOCOL = "the other end speaks protocol "
"""The beginning of an error about the version (crates/wire/src/frame.rs)."""
_SAID = "far end: "
"""The beginning of an error that a far end told the session (crates/transfer/src/error.rs)."""
_STALE_S = 15.0
"""A far end behind a kept login answers within this time, or the login's path has gone."""


class ConnectionLost(HowdahError):
    """The connection to the far end was lost, or cannot be made at the moment: another may do."""


class TurnedAway(ConnectionLost):
    """The far sshd closed the connection before the login."""


class StaleLogin(ConnectionLost):
    """A login that was kept does not answer: another will be made."""


class StaleHello(HowdahError):
    """What a far end said when it was left ready allows no such copy; what a new one says may."""


@contextmanager
def judged(sessions: Iterable[FarSession]) -> Iterator[None]:
    """Judges a copy by what its far ends have said.

    Raises StaleHello in place of HowdahError where one of them has said it long before.
    """
    try:
        yield
    except HowdahError as error:
        if any(started.waited for started in sessions):
            raise StaleHello(str(error)) from error
        raise


def hello(started: FarSession, far_says: Callable[[str], None], agree: "Agree | None" = None) -> FarHello:
    """Waits for the far end's hello; ``far_says`` is given what it wrote to standard error before.

    Where there is no howdah of this protocol, one is brought if ``agree`` takes the offer; without, none is.

    Raises HowdahError with the cause when no hello will come, ConnectionLost where another try may do.
    """
    why = f"howdah was not found on {started.far.login.host}"
    turns = _Turns(min(started.patience_s, _TURNS_S))
    try:
        while True:
            try:
                return _hello(started, far_says)
            except _Missing as missing:
                _bring(started, str(missing), why, agree)
            except _Unusable as unusable:
                why = str(unusable)
                started.start_again(ANEW)
            except TurnedAway as turned_away:
                turns.wait(turned_away, far_says)
                started.start_again(started.how)
    finally:
        started.settle()


class _Turns:
    """The tries of a login at a host that takes none at the moment."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._until_s = time.monotonic() + patience_s
        self._pause_s = 0.0

    def wait(self, turned_away: TurnedAway, far_says: Callable[[str], None]) -> None:
        """Waits for the next try, of which the user is told once. Raises TurnedAway when the time is over."""
        import random  # noqa: PLC0415, few copies need it

        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise turned_away
        if not self._pause_s:
            far_says(f"howdah: {turned_away}; trying again for {format_duration(self._patience_s)}\n")
        self._pause_s = min(2 * self._pause_s or _TURN_S, _LONGEST_TURN_S)
        # Copies that began together are not to come together again.
        next_s = time.monotonic() + min(self._pause_s * random.uniform(0.5, 1.5), left_s)  # noqa: S311
        while time.monotonic() < next_s:
            interrupt.check()
            time.sleep(TICK_S)


class _Missing(Exception):
    """The line of a far host that has neither howdah nor a far end that was brought."""


class _Unusable(Exception):
    """Why howdah at a far host is not tried again, in words: another protocol, or it cannot be started."""


def _bring(started: FarSession, said: str, why: str, agree: "Agree | None") -> None:
    """Brings a far end, if somebody agrees. Raises HowdahError where none can be, or nobody does."""
    from howdah.remote import bringing  # noqa: PLC0415, few copies need it

    program = brought()
    if program is None or started.spare is None:
        raise HowdahError(f"{why}; install it there {INSTALL}")
    offer = bringing.offer(started.far.login.host, said, why, program)
    if agree is None or not agree(offer):
        raise HowdahError(
            f"{offer.in_words()}: give howdah cp --bring, or install howdah there, "
            "or give its path with --far-howdah PATH"
        )
    started.session.cancel()
    bringing.bring(started.far, *started.spare, program, TICK_S)
    started.through_kept = False
    started.speak_again()


def _hello(started: FarSession, far_says: Callable[[str], None]) -> FarHello:
    session, far = started.session, started.far
    try:
        while (answer := session.hello(TICK_S)) is None:
            interrupt.check()
            far.drain()
            if started.through_kept and time.monotonic() - started.began_s > _STALE_S:
                started.through_kept = False
                if far.login.is_kept():
                    raise StaleLogin(f"{far.login.host} does not answer through the kept login")
        far_says(far.new_stderr())
        heard = document.strange(decoding.from_json(answer, FarHello))
        # Behind a jump host, the far kernel's connection begins there.
        return heard if far.login.data_address is not None else msgspec.structs.replace(heard, rtt_s=None)
    except msgspec.ValidationError as error:
        raise HowdahError(
            f"howdah on {far.login.host} has another version ({error}); install the same one on both hosts"
        ) from None
    except StaleLogin:
        raise
    except HowdahError as error:
        raise _cause(started, str(error)) from None


def _cause(started: FarSession, said: str) -> Exception:
    """Why no hello has come, where the session has ``said`` this."""
    far, host = started.far, started.far.login.host
    if MISSING in said:
        return _Missing(said)
    passed_over = started.key[1] is None and started.how != ANEW and brought() is not None
    if _PROTOCOL in said and passed_over:
        return _Unusable(f"howdah on {host} has another version ({said.partition(';')[0]})")
    if said.startswith(FOREIGN):
        return not_howdah(host, said.removeprefix(FOREIGN))
    # Where a far end has not said why, the session only saw its pipe end or carry something else.
    status = far.exit_status(CANCEL_S)
    if not status or said.startswith(_SAID):
        return HowdahError(f"{host}: {said.removeprefix(_SAID)}")
    stderr = far.stderr()
    if may_pass(status, stderr):
        kind = TurnedAway if turned_away(status, stderr) else ConnectionLost
        return kind(ended(host, status, stderr))
    broken = not_started(host, status, stderr) if passed_over else None
    why = ended(host, status, stderr, anew=started.how == ANEW)
    return HowdahError(why) if broken is None else _Unusable(broken)


def greet(host: str, far_howdah: str | None) -> FarHello:
    """The hello of ``host`` and nothing more; the next far end is left ready, as after a copy.

    Raises HowdahError where ssh or howdah does not answer there.
    """
    with greeted(host, far_howdah) as (_, answer):
        return answer


@contextmanager
def greeted(
    host: str, far_howdah: str | None, ports: tuple[int, int] | None = None
) -> Iterator[tuple[FarSession, FarHello]]:
    """A session with ``host`` that has said hello and gets no job. What follows is as after ``greet``."""
    started, answer = None, None
    try:
        with interrupt.Held():
            started = take(host, far_howdah, ports=ports)
            if started.waited:
                # Whoever only asks wants to know what is true now.
                started.start_again("")
        answer = hello(started, lambda _: None)
        yield started, answer
    finally:
        if started is not None:
            started.session.cancel()
            if answer is None:
                started.far.end()
                started.far.close()
    standby.release(started)
    standby.leave(started.far.login, far_howdah, started.ports)
