"""A plan of a data set as a person writes it, in TOML: every value has its unit.

For example::

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

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from howdah import HowdahError, tomlfile
from howdah.dataset.plan import DatasetPlan, PathSpec, StreamCounts
from howdah.lab import dumbbell, labfile
from howdah.recognition.recording import background, label
from howdah.tomlfile import Duration, Rate

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
