"""The bursts of an active probing at work, by what ``howdah traffic`` sends with."""

from howdah.traffic.account import LoadAccount
from howdah.traffic.active import QUIET_S
from howdah.traffic.loads import Loads
from howdah.traffic.pattern import Load, Pattern, Tcp
from howdah.values import probe as probed


class Bursts:
    """Of one probing. Entered, their far ends are there; left, all has ended."""

    def __init__(self, pattern: Pattern, host: str, far_howdah: str | None) -> None:
        self.lasts_s = QUIET_S + pattern.duration_s
        """With the time before the first."""
        self._loads = Loads(pattern, host, far_howdah)
        self._begun_s: float | None = None
        """On the clock of the probing."""

    def __enter__(self) -> "Bursts":
        """Raises HowdahError when the far host cannot take them."""
        self._loads.__enter__()
        return self

    def __exit__(self, *what: object) -> None:
        self._loads.__exit__(*what)

    def look(self, elapsed_s: float) -> bool:
        """To be called often with how long has been probed: begins when it is time. False: they failed."""
        if self._begun_s is None and elapsed_s >= QUIET_S:
            self._begun_s = elapsed_s
            self._loads.begin()
        return not self._loads.failures

    def end(self) -> list[probed.Burst]:
        """What was sent, on the clock of the probing. Raises HowdahError when a load has failed."""
        if self._begun_s is None:
            return []
        traffic = self._loads.end()
        if self._loads.failures:
            raise self._loads.failures[0]
        found = [
            probed.Burst(
                start_s=self._begun_s + period.begin_s,
                end_s=self._begun_s + period.end_s,
                congestion_control=_control(wanted, load),
                bytes=period.bytes,
            )
            for wanted, load in zip(traffic.pattern.loads, traffic.loads, strict=True)
            for period in load.periods
        ]
        return sorted(found, key=lambda burst: burst.start_s)


def _control(wanted: Load, load: LoadAccount) -> str:
    """As it was asked for: howdah's own has another name at the socket."""
    named = wanted.congestion_control if isinstance(wanted, Tcp) else None
    return named or load.congestion_control or "other"
