"""``howdah shared``."""

from pathlib import Path
from typing import Annotated

import typer

from howdah._native import parse_duration
from howdah.recognition.classifiers import CLASSIFIERS

app = typer.Typer(rich_markup_mode=None, subcommand_metavar="COMMAND", help="Who else is on a shared path.")

_KEEP_EPILOG = """\b
Examples:
  howdah shared keep last --others "1 bbr, 2 cubic" -o run7.npz
  howdah shared keep last --others nobody -o quiet.npz
  howdah shared keep last -o unknown.npz        who was there is not known
"""
_DATASET_EPILOG = """\b
Examples:
  howdah shared dataset scenarios/shared-dataset-short.toml -o recordings     in labs on this machine
  howdah shared dataset scenarios/shared-dataset.toml -o recordings --dry-run what it is, how long it takes
  howdah shared train recordings/nothing -o model.npz                         of nothing of ours on the path

One that was stopped, however that was, goes on when the same command is given again. A plan is TOML; every
key is in docs/shared.md.
"""
_TRAIN_EPILOG = """\b
Examples:
  howdah shared train recordings/ -o model.npz
  howdah shared train recordings/ -o model.npz --classifier kernels --window 5s --json

What each number means is in docs/shared.md.
"""
_COMPARE_EPILOG = """\b
Examples:
  howdah shared compare recordings/
  howdah shared compare recordings/ --classifier trees --classifier 1-nn --window 10s

All but 1-nn and gnb are trained by scikit-learn: pip install 'howdah[train]'
"""
_RECOGNISE_EPILOG = """\b
Examples:
  howdah shared recognise run7.npz
  howdah shared recognise recordings/ --model model.npz --json

Without --model it is the one that comes with howdah, or one of yours in its place: docs/shared.md.
"""

Recordings = Annotated[
    list[Path],
    typer.Argument(metavar="RECORDINGS", help="Files (.npz), or folders of them.", show_default=False),
]
Window = Annotated[str, typer.Option(metavar="TIME", help="What is judged at once, as 10s.")]
Step = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Between RTTs; without it 20ms, or the recordings' own.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No line for each step.")]
_CLASSIFIER = f"{', '.join(CLASSIFIERS)}; each is explained in docs/shared.md."


@app.callback()
def shared() -> None:
    """Recognise who else is on a shared path, by its RTTs."""


@app.command("keep", epilog=_KEEP_EPILOG)
def keep(
    name: Annotated[str, typer.Argument(metavar="ID|last", help="Of a probe's record.", show_default=False)],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Ends in .npz.", show_default=False)
    ],
    others: Annotated[
        str | None,
        typer.Option(metavar="STREAMS", help="Who was there, if it is known.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Keep what a probe heard as a recording, with who was there."""
    from howdah.cli import recognition_command as command  # noqa: PLC0415

    command.keep(name, others, output, json=json)


@app.command("dataset", epilog=_DATASET_EPILOG)
def dataset(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="What to record.", show_default=False)],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Of the recordings.", show_default=False)
    ],
    cores: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Of processors to use; all by default.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be recorded and how long it takes.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Record what is to be learnt from in labs on this machine, several at once."""
    from howdah.cli import dataset_command as command  # noqa: PLC0415

    raise typer.Exit(command.dataset(plan, output, cores, dry_run=dry_run, json=json, quiet=quiet))


@app.command("train", epilog=_TRAIN_EPILOG)
def train(
    recordings: Recordings,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Ends in .npz.", show_default=False)
    ],
    classifier: Annotated[str, typer.Option(metavar="NAME", help=_CLASSIFIER)] = "trees",
    window: Window = "10s",
    step: Step = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on recordings that say who was there; its training record is written beside it."""
    window_s, step_s = _seconds(window), _seconds(step) if step else None
    from howdah.cli import recognition_command as command  # noqa: PLC0415

    command.make(recordings, output, classifier, window_s, step_s, json=json, quiet=quiet)


@app.command("compare", epilog=_COMPARE_EPILOG)
def compare(
    recordings: Recordings,
    *,
    classifier: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"{_CLASSIFIER} All by default.", show_default=False),
    ] = None,
    window: Window = "10s",
    step: Step = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare classifiers on recordings: on runs and paths not seen, and random folds as the paper does."""
    window_s, step_s = _seconds(window), _seconds(step) if step else None
    from howdah.cli import recognition_command as command  # noqa: PLC0415

    command.compare(recordings, classifier or [], window_s, step_s, json=json, quiet=quiet)


@app.command("recognise", epilog=_RECOGNISE_EPILOG)
def recognise(
    recordings: Recordings,
    *,
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="As trained.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Say who is there in each window of recordings, how sure that is, or that it is like nothing seen."""
    from howdah.cli import recognition_command as command  # noqa: PLC0415

    command.recognise(recordings, model, json=json)


def _seconds(text: str) -> float:
    return parse_duration(text) / 1e9
