"""All that a page says, as values: what ``howdah report --json`` prints, and the page is rendered from."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError, __version__
from howdah.profiles.selection import ranked
from howdah.profiles.selection.evaluate import draw, evaluate
from howdah.profiles.selection.predict import NextRun, Predictor
from howdah.report.cells import buffer_words, in_ms, in_words, milliseconds, name
from howdah.report.figures import COUNTERPARTS, FAMILIES, build
from howdah.report.figures.canvas import DrawnFigure, FigureNeeds, everything
from howdah.report.figures.models import ModelErrors, model_errors
from howdah.report.material import Material
from howdah.report.statements import JudgedStatement, judge
from howdah.text import count
from howdah.values.record import Record

SettingRow = tuple[str, str, str]
"""The columns of a row: what, ours, the paper's; "" where it has none."""


class ChoiceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The choice at one RTT; rates of the next run, with 90 %."""

    rtt_s: float
    configuration: str
    rate_low_bps: float
    rate_mid_bps: float
    rate_high_bps: float
    second: str | None
    """The next best configuration; null where nothing else was measured."""
    second_low_bps: float | None


class FigureEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    number: str
    """The number of the paper's figure."""
    title: str
    paper: str
    """A description of the paper's figure."""
    ours: list[str]
    """Sentences on our figure; empty where there is none."""
    lacking: str | None
    """The reason why there is none, and what would measure it."""
    statements: list[str]
    """The keys of the statements that compare the two."""


class TransitionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The transition of one configuration's profile."""

    configuration: str
    shape: str
    rtt_s: float
    low_s: float
    high_s: float
    sigmoids_s: float
    """The transition RTT as the paper finds it."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """A report."""

    made_at: datetime
    version: str
    path: str
    setting: list[SettingRow]
    statements: list[JudgedStatement]
    figures: list[FigureEntry]
    transitions: list[TransitionEntry]
    models: list[ModelErrors]
    selection: list[ChoiceEntry]
    left_out: str
    """A sentence on how good selection is at RTTs left out."""


MODELS = "models"
"""The figure that has no counterpart, in place of a number."""


def contents(material: Material, record: Record) -> tuple[Contents, dict[str, DrawnFigure]]:
    """The contents, and the figures by number; ``record`` is the newest run that counts."""
    built = {each.number: build(each, material) for each in COUNTERPARTS}
    drawn = {number: each for number, each in built.items() if isinstance(each, DrawnFigure)}
    figures = [
        FigureEntry(
            number=each.number,
            title=each.titled(material.cells),
            paper=each.paper,
            ours=drawn[each.number].shows if each.number in drawn else [],
            lacking=found.needs if isinstance(found := built[each.number], FigureNeeds) else None,
            statements=list(each.statements),
        )
        for each in COUNTERPARTS
    ]
    whole = Contents(
        made_at=datetime.now(UTC),
        version=__version__,
        path=material.path,
        setting=setting_rows(material, record),
        statements=judge(material),
        figures=figures,
        transitions=_transitions(material),
        models=model_errors(material, material.cells.rates),
        selection=choices(material),
        left_out=left_out(material),
    )
    modelled_profile = FAMILIES[MODELS](material, everything(material.cells))
    return whole, drawn if isinstance(modelled_profile, FigureNeeds) else {**drawn, MODELS: modelled_profile}


def _transitions(material: Material) -> list[TransitionEntry]:
    found = ((each, material.transition(each), material.sigmoids(each)) for each in material.cells.rates)
    return [
        TransitionEntry(
            configuration=in_words(each),
            shape=str(one.shape),
            rtt_s=one.rtt_s,
            low_s=one.interval_s[0],
            high_s=one.interval_s[1],
            sigmoids_s=fit.transition_s,
        )
        for each, one, fit in found
        if one is not None and fit is not None
    ]


def setting_rows(material: Material, record: Record) -> list[SettingRow]:
    """The set-up, from the runs that count and the environment of ``record``, the newest of them."""
    runs = material.all
    shortest, longest, middle = np.min(runs.elapsed_s), np.max(runs.elapsed_s), np.median(runs.elapsed_s)
    buffers = sorted({each.buffer_bytes for each in material.cells.rates}, key=lambda size: size or np.inf)
    return [
        ("path", material.path, "10GigE, 10 Gb/s, and SONET OC-192, 9.6 Gb/s, emulated in hardware"),
        ("hosts", _hosts(record), "four hosts of 32 cores, Linux 2.6 and 3.10"),
        (
            "congestion control",
            _controls(material),
            "CUBIC, H-TCP, Scalable; in 2015 also Reno and HighSpeed",
        ),
        ("streams", ", ".join(str(each) for each in _distinct(runs.streams)), "1 to 10"),
        ("buffer of a stream", ", ".join(map(buffer_words, buffers)), "244 KB, 256 MB, 1 GB"),
        (
            "RTT",
            ", ".join(map(in_ms, _distinct(runs.rtt_s))) + " ms",
            "0.4, 11.8, 22.6, 45.6, 91.6, 183, 366 ms",
        ),
        (
            "length of a run",
            f"{shortest:.3g} to {longest:.3g} s, the median {middle:.3g} s",
            "about 1, 20, 50, 100 GB; traces of 100 s",
        ),
        ("runs that count", f"{len(runs):,}, from {_day(runs.id[0])} to {_day(runs.id[-1])}", "10 of a cell"),
        ("runs left out", _left_out(material), ""),
        ("howdah", record.version, "iperf and tcpprobe"),
    ]


def _hosts(record: Record) -> str:
    near = record.environment.near
    where = (
        "one machine, both ends and the link's emulator on it" if record.environment.link else "the near one"
    )
    return f"{where}: {count(near.cpus, 'CPU')}, Linux {near.kernel}"


def _controls(material: Material) -> str:
    found = []
    for control in _distinct(material.all.congestion_control):
        programs = material.all.where(congestion_control=str(control)).program
        source = "howdah's BPF program" if programs.all() else "the kernel's"
        found.append(f"{name(str(control))} ({'both' if programs.any() and not programs.all() else source})")
    return ", ".join(found)


def _left_out(material: Material) -> str:
    parts = [
        f"{each.late} of {count(each.runs, 'run')} at {milliseconds(rtt_s)}"
        for rtt_s, each in material.late.items()
        if each.late
    ]
    late = f"late, that is spoilt by this machine: {', '.join(parts)}" if parts else "none was late"
    files = material.not_memory
    return f"{late}; {count(files, 'run')} of files" if files else late


def _day(run: str) -> str:
    return f"{run[:4]}-{run[4:6]}-{run[6:8]}"


def _distinct(column: NDArray[Any]) -> list[Any]:
    return list(np.unique(column).tolist())


SEED = 2017
"""The seed that draws the RTTs that are left out."""


def choices(material: Material) -> list[ChoiceEntry]:
    """The choice at each RTT that was measured."""
    predictor = Predictor(material.cells.runs)
    ranking = ((float(rtt_s), ranked(predictor.at(float(rtt_s)))) for rtt_s in predictor.rtt_s)
    return [_chosen(rtt_s, *found[:2]) for rtt_s, found in ranking if found]


def left_out(material: Material) -> str:
    """A sentence on how good choices and predictions are at three RTTs that are taken away before."""
    runs = material.cells.runs
    try:
        rtts = draw(runs, SEED)
        found = evaluate(runs, rtts)
    except HowdahError as error:
        return f"Not tried at RTTs left out: {error}"
    return (
        f"With {', '.join(map(milliseconds, rtts))} left out (drawn by seed {SEED}), what is chosen there "
        f"reaches {100 * found.share_mean:.3g} % of the best measured on average, "
        f"{100 * found.share_worst:.3g} % in the worst case; the median error of predictions is "
        f"{100 * found.error_median:.2g} %, and the 90 % interval holds {100 * found.coverage:.3g} % of runs."
    )


def _chosen(rtt_s: float, first: NextRun, second: NextRun | None = None) -> ChoiceEntry:
    return ChoiceEntry(
        rtt_s=rtt_s,
        configuration=in_words(first.configuration),
        rate_low_bps=first.rate_low_bps,
        rate_mid_bps=first.rate_mid_bps,
        rate_high_bps=first.rate_high_bps,
        second=None if second is None else in_words(second.configuration),
        second_low_bps=None if second is None else second.rate_low_bps,
    )
