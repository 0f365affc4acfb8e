"""All that a page says, as values: what ``howdah report --json`` prints, and the page is rendered from."""

from datetime import UTC, datetime

import msgspec

from howdah import __version__
from howdah.report import setting
from howdah.report.cells import in_words as configuration_words
from howdah.report.figures import COUNTERPARTS, FAMILIES, build
from howdah.report.figures.figure import Drawn, Lacking, everything
from howdah.report.material import Material
from howdah.report.models import Beside, beside
from howdah.report.selection import Chosen, choices, left_out
from howdah.report.statements import Judged, judge
from howdah.values.record import Record


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    number: str
    """Of the paper's."""
    title: str
    paper: str
    """What the paper's shows."""
    ours: list[str]
    """What ours shows; empty where there is none."""
    lacking: str | None
    """Why there is none, and what would measure it."""
    statements: list[str]
    """Keys of those that compare the two."""


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """Where one configuration's profile turns."""

    configuration: str
    shape: str
    rtt_s: float
    low_s: float
    high_s: float
    sigmoids_s: float
    """As the paper finds it."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """A report."""

    made_at: datetime
    version: str
    path: str
    setting: list[setting.Fact]
    statements: list[Judged]
    figures: list[Shown]
    transitions: list[Turned]
    models: list[Beside]
    selection: list[Chosen]
    left_out: str
    """How good selection is at RTTs left out."""


MODELS = "models"
"""The figure that has no counterpart, in place of a number."""


def contents(material: Material, record: Record) -> tuple[Contents, dict[str, Drawn]]:
    """The contents, and the figures by number; ``record`` is the newest run that counts."""
    built = {each.number: build(each, material) for each in COUNTERPARTS}
    drawn = {number: each for number, each in built.items() if isinstance(each, Drawn)}
    figures = [
        Shown(
            number=each.number,
            title=each.title,
            paper=each.paper,
            ours=drawn[each.number].shows if each.number in drawn else [],
            lacking=found.needs if isinstance(found := built[each.number], Lacking) else None,
            statements=list(each.statements),
        )
        for each in COUNTERPARTS
    ]
    whole = Contents(
        made_at=datetime.now(UTC),
        version=__version__,
        path=material.path,
        setting=setting.facts(material, record),
        statements=judge(material),
        figures=figures,
        transitions=_transitions(material),
        models=beside(material, material.cells.rates),
        selection=choices(material),
        left_out=left_out(material),
    )
    modelled = FAMILIES[MODELS](material, everything(material.cells))
    return whole, drawn if isinstance(modelled, Lacking) else {**drawn, MODELS: modelled}


def _transitions(material: Material) -> list[Turned]:
    found = ((each, material.transition(each), material.sigmoids(each)) for each in material.cells.rates)
    return [
        Turned(
            configuration=configuration_words(each),
            shape=str(one.shape),
            rtt_s=one.rtt_s,
            low_s=one.interval_s[0],
            high_s=one.interval_s[1],
            sigmoids_s=fit.transition_s,
        )
        for each, one, fit in found
        if one is not None and fit is not None
    ]
