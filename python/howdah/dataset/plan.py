"""The plan of a data set: every class, in every situation of ours, on every path, in several runs.

A person writes it in TOML: every value has its unit. For example::

    name = "paths-of-ours"
    length = "60s"                 # of each recording
    settle = "25s"                 # before it, in which the streams begin, each at an instant of its own
    runs = 3                       # of each class on each path, with other instants
    runs_beside_ours = 1           # the same beside streams of ours; default: runs
    seed = 1
    late_again = 1                 # a run the machine was too slow for is made again at most so often
    classes = ["nobody", "1 cubic", "1 bbr", "1 bbr, 1 cubic", "2 bbr", "2 cubic"]   # the default
    ours = ["nobody", "1 cubic"]   # beside them, streams of this host; default: ["nobody"]
    bursts = true                  # or those of active probing; default: false

    [[path]]                       # in any number
    name = "overlay-1"
    rate = "500Mbit"
    rtt = "128ms"
    queue = "6MB"                  # or "0.75BDP"; default one
    lan_rate = "1Gbit"             # of each host's cable; absent: not shaped
    runs = 5                       # and runs_beside_ours, settle; absent: as above
"""

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from howdah import HowdahError, tomlfile
from howdah.lab import dumbbell, labfile
from howdah.recognition.recording import BURSTS, background, label, situation
from howdah.tomlfile import Duration, Rate
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
        for path, others, ours in itertools.product(self.paths, self.classes, self.ours):
            bursts = (PROFILE,) if self.bursts else ()
            made = (path.link, path.lan_bps, path.settle_s, self.length_s, self.seed, *bursts)
            digest = hashlib.blake2b(msgspec.json.encode(made), digest_size=4).hexdigest()
            for repeat in range(path.beside_ours if ours else path.runs):
                beside = BURSTS if self.bursts else _short(ours)
                file = f"{path.name}.{_short(others)}.beside-{beside}.{repeat + 1}"
                yield (
                    repeat,
                    Run(
                        name=f"{self.name}-{digest}.{file}",
                        file=str(Path(situation(ours, bursts=self.bursts)) / f"{file}.npz"),
                        path=path,
                        background=others,
                        ours=ours,
                        bursts=self.bursts,
                        length_s=self.length_s,
                        seed=self.seed,
                    ),
                )


def _short(streams: Mapping[str, int]) -> str:
    """The streams in a file name, as ``1bbr+1cubic``."""
    return label(dict(streams)).replace(" ", "").replace(",", "+") if streams else "nobody"


SEE = "see: howdah shared dataset --help"
CLASSES = ("nobody", "1 cubic", "1 bbr", "1 bbr, 1 cubic", "2 bbr", "2 cubic")
"""The paper's classes."""
_SHORTEST_S, _LONGEST_S = 5.0, 86_400.0
_LONGEST_SETTLE_S = 3600.0

_Count = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class _PathTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    rate: Rate
    rtt: Duration
    queue: str | None = None
    lan_rate: Rate | None = None
    settle: Duration | None = None
    runs: _Count | None = None
    runs_beside_ours: _Count | None = None


class _DatasetTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    length: Duration
    path: list[_PathTable]
    summary: str = ""
    settle: Duration = Duration(25_000_000_000)
    runs: _Count = 3
    runs_beside_ours: _Count | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1
    late_again: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    classes: tuple[str, ...] = CLASSES
    ours: tuple[str, ...] = ("nobody",)
    bursts: bool = False


def load(file: Path) -> DatasetPlan:
    """The plan in ``file``. Raises HowdahError saying the file, the key and what to do."""
    return loads(tomlfile.read(file, SEE), str(file))


def loads(text: str, where: str) -> DatasetPlan:
    """A plan from TOML, as ``load``."""
    given = tomlfile.loads(text, where, _DatasetTable, SEE)
    plan = DatasetPlan(
        name=tomlfile.name(given.name, f"{where}: name"),
        summary=" ".join(given.summary.split()),
        paths=tuple(_path(each, given, f"{where}: path {each.name}") for each in given.path),
        classes=_streams(given.classes, f"{where}: classes"),
        ours=_streams(given.ours, f"{where}: ours"),
        bursts=given.bursts,
        length_s=given.length.seconds_within(_SHORTEST_S, _LONGEST_S, f"{where}: length"),
        seed=given.seed,
        late_again=given.late_again,
    )
    _once((path.name for path in plan.paths), f"{where}: path")
    if plan.bursts and any(plan.ours):
        raise HowdahError(f"{where}: bursts exclude other streams of ours; leave ours out")
    if not plan.runs():
        raise HowdahError(f"{where} records nothing; it needs a [[path]], classes, and runs; {SEE}")
    return plan


def _path(given: _PathTable, plan: _DatasetTable, where: str) -> PathSpec:
    lan_bps = None if given.lan_rate is None else int(given.lan_rate)
    try:
        link = labfile.link(labfile.LabOptions(rate=str(given.rate), rtt=str(given.rtt), queue=given.queue))
        dumbbell(1, 1, lan_rate_bps=lan_bps)
    except HowdahError as error:
        raise HowdahError(f"{where}: {str(error).removeprefix('--')}") from None
    runs = plan.runs if given.runs is None else given.runs
    beside = [given.runs_beside_ours, None if given.runs is not None else plan.runs_beside_ours, runs]
    settle = plan.settle if given.settle is None else given.settle
    return PathSpec(
        name=tomlfile.name(given.name, f"{where}: name"),
        link=link,
        lan_bps=lan_bps,
        runs=runs,
        beside_ours=next(each for each in beside if each is not None),
        settle_s=settle.seconds_within(0.0, _LONGEST_SETTLE_S, f"{where}: settle"),
    )


def _streams(texts: tuple[str, ...], where: str) -> tuple[StreamCounts, ...]:
    found = tuple(_background(text, where) for text in texts)
    _once(map(label, found), where)
    return found


def _once(names: Iterable[str], where: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise HowdahError(f"{where}: {twice[0]} is listed twice; remove one")


def _background(text: str, where: str) -> StreamCounts:
    try:
        return background(text)
    except HowdahError as error:
        raise HowdahError(f"{where}: {error}") from None
