"""Where models of who is there are: the user's own and howdah's."""

from pathlib import Path

from howdah.archive import default_root

SHIPPED = Path(__file__).parent


def file(situation: str) -> Path | None:
    """The model of what of ours is on the path: the user's own, else what comes with howdah, else none."""
    return next((path for path in (own(situation), SHIPPED / f"{situation}.npz") if path.exists()), None)


def own(situation: str) -> Path:
    """Where one of the user's own is looked for first."""
    return default_root().parent / "models" / f"{situation}.npz"
