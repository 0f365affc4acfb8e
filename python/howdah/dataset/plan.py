"""The plan of a data set: every class, in every situation of ours, on every path, in several runs."""

import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from howdah.recognition.recording import BURSTS, label, situation
from howdah.traffic.bursts import PROFILE
from howdah.values.link import LinkSpec

StreamCounts = dict[str, int]
"""Streams by congestion control; {} is none."""
QUIET_S = 2.0
"""The time before the first stream of a run."""
_AROUND_S = 3.0
"""The time that a lab takes to be made and to end."""
_CORES, _CORES_SENDING, _CORES_PER_GBPS = 0.05, 0.12, 0.4
"""The processors that probes take, and an emulator with both ends of what it carries."""


class PathSpec(msgspec.Struct, frozen=True):
    """One path to record on."""

    name: str
    link: LinkSpec
    lan_bps: int | None
    """The rate of each host's cable; null: not shaped."""
    runs: int
    """The runs of each class, alone."""
    beside_ours: int
    """The runs of each class beside each kind of streams of ours."""
    settle_s: float
    """The time for streams to settle before a recording."""

    @property
    def rtt_s(self) -> float:
        """The RTT without a queue."""
        return (self.link.near_to_far.delay_ns + self.link.far_to_near.delay_ns) / 1e9

    @property
    def rate_bps(self) -> int:
        """The rate of the bottleneck, from the senders to the receivers."""
        return self.link.near_to_far.rate_bps or 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One recording to make."""

    name: str
    """A name that no other run has, in other plans either."""
    file: str
    """The path of its recording within the folder of the data set."""
    path: PathSpec
    background: StreamCounts
    ours: StreamCounts
    bursts: bool
    """Whether active probing sends the bursts of ``howdah probe --active`` during the recording."""
    length_s: float
    seed: int
    attempt: int = 0

    @property
    def lasts_s(self) -> float:
        """The time from making the lab to its end, about."""
        return _AROUND_S + QUIET_S + self.path.settle_s + self.length_s

    @property
    def cores(self) -> float:
        """The processors of this machine that its lab takes, about."""
        sends = bool(self.background or self.ours or self.bursts)
        return _CORES + sends * (_CORES_SENDING + _CORES_PER_GBPS * self.path.rate_bps / 1e9)

    def again(self) -> "Run":
        """The same run with other offsets, for when the lab was late."""
        return msgspec.structs.replace(self, attempt=self.attempt + 1)

    def random(self) -> random.Random:
        """The random numbers of this run and attempt, the same each time."""
        return random.Random(f"{self.name} {self.seed} {self.attempt}")  # noqa: S311, no secret


class DatasetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole data set, checked."""

    name: str
    summary: str = ""
    paths: tuple[PathSpec, ...]
    classes: tuple[StreamCounts, ...]
    ours: tuple[StreamCounts, ...]
    bursts: bool
    length_s: float
    seed: int
    late_again: int

    def runs(self) -> list[Run]:
        """All runs, repeat by repeat and shuffled, so that whatever is recorded first is of every kind."""
        found = list(self._runs())
        shuffled = random.Random(self.seed)  # noqa: S311, no secret
        order = {run.name: (place, shuffled.random()) for place, run in found}
        return sorted((run for _, run in found), key=lambda run: order[run.name])

    def controls(self) -> list[str]:
        """The congestion controls of all runs, each once."""
        bursts = PROFILE.controls() if self.bursts else []
        streams = (name for each in (*self.classes, *self.ours) for name in each)
        return list(dict.fromkeys([*streams, *bursts]))

    def _runs(self) -> Iterator[tuple[int, Run]]:
        for path, background, ours in itertools.product(self.paths, self.classes, self.ours):
            bursts = (PROFILE,) if self.bursts else ()
            made = (path.link, path.lan_bps, path.settle_s, self.length_s, self.seed, *bursts)
            digest = hashlib.blake2b(msgspec.json.encode(made), digest_size=4).hexdigest()
            for repeat in range(path.beside_ours if ours else path.runs):
                beside = BURSTS if self.bursts else _short(ours)
                file = f"{path.name}.{_short(background)}.beside-{beside}.{repeat + 1}"
                yield (
                    repeat,
                    Run(
                        name=f"{self.name}-{digest}.{file}",
                        file=str(Path(situation(ours, bursts=self.bursts)) / f"{file}.npz"),
                        path=path,
                        background=background,
                        ours=ours,
                        bursts=self.bursts,
                        length_s=self.length_s,
                        seed=self.seed,
                    ),
                )


def _short(streams: Mapping[str, int]) -> str:
    """The streams in a file name, as ``1bbr+1cubic``."""
    return label(dict(streams)).replace(" ", "").replace(",", "+") if streams else "nobody"
