"""The bus's network: it loses, delays, doubles, and delivers again what everybody has forgotten."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from bench.leases.timeline import NS_PER_S, Timeline

STORE = "store"
"""Who keeps what lies on the bus."""
LATE_MAX_NS = 4 * NS_PER_S
_SLOWER = (1, 1, 1, 1, 3, 10)


class Weather(NamedTuple):
    """What becomes of messages; the last three are probabilities."""

    delay_ns: int
    """Each takes between half of this and one and a half; on slow ways a multiple."""
    lost: float
    doubled: float
    late: float
    """Of being delivered at any time up to LATE_MAX_NS."""


class Network:
    """Messages from one name to another. After ``clear`` all of them arrive, in time."""

    __slots__ = ("_clear", "_random", "_timeline", "_ways", "_weather", "apart", "cut", "met")

    def __init__(self, timeline: Timeline, random: Random, weather: Weather) -> None:
        self.cut: set[str] = set()
        """Who is cut off from all others."""
        self.apart: set[tuple[str, str]] = set()
        """Who is cut off from whom."""
        self.met: Counter[str] = Counter()
        """What happened to messages."""
        self._timeline = timeline
        self._random = random
        self._weather = weather
        self._ways: dict[tuple[str, str], int] = {}
        self._clear = False

    def clear(self) -> None:
        """No faults from now on; what is late already still comes."""
        self._clear = True
        self.cut.clear()
        self.apart.clear()

    def carry(self, source: str, sink: str, deliver: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Calls ``deliver`` later; perhaps twice, or never."""
        delay_ns, lost, doubled, late = self._weather
        draw = self._random.random
        timeline = self._timeline
        delay_ns = int(delay_ns * (0.5 + draw()))
        if not self._clear:
            delay_ns *= self._slower(source, sink)
            if source in self.cut or sink in self.cut or (source, sink) in self.apart or draw() < lost:
                self.met["lost"] += 1
                return
            if draw() < doubled:
                self.met["doubled"] += 1
                again_ns = int(LATE_MAX_NS * draw()) if draw() < late else int(3 * delay_ns * draw())
                timeline.at(timeline.now_ns + again_ns, deliver, *arguments)
            if draw() < late:
                self.met["late"] += 1
                delay_ns += int(LATE_MAX_NS * draw())
        timeline.at(timeline.now_ns + delay_ns, deliver, *arguments)

    def _slower(self, source: str, sink: str) -> int:
        """How many times as long a way takes; those of the election all take alike."""
        way = (source, sink)
        if way not in self._ways:
            self._ways[way] = 1 if STORE in way else self._random.choice(_SLOWER)
        return self._ways[way]
