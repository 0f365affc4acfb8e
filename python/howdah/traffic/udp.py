"""Loads over UDP at work: at a rate, and as objects of which what was lost is sent again.

``FarSink`` is the near end's side of ``howdah sink`` at the far host: it starts it over ssh, asks it, and
ends it.
"""

import os
import secrets
import threading
import time

import msgspec

from howdah import HowdahError, __version__, decoding, document, interrupt
from howdah._native import UdpSource
from howdah.remote import process, ssh
from howdah.remote.answers import ended, not_howdah
from howdah.remote.far import CANCEL_S, TICK_S
from howdah.remote.meeting import resolved, usable
from howdah.text import printable
from howdah.traffic.account import BlastAccount, LoadAccount, LoadSample, SinkCounts, SourceCounts
from howdah.traffic.pattern import Clock, Rbudp, Udp
from howdah.traffic.sink import (
    AskCounts,
    AskMissing,
    ExpectObject,
    LineReader,
    OpenSink,
    SinkAnswer,
    SinkHello,
    SinkOrder,
    write_line,
)

ANSWER_S = 30.0
"""The longest wait for an answer, as for data that nobody acknowledges."""


_HURRY_S = 2.0
"""The longest wait once the run is being stopped."""


class SilentError(HowdahError):
    """The far end is there and has not answered yet."""


class FarSink:
    """A far end of this run. Loads may ask it from their threads."""

    def __init__(self, host: str, far_howdah: str | None) -> None:
        """Starts ssh and returns at once. Raises HowdahError when it cannot be started."""
        login = ssh.Login(host)
        self.host, self.data_address = host, login.data_address
        self._far = process.FarProcess(login, login.start(far_howdah, role="sink"))
        self._lines = LineReader(self._far.read_fd)
        self._lock = threading.Lock()
        self._number = 0
        self._patience_s = ANSWER_S
        self._greeted = self._ended = False

    def hello(self) -> SinkHello:
        """The far end's greeting. Raises HowdahError with the cause when there is none."""
        line: bytes | None = None
        try:
            while (line := self._lines.next(TICK_S)) is None:
                interrupt.check()
                self._far.drain()
            hello = document.strange(decoding.from_json(line, SinkHello))
        except (EOFError, msgspec.MsgspecError) as error:
            if line is not None and not isinstance(error, msgspec.ValidationError):
                raise not_howdah(self.host, line) from None
            raise self._why("it speaks no howdah traffic; install the same version on both hosts") from None
        if hello.version != __version__:
            raise HowdahError(
                f"howdah on {self.host} is {hello.version}, here it is {__version__}; "
                "install the same version on both hosts"
            )
        self._greeted = True
        return hello

    def ask(
        self, what: OpenSink | ExpectObject | AskMissing | AskCounts, patience_s: float = ANSWER_S
    ) -> SinkAnswer:
        """Sends an order, and waits for the answer.

        Raises SilentError when none comes in time, and HowdahError when it has failed or is gone.
        """
        with self._lock:
            self._number += 1
            try:
                write_line(self._far.write_fd, SinkOrder(number=self._number, what=what))
                answer = self._answer(patience_s)
            except (EOFError, OSError, msgspec.MsgspecError):
                raise self._why("its end of the traffic has ended") from None
        if answer.error is not None:
            raise HowdahError(f"{self.host}: {printable(answer.error)}")
        return answer

    def hurry(self) -> None:
        """Shortens every wait for an answer, because the run is being stopped."""
        self._patience_s = _HURRY_S

    def close(self) -> None:
        """Ends the far end: by itself, or else by force."""
        if self._ended:
            return
        self._ended = True
        for fd in (self._far.write_fd, self._far.read_fd):
            os.close(fd)
        # Before its hello the far end may not yet read its input, and so not see that it ends.
        if self._far.exit_status(CANCEL_S if self._greeted else 0.0) is None:
            self._far.end()
        self._far.close()

    def _answer(self, patience_s: float) -> SinkAnswer:
        asked_s = time.monotonic()
        while (waited_s := time.monotonic() - asked_s) < min(patience_s, self._patience_s):
            line = self._lines.next(TICK_S)
            self._far.drain()
            if line is not None:
                answer = decoding.from_json(line, SinkAnswer)
                if answer.number == self._number:
                    return answer
        raise SilentError(
            f"{self.host} has not answered for {waited_s:.0f} s; is the path to it still there, "
            "or does the traffic leave no room?"
        )

    def _why(self, otherwise: str) -> HowdahError:
        status = self._far.exit_status(CANCEL_S)
        if status:
            return HowdahError(ended(self.host, status, self._far.stderr()))
        return HowdahError(f"{self.host}: {otherwise}")


_TOKEN_BYTES = 16
_KNOCKS = 8
_KNOCK_S = 0.25
"""Seconds between knocks. One is lost now and then; so many are not, where the path is open."""

_GLANCE_S = 2.0
"""How long a look at the far end may take; the next one comes soon."""


class UdpLoad:
    """One load, its source here and its sink at the far end."""

    def __init__(self, load: Udp | Rbudp, place: int, far: FarSink, addresses: list[str]) -> None:
        """Opens both and makes sure that the path is open. Raises HowdahError when it is not."""
        self.name, self._load, self._far, self._place = load.name, load, far, place
        token = secrets.token_bytes(_TOKEN_BYTES)
        port = far.ask(OpenSink(load=place, token=token)).port
        if port is None:
            raise HowdahError(f"{far.host} has opened no port; install the same version on both hosts")
        self._source = self._knocked(addresses, port, token)
        self._last: SinkCounts | None = None
        """The far end's last account; null until it has come: counts of before lack what was on its way."""
        self._blasts: list[BlastAccount] = []
        self._samples: list[LoadSample] = []

    def run(self, clock: Clock, duration_s: float) -> None:
        """Sends by the pattern. Raises HowdahError when that fails."""
        if isinstance(self._load, Udp):
            self._send(self._load, clock, duration_s)
        else:
            self._blast(self._load, clock, duration_s)

    def stop(self) -> None:
        """Ends the load within a moment."""
        self._source.stop()

    def sample(self, t_s: float) -> LoadSample | None:
        """Takes a sample; null when the far end does not answer at once. Raises HowdahError."""
        try:
            counts = self._counts(_GLANCE_S)
        except SilentError:
            return None
        sent_bytes = self._sent().sent_bytes
        self._samples.append(LoadSample(t_s=t_s, sent_bytes=sent_bytes, received_bytes=counts.received_bytes))
        return self._samples[-1]

    def settle(self) -> None:
        """Takes the last counts of the far end. Raises HowdahError when it is gone."""
        self._last = self._counts()

    def account(self) -> LoadAccount:
        """The account of the load."""
        source = self._sent()
        datagram_bytes = self._source.datagram_bytes
        offered_bytes = source.offered * datagram_bytes
        if isinstance(self._load, Rbudp):
            offered_bytes = len(self._blasts) * self._load.object_bytes
        return LoadAccount(
            name=self.name,
            kind="udp" if isinstance(self._load, Udp) else "rbudp",
            datagram_bytes=datagram_bytes,
            offered_bytes=offered_bytes,
            received_bytes=None if self._last is None else self._last.received_bytes,
            source=source,
            sink=self._last,
            blasts=self._blasts,
            samples=self._samples,
        )

    def _send(self, load: Udp, clock: Clock, duration_s: float) -> None:
        for period in load.wave.periods(duration_s):
            if not clock.wait_until(period.begin_s):
                return
            if not self._source.send(max(0.0, period.end_s - clock.now_s())):
                return

    def _blast(self, load: Rbudp, clock: Clock, duration_s: float) -> None:
        number = 0
        while (begin_s := load.begins_s(clock.now_s(), number, duration_s)) is not None:
            number += 1
            piece_bytes = self._source.begin(number, load.object_bytes)
            # Ask before the object is due, so that its first piece is not late by a round trip.
            self._far.ask(
                ExpectObject(
                    load=self._place,
                    number=number,
                    object_bytes=load.object_bytes,
                    piece_bytes=piece_bytes,
                )
            )
            if not clock.wait_until(begin_s):
                return
            if not self._rounds(clock):
                return

    def _rounds(self, clock: Clock) -> bool:
        """Sends the object that has begun until it is whole; false when the run was stopped before."""
        begin_s, rounds, digest, missing = clock.now_s(), 0, None, None
        try:
            while digest is None and self._source.round(missing):
                rounds += 1
                answer = self._far.ask(AskMissing(load=self._place))
                missing = msgspec.json.encode(answer.missing)
                if not answer.missing:
                    digest = self._agreed(answer)
        finally:
            whole = digest is not None
            self._blasts.append(
                BlastAccount(begin_s=begin_s, end_s=clock.now_s(), rounds=rounds, whole=whole, digest=digest)
            )
        return whole

    def _agreed(self, answer: SinkAnswer) -> str:
        """The digest of a whole object. Raises HowdahError when the ends differ."""
        digest = self._source.digest()
        if digest is None or answer.digest != digest:
            raise HowdahError(
                f"{self.name}: what arrived is not what was sent; "
                f"something on the path to {self._far.host} changes datagrams"
            )
        return digest

    def _knocked(self, addresses: list[str], port: int, token: bytes) -> UdpSource:
        """A source whose datagrams arrive, by the first address where they do."""
        failed = None
        for address in addresses:
            try:
                made = UdpSource(address, port, token, self._load.rate_bps, self._load.datagram_bytes)
                for _ in range(_KNOCKS):
                    made.knock()
                    if self._heard():
                        return made
            except SilentError:
                raise
            except HowdahError as error:
                failed = failed or error
        tried = " or ".join(addresses)
        raise failed or HowdahError(
            f"no datagram from here reaches {self._far.host} at {tried}, port {port}; check that UDP may pass"
        )

    def _heard(self) -> bool:
        """Whether a datagram has come; waits a little for it."""
        clock = Clock()
        while not self._counts().knocks:
            if not clock.wait_until(clock.now_s() + _KNOCK_S / 10) or clock.now_s() > _KNOCK_S:
                return False
        return True

    def _sent(self) -> SourceCounts:
        return decoding.from_json(self._source.counts(), SourceCounts)

    def _counts(self, patience_s: float | None = None) -> SinkCounts:
        ask = AskCounts(load=self._place)
        answer = self._far.ask(ask) if patience_s is None else self._far.ask(ask, patience_s)
        if answer.counts is None:
            raise HowdahError(f"{self._far.host} sends no counts; install the same version on both hosts")
        return answer.counts


def addresses_of(host: str, connected_to: str | None, told: str | None) -> list[str]:
    """The addresses of a far host, each once: what ssh connects to means here, best first.

    What the far end has ``told`` counts only where ssh goes through another host or a port of this one, and
    never as a name or an address of this host: traffic goes nowhere because a far end lies. Raises
    HowdahError where there is none.
    """
    found = resolved(connected_to) if connected_to is not None else []
    if not usable(found) and told is not None:
        found += map(str, usable([told]))
    if not found:
        raise HowdahError(
            f"no address of {host} is known here; give it an address as HostName in ~/.ssh/config"
        )
    return list(dict.fromkeys(found))
