"""What growth and cuts of one flow depend on, for many flows at once: arrays that broadcast together."""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from howdah.profiles.models.by_round import FloatArray, Numbers


class Lane(NamedTuple):
    """The path as one flow has it."""

    rtt_s: FloatArray
    """Base RTT."""
    bdp: FloatArray
    """Segments that fill the path, of which more wait in its queue: C τ."""

    @property
    def rate_per_s(self) -> FloatArray:
        """Capacity, segments per second."""
        return self.bdp / self.rtt_s

    def round_s(self, window: Numbers) -> FloatArray:
        """A round trip with this window: longer than the base RTT by the time in the queue."""
        return self.rtt_s * np.maximum(1.0, window / self.bdp)

    def delivered_per_s(self, window: Numbers) -> FloatArray:
        """Segments per second with this window."""
        return np.minimum(window, self.bdp) / self.rtt_s


class Memory(NamedTuple):
    """What an algorithm keeps from one loss to the next; each uses its part of it."""

    flat: FloatArray
    """CUBIC: where its curve is flat, segments; 0 before the first loss."""
    kept: FloatArray
    """Share of the window that the last cut left, by which H-TCP grows."""
    rate_per_s: FloatArray
    """H-TCP: throughput at the last loss; 0 before the first."""
    even: npt.NDArray[np.bool_]
    """H-TCP: whether that throughput was about that of the loss before."""

    @classmethod
    def fresh(cls, shape: tuple[int, ...]) -> "Memory":
        """That of flows that lost nothing yet."""
        return cls(np.zeros(shape), np.full(shape, 0.5), np.zeros(shape), np.zeros(shape, bool))


class Control(Protocol):
    """A congestion control after slow start."""

    def window(self, lane: Lane, start: FloatArray, memory: Memory, t_s: FloatArray) -> FloatArray:
        """Window ``t_s`` seconds after losses were repaired and it was ``start``, in segments."""
        ...

    def cut(self, lane: Lane, before: FloatArray, memory: Memory) -> tuple[FloatArray, Memory]:
        """What a loss leaves of the window ``before``, and what is kept in mind."""
        ...
