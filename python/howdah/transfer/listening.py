"""A transfer that listens to who else is on its path, and changes how it sends.

It begins with its plan, the fair default, and nothing waits for it. What judges takes a while to load, so
that is done only when the transfer has lasted for ``WAIT_S`` and is to last on (``beside``); until then a
thread of the native module gathers round trips. Whatever goes wrong with listening ends it and never the
transfer.
"""

from typing import TYPE_CHECKING

from howdah import HowdahError
from howdah.paths.shared.hear.ears import Ear, Streams, best
from howdah.record import Listened
from howdah.transfer.messages import Progress, Steering
from howdah.transfer.wish import Wish

if TYPE_CHECKING:
    from howdah.transfer.beside import Beside

WAIT_S = 2.0
"""Of payload on its way."""
LEAST_LEFT_S = 10.0
"""What has less left is over before anybody was heard and a change has brought anything."""


class Listening:
    """The pilot of one transfer."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._ear: Ear | None = None
        self._not_by_icmp: str | None = None
        self._moving_s: float | None = None
        self._beside: Beside | None = None
        self._ended: str | None = None

    def __call__(self, now: Progress) -> Steering | None:
        """How to send from now on; None: as before."""
        if self._ended is not None:
            return None
        if self._ear is None:
            self._ear, self._not_by_icmp = best(self._wish.addresses)
        if now.phase != "moving":
            return None
        if self._moving_s is None:
            self._moving_s = now.elapsed_s
        if now.elapsed_s - self._moving_s < WAIT_S or not (self._beside or self._lasts(now)):
            return None
        try:
            return self._listen(now, self._ear)
        except (HowdahError, ValueError) as error:
            self._ended = str(error)
            self._ear.close()
            return self._beside.back(self._ended) if self._beside else None

    def close(self) -> None:
        """Listens no more."""
        if self._ear is not None:
            self._ear.close()

    def told(self) -> Listened:
        """For the record."""
        told = Listened(
            by=self._ear.by if self._beside and self._ear else None,
            not_by_icmp=self._not_by_icmp,
            ended=self._ended,
            fairness=self._wish.fairness,
        )
        return self._beside.told(told) if self._beside else told

    def _lasts(self, now: Progress) -> bool:
        """Whether there is enough left; also where that is not known."""
        moved_s = now.elapsed_s - (self._moving_s or 0.0)
        if self._wish.for_s is not None:
            return self._wish.for_s - moved_s >= LEAST_LEFT_S
        if now.bytes_total is None or not now.scan_complete or not now.bytes_done:
            return True
        return (now.bytes_total - now.bytes_done) * moved_s / now.bytes_done >= LEAST_LEFT_S

    def _listen(self, now: Progress, ear: Ear) -> Steering | None:
        if self._beside is None:
            from howdah.transfer.beside import Beside  # noqa: PLC0415

            self._beside = Beside(self._wish, ear, now.elapsed_s)
        steering = self._beside.look(now)
        if (why := ear.deaf()) is not None:
            ear.close()
            self._ear, self._not_by_icmp = Streams(), why
            self._beside.listen_by(self._ear)
        return steering
