"""The far ends of one session of a copy: one, or the two that its data goes between.

Connections are made ahead of the next copy to the same host. Its job costs a round trip anyway, before the
first file may be sent. In that time a copy on such connections sends a first window of padding, and has it
acknowledged. So it begins with windows twice as large; and what is remembered of the path it sends at once,
because the round trip of now is known (RFC 9959, reconnaissance).
"""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from howdah import HowdahError, _native, interrupt
from howdah.arguments import NotHere, literal
from howdah.remote import standby
from howdah.remote.endpoints import written
from howdah.remote.far import CANCEL_S, hello
from howdah.remote.messages import Between, FarHello, Job
from howdah.remote.standby import AHEAD_MAX, NONE_AHEAD, Ahead, FarSession, take
from howdah.text import printable
from howdah.transfer.display import Display
from howdah.transfer.request import Request
from howdah.transfer.service import Underway
from howdah.values.outcome import Outcome
from howdah.values.path import Path
from howdah.values.plan import Plan
from howdah.values.sizes import INITIAL_WINDOW_BYTES

if TYPE_CHECKING:
    from howdah.remote.ssh import Login

_ON_THE_WAY = "on-the-way"
WORTH_WINDOWS = 8
"""Padding is sent where a round trip carries so many times as much; elsewhere it would delay the data."""


class Greeted(NamedTuple):
    """The far ends, as they have said hello."""

    far: FarHello
    """The far end; of two the one that receives, at the round trip between them, and without an address, for
    this host sends it no data."""
    origin: FarHello | None = None
    """The far end that sends, of two."""


class FarEnds:
    """The far ends of a session, from their start to their end."""

    def __init__(self, request: Request, *, asks: bool) -> None:
        """Those of one session; none is started yet. ``asks``: ssh may ask the user."""
        route = request.route
        self._request, self._asks = request, asks
        self._hosts = [route.host] if route.origin is None else [route.origin, route.host]
        self._started: list[FarSession] = []
        self._between: Between | None = None

    def begin(self) -> None:
        """Takes the far ends that wait, or starts them. Raises HowdahError when ssh cannot be started.

        Where somebody sits at the terminal, whom both may ask for a password, the second one waits until the
        first has said hello.
        """
        self._take()
        if not (self._asks and sys.stdin.isatty()):
            self._take_all()

    @property
    def session(self) -> _native.Session:
        """What the copy is seen and steered by."""
        return self._started[0].session

    @property
    def sessions(self) -> Sequence[FarSession]:
        """All that have been started."""
        return self._started

    @property
    def only(self) -> FarSession:
        """The far end where there is one; of two the one that sends."""
        return self._started[0]

    @property
    def logins(self) -> "list[Login]":
        """The logins of those that have been started."""
        return [each.far.login for each in self._started]

    @property
    def data_address(self) -> str | None:
        """The name or address that data of this host goes to; None: it sends none, or not straight."""
        return None if len(self._hosts) > 1 else self.only.far.login.data_address

    def greet(self, display: Display) -> Greeted:
        """Waits for the hello of each, and has two find one another.

        Raises HowdahError with the cause when no hello will come, or where they cannot reach one another.
        """
        request = self._request
        first = hello(self.only, display.far_says, request.agree)
        if len(self._hosts) == 1:
            return Greeted(first)
        # Of the other copies none loads it.
        from howdah.remote import meeting  # noqa: PLC0415

        self._take_all()
        second = hello(self._started[1], display.far_says, request.agree)
        ends = [meeting.FarEnd(*each) for each in zip(self._started, (first, second), strict=True)]
        try:
            self._between, rtt_s = meeting.meet(*ends)
        except meeting.Apart as error:
            raise NotHere(f"{literal(str(error))}; {self._instead()}") from None
        return Greeted(msgspec.structs.replace(second, rtt_s=rtt_s, addresses=[]), first)

    def check(self, plan: Plan) -> None:
        """Raises HowdahError where what has begun is not as the plan has it."""
        if not plan.encrypt and any(each.ahead for each in self._started):
            raise HowdahError("the streams have begun encrypted")

    def start(self, job: Job, plan: Plan, lost: _native.Session | None) -> None:
        """Gives the far ends their job. ``lost`` is the copy's session before this one."""
        job = msgspec.structs.replace(job, between=self._between)
        words = msgspec.json.encode(job), msgspec.json.encode(plan)
        if self._between is None:
            self.session.start(*words, lost)
        else:
            self.session.start_between(self._started[1].session, *words)

    def new_stderr(self, *, to_end: bool = False) -> str:
        """The new lines of what they have written to standard error."""
        return "".join(each.far.new_stderr(to_end=to_end) for each in self._started)

    def release(self, ahead: standby.Ahead) -> None:
        """Leaves far ends that end by themselves, and has others wait for the next copy."""
        for each in self._started:
            standby.release(each)
            if self._request.keeps_far_end:
                standby.leave(each.far.login, self._request.far_howdah, each.ports, ahead)

    def end(self, *, keep_login: bool) -> None:
        """Ends what has not ended well."""
        for each in self._started:
            each.session.cancel()
        for each in self._started:
            each.session.wait(CANCEL_S)
            each.far.end(keep_login=keep_login)
            each.far.close()

    def _take_all(self) -> None:
        while len(self._started) < len(self._hosts):
            self._take()

    def _take(self) -> None:
        request, host = self._request, self._hosts[len(self._started)]
        with interrupt.Held():
            taken = take(
                host,
                request.far_howdah,
                request.patience_s,
                asks=self._asks,
                ports=request.ports,
                ahead=begins_ahead(request),
                fills=fills_ahead(request),
            )
            self._started.append(taken)
            if len(self._hosts) > 1:
                self._started[-1].far.mark = host.rpartition("@")[2]

    def _instead(self) -> str:
        """What to do where the two hosts cannot reach one another."""
        route = self._request.route
        sources = shlex.join(f"{written(route.origin)}:{printable(source)}" for source in route.sources)
        target = shlex.quote(f"{written(route.host)}:{printable(route.destination)}")
        return (
            "open a range of ports on one of them and give it with {ports}, or copy through this host: "
            + literal(f"howdah cp {sources} {_ON_THE_WAY}/ && howdah cp {_ON_THE_WAY}/* {target}")
        )


def begins_ahead(request: Request) -> bool:
    """Whether a copy begins on connections that were made ahead, if there are any.

    On a guaranteed path the share is held from a connection's first packet on. A sweep measures whole runs.
    """
    straight = request.route.origin is None
    return straight and request.encrypt and request.path != "guaranteed" and request.sweep is None


def fills_ahead(request: Request) -> bool:
    """Whether padding may be sent on them."""
    paced = any(choice.key == "pacing_bps" for choice in request.given)
    return request.route.direction == "push" and request.limits is None and not paced


def ahead_after(request: Request, underway: Underway, outcome: Outcome) -> Ahead:
    """What is made ahead of the next copy: a connection for each stream, where these went straight."""
    ways = (outcome.through_ssh, outcome.by_far_end, outcome.other_address)
    if any(ways) or request.dry_run or not begins_ahead(request) or not underway.plan.encrypt:
        return NONE_AHEAD
    count = min(underway.plan.streams, AHEAD_MAX)
    worth = _carried_bytes(underway.path, outcome) >= WORTH_WINDOWS * INITIAL_WINDOW_BYTES * count
    return Ahead(count, fill=fills_ahead(request) and worth)


def _carried_bytes(path: Path, outcome: Outcome) -> float:
    """What a round trip of the path carries, as far as it is known: a small copy shows little of it."""
    shown = (outcome.moving_bps or 0.0) / 8 * (path.rtt_s or 0.0)
    memory = path.memory
    return max(shown, memory.capacity_bytes if memory is not None and memory.same_route else 0.0)
