"""Windows: pieces of recordings, all of one length in equal steps, that classifiers judge one by one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.recognition.recording import Burst, Floats, Recording

SENT = ("nothing", "cubic", "bbr", "other")
"""What we sent in a step; ``Windows.sent`` holds indices of it."""
LEAST_STEPS = 4
LEAST_ANSWERED = 0.5
"""Of the steps of a window."""
BEGIN = 4
"""Windows to learn from begin so many times in the length of one."""
_LEAST_STEP_S = 0.02
_ROUNDED = 1e-6


@dataclass(frozen=True, eq=False)
class Windows:
    """n windows of m steps. Indexing takes windows."""

    rtt_s: Floats
    """Shape (n, m), NaN where no answer came."""
    lost: Floats
    """Of the probes of a step, the share without an answer: shape (n, m)."""
    sent: NDArray[np.int8]
    """Shape (n, m), indices of ``SENT``."""
    base_rtt_s: Floats
    """Shape (n,)."""
    step_s: float

    def __post_init__(self) -> None:
        count, steps = self.rtt_s.shape
        if self.base_rtt_s.shape != (count,) or not self.lost.shape == self.sent.shape == (count, steps):
            raise ValueError("a window needs RTT, losses and what was sent in each step, and one base RTT")
        if steps < LEAST_STEPS:
            raise HowdahError(
                f"a window of {steps} steps tells nothing; take {LEAST_STEPS} of {self.step_s:g} s or more"
            )

    def __len__(self) -> int:
        return len(self.rtt_s)

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.intp] | slice) -> "Windows":
        return Windows(
            self.rtt_s[chosen], self.lost[chosen], self.sent[chosen], self.base_rtt_s[chosen], self.step_s
        )

    @property
    def length_s(self) -> float:
        """Of each window."""
        return int(self.rtt_s.shape[1]) * self.step_s

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether enough was answered: shape (n,)."""
        found: NDArray[np.bool_] = np.mean(np.isfinite(self.rtt_s), axis=1) >= LEAST_ANSWERED
        return found

    @property
    def queue(self) -> Floats:
        """RTT beyond the base RTT, in base RTTs, gaps filled along straight lines: shape (n, m)."""
        return filled(self.rtt_s / self.base_rtt_s[:, None], nothing=1.0) - 1

    def twice(self) -> "Windows":
        """All as they are, and once more as if the base RTT were not known: the least of each then is it."""
        least = np.nanmin(self.rtt_s, axis=1)
        return Windows(
            np.tile(self.rtt_s, (2, 1)),
            np.tile(self.lost, (2, 1)),
            np.tile(self.sent, (2, 1)),
            np.concatenate([self.base_rtt_s, least]),
            self.step_s,
        )

    def first(self, length_s: float) -> "Windows":
        """The beginning of each, as if no more had been heard yet."""
        steps = steps_in(length_s, self.step_s)
        if not LEAST_STEPS <= steps <= self.rtt_s.shape[1]:
            raise HowdahError(
                f"windows of {self.length_s:g} s in steps of {self.step_s:g} s have no first {length_s:g} s"
            )
        return Windows(
            self.rtt_s[:, :steps], self.lost[:, :steps], self.sent[:, :steps], self.base_rtt_s, self.step_s
        )

    def parts(self, count: int) -> "Windows":
        """Each cut into so many of one length, one after the other; what is left over is cut off."""
        if count == 1:
            return self
        steps = self.rtt_s.shape[1] // count
        shape = len(self) * count, steps
        return Windows(
            self.rtt_s[:, : steps * count].reshape(shape),
            self.lost[:, : steps * count].reshape(shape),
            self.sent[:, : steps * count].reshape(shape),
            self.base_rtt_s.repeat(count),
            self.step_s,
        )

    def coarser(self, step_s: float) -> "Windows":
        """The same in steps of at least ``step_s``: means of what was answered, what is left over cut off."""
        times = max(1, steps_in(step_s, self.step_s))
        if times == 1:
            return self
        shape = len(self), self.rtt_s.shape[1] // times, times
        used = shape[1] * times
        return Windows(
            means(self.rtt_s[:, :used].reshape(shape)),
            self.lost[:, :used].reshape(shape).mean(axis=2),
            self.sent[:, :used].reshape(shape)[:, :, times // 2],
            self.base_rtt_s,
            self.step_s * times,
        )


class Examples(NamedTuple):
    """Windows whose class is known."""

    windows: Windows
    labels: NDArray[np.str_]
    """Shape (n,), as are the others."""
    runs: NDArray[np.str_]
    paths: NDArray[np.str_]
    starts_s: Floats
    """On the clock of the run."""
    between: "Examples | None" = None
    """Of the same recordings, windows that begin between these: more to learn from, and never judged."""

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Examples":
        """Some of them; what is between stays."""
        return Examples(
            self.windows[chosen],
            self.labels[chosen],
            self.runs[chosen],
            self.paths[chosen],
            self.starts_s[chosen],
            self.between,
        )

    def first(self, length_s: float) -> "Examples":
        """The beginning of each window, as if no more had been heard yet."""
        between = self.between and self.between.first(length_s)
        return self._replace(windows=self.windows.first(length_s), between=between)

    def to_learn(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> "Examples":
        """Those of ``train``, and of their runs what is between and shares no time with any of ``test``."""
        own = self.take(train)._replace(between=None)
        if self.between is None:
            return own
        more = self.between
        clear = np.isin(more.runs, own.runs)
        for run in np.unique(self.runs[test]):
            rows, kept = np.flatnonzero(more.runs == run), test[self.runs[test] == run]
            apart_s = np.abs(more.starts_s[rows, None] - self.starts_s[kept]).min(axis=1)
            clear[rows] &= apart_s > more.windows.length_s - more.windows.step_s / 2
        return _joined([own, more.take(clear)])


def examples(recordings: Sequence[Recording], length_s: float, step_s: float) -> Examples:
    """Windows of all, not overlapping, with those between.

    Raises HowdahError without a class, or when no window is whole.
    """
    unknown = [each.run for each in recordings if each.label is None]
    if unknown:
        raise HowdahError(
            f"who was there in run {unknown[0]!r} is not said; leave it out, or say it when recording"
        )
    steps = steps_in(length_s, step_s)
    own = _joined([_examples(each, length_s, step_s, 0) for each in recordings])
    if not len(own.labels):
        raise HowdahError(
            f"no recording holds a window of {length_s:g} s; record longer, or take shorter ones"
        )
    late = sorted({steps * part // BEGIN for part in range(1, BEGIN)} - {0})
    between = [_examples(each, length_s, step_s, skipped) for each in recordings for skipped in late]
    return own._replace(between=_joined(between))


def _examples(recording: Recording, length_s: float, step_s: float, skipped: int) -> Examples:
    windows, starts_s = cut(recording, length_s, step_s, skipped)
    label, run, path = (
        np.full(len(windows), str(text)) for text in (recording.label, recording.run, recording.path)
    )
    return Examples(windows, label, run, path, starts_s)


def _joined(parts: Sequence[Examples]) -> Examples:
    windows = [each.windows for each in parts]
    return Examples(
        Windows(
            np.concatenate([each.rtt_s for each in windows]),
            np.concatenate([each.lost for each in windows]),
            np.concatenate([each.sent for each in windows]),
            np.concatenate([each.base_rtt_s for each in windows]),
            windows[0].step_s,
        ),
        np.concatenate([each.labels for each in parts]),
        np.concatenate([each.runs for each in parts]),
        np.concatenate([each.paths for each in parts]),
        np.concatenate([each.starts_s for each in parts]),
    )


def cut(recording: Recording, length_s: float, step_s: float, skipped: int = 0) -> tuple[Windows, Floats]:
    """Windows of one recording from its beginning, not overlapping, and when each begins, on its clock.

    Those with too many gaps are left out, and so many steps at the beginning.
    ``step_s`` is a multiple of the recording's step; finer samples are averaged. Raises HowdahError.
    """
    times = round(step_s / recording.step_s)
    if times < 1 or abs(times * recording.step_s / step_s - 1) > 0.01:
        raise HowdahError(
            f"run {recording.run!r} was recorded in steps of {recording.step_s:g} s, and {step_s:g} s is no "
            "multiple of that; ask for one, or record in finer steps"
        )
    steps = steps_in(length_s, step_s)
    begin = skipped * times
    rtt, lost, sent = _grid(recording)
    rtt, lost, sent = rtt[begin:], lost[begin:], sent[begin:]
    shape = len(rtt) // (steps * times), steps, times
    used = shape[0] * steps * times
    windows = Windows(
        means(rtt[:used].reshape(shape)),
        lost[:used].reshape(shape).mean(axis=2),
        sent[:used].reshape(shape)[:, :, times // 2],
        np.full(shape[0], recording.base_rtt_s),
        step_s,
    )
    starts_s = recording.times_s[0] + recording.step_s * (begin + steps * times * np.arange(shape[0]))
    heard = windows.heard
    return windows[heard], starts_s[heard]


def default_step_s(recordings: Sequence[Recording]) -> float:
    """The least multiple of the recordings' coarsest step that is 20 ms or more."""
    coarsest = max(each.step_s for each in recordings)
    return coarsest * max(1, math.ceil(_LEAST_STEP_S / coarsest - 1e-6))


def sent_at(times_s: Floats, bursts: Iterable[Burst]) -> NDArray[np.int8]:
    """Which of ``SENT`` was sent when: shape (times,)."""
    sent = np.zeros(len(times_s), np.int8)
    for burst in bursts:
        name = burst.congestion_control
        code = SENT.index(name if name in SENT else "other")
        sent[(burst.start_s <= times_s) & (times_s < burst.end_s)] = code
    return sent


def steps_in(length_s: float, step_s: float) -> int:
    """Whole steps in a time, however it was rounded."""
    return int(length_s / step_s + _ROUNDED)


def means(parts: Floats) -> Floats:
    """Along the last axis, of what is there; NaN where nothing is."""
    there = np.isfinite(parts)
    with np.errstate(invalid="ignore"):
        found: Floats = np.where(there, parts, 0).sum(axis=-1) / there.sum(axis=-1)
    return found


def filled(rows: Floats, nothing: float) -> Floats:
    """Gaps along straight lines, at the ends the nearest, rows of gaps ``nothing``: shape (n, m)."""
    there = np.isfinite(rows)
    found = rows.copy()
    places = np.arange(rows.shape[1])
    for row in np.flatnonzero(~there.all(axis=1)):
        known = there[row]
        found[row] = np.interp(places, places[known], rows[row, known]) if known.any() else nothing
    return found


def _grid(recording: Recording) -> tuple[Floats, Floats, NDArray[np.int8]]:
    """In equal steps from the first sample on: the mean RTT, the share of samples lost, and what was sent."""
    elapsed = recording.times_s - recording.times_s[0]
    place = np.floor(elapsed / recording.step_s + 0.5).astype(np.int64)
    size = int(place[-1]) + 1
    there = np.isfinite(recording.rtt_s)
    summed = np.bincount(place[there], recording.rtt_s[there], minlength=size)
    answered = np.bincount(place[there], minlength=size)
    probed = np.bincount(place, minlength=size)
    rtt = np.where(answered > 0, summed / np.maximum(answered, 1), np.nan)
    sent = sent_at(recording.times_s[0] + recording.step_s * np.arange(size), recording.bursts)
    return rtt, (probed - answered) / np.maximum(probed, 1), sent
