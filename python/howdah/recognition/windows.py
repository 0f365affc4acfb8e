"""Windows: pieces of recordings, all of one length in equal steps, that classifiers judge one by one.

Examples are windows whose class is known. Folds leave some of them out: at random, as the paper does, or by
whole runs or paths. Random folds put windows of one run on both sides, so a classifier may recognise the run
and not the class; what it is worth to a user is shown by runs, and by paths, that it has never seen.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.recognition.recording import Burst, Recording
from howdah.recognition.rows import Floats, Mask, interpolated, mean_of_finite

SENT = ("nothing", "cubic", "bbr", "other")
"""The kinds of traffic we may send in a step; ``Windows.sent`` has indices of it."""
LEAST_STEPS = 4
LEAST_ANSWERED = 0.5
"""The least share of a window's steps that were answered."""
OFFSETS = 4
"""Windows to learn from begin at so many offsets in the length of one."""
_LEAST_STEP_S = 0.02
_ROUNDED = 1e-6

Codes = NDArray[np.int64]
Names = NDArray[np.str_]
Rows = NDArray[np.intp]
Fold = tuple[Rows, Rows]
"""The rows to train on and the rows to test on, both ascending."""


@dataclass(frozen=True, eq=False)
class Windows:
    """A set of n windows of m steps; indexing selects windows.

    Raises HowdahError for windows of fewer than ``LEAST_STEPS`` steps.
    """

    rtt_s: Floats
    """The mean RTT of each step, NaN where no answer came: shape (n, m)."""
    lost: Floats
    """The share of each step's probes without an answer: shape (n, m)."""
    sent: NDArray[np.int8]
    """The traffic we sent, as indices of ``SENT``: shape (n, m)."""
    base_rtt_s: Floats
    """The RTT without a queue: shape (n,)."""
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

    def __getitem__(self, chosen: Mask | Rows | slice) -> "Windows":
        return self._changed(lambda series: series[chosen], self.base_rtt_s[chosen])

    def _changed(self, change: Callable[[NDArray[Any]], NDArray[Any]], base_rtt_s: Floats) -> "Windows":
        """Windows with each of the series changed alike."""
        return Windows(change(self.rtt_s), change(self.lost), change(self.sent), base_rtt_s, self.step_s)

    @property
    def length_s(self) -> float:
        """The length of each window in seconds."""
        return int(self.rtt_s.shape[1]) * self.step_s

    @property
    def answered(self) -> Mask:
        """Whether enough steps of each window were answered: shape (n,)."""
        found: Mask = np.mean(np.isfinite(self.rtt_s), axis=1) >= LEAST_ANSWERED
        return found

    @property
    def queue(self) -> Floats:
        """RTT beyond the base RTT, in base RTTs, with gaps interpolated: shape (n, m)."""
        return interpolated(self.rtt_s / self.base_rtt_s[:, None], empty=1.0) - 1

    def with_own_base(self) -> "Windows":
        """All windows, then all once more with their own least RTT in place of the base RTT."""
        base_rtt_s = np.concatenate([self.base_rtt_s, np.nanmin(self.rtt_s, axis=1)])
        return self._changed(lambda series: np.tile(series, (2, 1)), base_rtt_s)

    def first(self, length_s: float) -> "Windows":
        """The first ``length_s`` of each window. Raises HowdahError when windows are shorter."""
        steps = steps_in(length_s, self.step_s)
        if not LEAST_STEPS <= steps <= self.rtt_s.shape[1]:
            raise HowdahError(
                f"windows of {self.length_s:g} s in steps of {self.step_s:g} s have no first {length_s:g} s"
            )
        return self._changed(lambda series: series[:, :steps], self.base_rtt_s)

    def parts(self, count: int) -> "Windows":
        """Cuts each window into ``count`` of one length, in order; steps left over are cut off."""
        if count == 1:
            return self
        steps = self.rtt_s.shape[1] // count
        shape = len(self) * count, steps
        return self._changed(
            lambda series: series[:, : steps * count].reshape(shape), self.base_rtt_s.repeat(count)
        )

    def coarser(self, step_s: float) -> "Windows":
        """The same windows in steps of at least ``step_s``; steps left over are cut off."""
        times = max(1, steps_in(step_s, self.step_s))
        if times == 1:
            return self
        used = self.rtt_s.shape[1] // times * times
        series = self.rtt_s[:, :used], self.lost[:, :used], self.sent[:, :used]
        return _merged(series, times, self.base_rtt_s, self.step_s * times)


class Examples(NamedTuple):
    """Windows whose class is known."""

    windows: Windows
    labels: Names
    """The class of each window: shape (n,), as are the others."""
    runs: Names
    paths: Names
    starts_s: Floats
    """The begin of each window on the clock of its run."""
    between: "Examples | None" = None
    """Windows of the same recordings that begin between these: to learn from, and never judged."""

    def take(self, chosen: Mask | Rows) -> "Examples":
        """Some of the windows, with all that lie between."""
        return Examples(
            self.windows[chosen],
            self.labels[chosen],
            self.runs[chosen],
            self.paths[chosen],
            self.starts_s[chosen],
            self.between,
        )

    def first(self, length_s: float) -> "Examples":
        """The examples with the first ``length_s`` of each window."""
        between = self.between and self.between.first(length_s)
        return self._replace(windows=self.windows.first(length_s), between=between)

    def to_learn(self, train: Rows, test: Rows) -> "Examples":
        """The windows of ``train``, and those between in their runs that share no time with ``test``."""
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
    """The windows of all recordings, not overlapping, with those that begin between them.

    Raises HowdahError for a recording without a class, or when no window is whole.
    """
    unknown = [each.run for each in recordings if each.label is None]
    if unknown:
        raise HowdahError(
            f"the traffic in run {unknown[0]!r} is not known; leave it out, or name it when recording"
        )
    steps = steps_in(length_s, step_s)
    own = _joined([_examples(each, length_s, step_s, 0) for each in recordings])
    if not len(own.labels):
        raise HowdahError(f"no recording has a window of {length_s:g} s; record longer, or take shorter ones")
    late = sorted({steps * part // OFFSETS for part in range(1, OFFSETS)} - {0})
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
    """The windows of one recording, not overlapping, and the begin of each on the recording's clock.

    ``skipped`` steps at the beginning are left out, and so are windows with too many gaps. ``step_s`` is a
    multiple of the recording's step; finer samples are averaged. Raises HowdahError where it is none.
    """
    times = round(step_s / recording.step_s)
    if times < 1 or abs(times * recording.step_s / step_s - 1) > 0.01:
        raise HowdahError(
            f"run {recording.run!r} was recorded in steps of {recording.step_s:g} s, and {step_s:g} s is no "
            "multiple of that; ask for one, or record in finer steps"
        )
    steps = steps_in(length_s, step_s)
    begin = skipped * times
    rtt_s, lost, sent = _grid(recording)
    count = max(0, len(rtt_s) - begin) // (steps * times)
    used, shape = slice(begin, begin + count * steps * times), (count, steps * times)
    series = rtt_s[used].reshape(shape), lost[used].reshape(shape), sent[used].reshape(shape)
    windows = _merged(series, times, np.full(count, recording.base_rtt_s), step_s)
    starts_s = recording.times_s[0] + recording.step_s * (begin + steps * times * np.arange(count))
    answered = windows.answered
    return windows[answered], starts_s[answered]


def default_step_s(recordings: Sequence[Recording]) -> float:
    """The least multiple of the recordings' coarsest step that is 20 ms or more."""
    coarsest = max(each.step_s for each in recordings)
    return coarsest * max(1, math.ceil(_LEAST_STEP_S / coarsest - 1e-6))


def sent_at(times_s: Floats, bursts: Iterable[Burst]) -> NDArray[np.int8]:
    """The traffic sent at each time, as indices of ``SENT``: shape (times,)."""
    sent = np.zeros(len(times_s), np.int8)
    for burst in bursts:
        name = burst.congestion_control
        code = SENT.index(name if name in SENT else "other")
        sent[(burst.start_s <= times_s) & (times_s < burst.end_s)] = code
    return sent


def steps_in(length_s: float, step_s: float) -> int:
    """The whole steps in a time, however it was rounded."""
    return int(length_s / step_s + _ROUNDED)


def _merged(
    series: tuple[Floats, Floats, NDArray[np.int8]], times: int, base_rtt_s: Floats, step_s: float
) -> Windows:
    """Windows whose steps are ``times`` steps of the series (n, m): means, and what the middle one sent."""
    rtt_s, lost, sent = series
    shape = len(rtt_s), rtt_s.shape[1] // times, times
    return Windows(
        mean_of_finite(rtt_s.reshape(shape)),
        lost.reshape(shape).mean(axis=2),
        sent.reshape(shape)[:, :, times // 2],
        base_rtt_s,
        step_s,
    )


def _grid(recording: Recording) -> tuple[Floats, Floats, NDArray[np.int8]]:
    """The mean RTT, the share of samples lost and what was sent, in equal steps from the first sample on."""
    elapsed = recording.times_s - recording.times_s[0]
    place = np.floor(elapsed / recording.step_s + 0.5).astype(np.int64)
    size = int(place[-1]) + 1
    rtt, lost = mean_by_step(place, recording.rtt_s, size)
    sent = sent_at(recording.times_s[0] + recording.step_s * np.arange(size), recording.bursts)
    return rtt, lost, sent


def mean_by_step(place: NDArray[np.int64], rtt_s: Floats, size: int) -> tuple[Floats, Floats]:
    """The mean RTT of the samples in each step, NaN without an answer, and the share that was lost.

    ``place`` is the step of each sample, below ``size``.
    """
    finite = np.isfinite(rtt_s)
    summed = np.bincount(place[finite], rtt_s[finite], minlength=size)
    answered = np.bincount(place[finite], minlength=size)
    probed = np.bincount(place, minlength=size)
    rtt = np.where(answered > 0, summed / np.maximum(answered, 1), np.nan)
    return rtt, (probed - answered) / np.maximum(probed, 1)


def random_folds(codes: Codes, count: int, rng: np.random.Generator) -> Iterator[Fold]:
    """``count`` folds, each with its share of each class."""
    yield from _folds(_dealt(codes, rng) % count)


def whole_folds(codes: Codes, groups: Names, count: int, rng: np.random.Generator) -> Iterator[Fold]:
    """``count`` folds that keep groups whole, each with its share of each class's groups as far as can be.

    A fold is left out when a class it tests would be missing from what it trains on, or when nothing is left
    to train on; there is none at all when each class has one group.
    """
    named, of_row = np.unique(groups, return_inverse=True)
    first = np.array([codes[np.flatnonzero(of_row == group)[0]] for group in range(len(named))])
    for train, test in _folds((_dealt(first, rng) % count)[of_row]):
        if np.isin(codes[test], codes[train]).all():
            yield train, test


def leave_out(groups: Names) -> Iterator[Fold]:
    """A fold for each group, tested alone; none when there is one group only."""
    yield from _folds(np.unique(groups, return_inverse=True)[1])


def _dealt(codes: Codes, rng: np.random.Generator) -> Rows:
    """Consecutive numbers for the members of each class, which are shuffled, class after class."""
    order = np.lexsort((rng.permutation(len(codes)), codes))
    found = np.empty(len(codes), np.intp)
    found[order] = np.arange(len(codes))
    return found


def _folds(number: Rows) -> Iterator[Fold]:
    for fold in np.unique(number):
        test = number == fold
        if not test.all():
            yield np.flatnonzero(~test), np.flatnonzero(test)
