"""The near end's side of ``howdah sink`` at the far host: it starts it over ssh, asks it, and ends it."""

import os
import threading
import time

import msgspec

from howdah import HowdahError, __version__, document
from howdah.remote import ssh
from howdah.remote.answers import ended, not_howdah
from howdah.remote.far import CANCEL_S, TICK_S
from howdah.text import printable
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
        self._far = ssh.FarProcess(login, login.start(far_howdah, role="sink"))
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
                self._far.drain()
            hello = document.strange(msgspec.json.decode(line, type=SinkHello))
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
                answer = msgspec.json.decode(line, type=SinkAnswer)
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
