"""The files of models: the user's own, and those that come with howdah."""

from pathlib import Path

from howdah.archive import default_root

SHIPPED = Path(__file__).parent


def file(situation: str) -> Path | None:
    """The file of the model for a situation: the user's own, else the one that comes with howdah, if any."""
    return next((path for path in (own(situation), SHIPPED / f"{situation}.npz") if path.exists()), None)


def own(situation: str) -> Path:
    """The file where a model of the user's own is looked for first."""
    return default_root().parent / "models" / f"{situation}.npz"
