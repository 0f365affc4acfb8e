"""The table of ``howdah shared``."""

from howdah.cli.table import Argument, Command, Option, as_json, duration, path
from howdah.library.recognition import CLASSIFIERS
from howdah.text import with_extra

_CLASSIFIERS = "Each is explained in docs/shared.md."
_RECORDINGS = Argument(
    "RECORDINGS", "Files (.npz), or folders of them.", key="recordings", many=True, kind=path
)
_WINDOWS = (
    Option(
        "--window TIME",
        "The length of each window that is judged.",
        key="window_s",
        kind=duration,
        default="10s",
    ),
    Option(
        "--step TIME",
        "The time between RTTs. Default: 20ms, or the recordings' own.",
        key="step_s",
        kind=duration,
    ),
)
_QUIET = Option("-q, --quiet", "Print no line for each step.")
_JSON = as_json("Print all numbers as JSON.")

_KEEP = Command(
    "keep",
    "Save the round trips of a probe as a recording, with the competing traffic.",
    run="shared_command.keep",
    rows={
        "What is kept": [
            Argument("ID|last", "The record of a probe.", key="name"),
            Option("--others STREAMS", "The competing traffic, if it is known."),
        ],
        "Output": [
            Option(
                "-o, --output FILE",
                "The recording; it ends in .npz. It replaces a file of this name.",
                kind=path,
                required=True,
                sets=["file"],
            ),
            _JSON,
        ],
    },
    examples="""\
howdah shared keep last --others "1 bbr, 2 cubic" -o run7.npz
howdah shared keep last --others nobody -o quiet.npz
howdah shared keep last -o unknown.npz  the competing traffic is not known""",
)

_DATASET = Command(
    "dataset",
    "Record training data in labs on this machine, several at once.",
    run="shared_command.dataset",
    rows={
        "What is recorded": [
            Argument("PLAN.toml", "What to record.", key="plan", kind=path),
            Option("--cores NUMBER", "How many processors to use. Default: all.", kind=float),
            Option("--dry-run", "Print what would be recorded and how long it takes."),
        ],
        "Output": [
            Option("-o, --output FOLDER", "The folder for the recordings.", kind=path, required=True),
            _JSON,
            _QUIET,
        ],
    },
    examples="""\
howdah shared dataset plan.toml -o recordings            in labs on this machine
howdah shared dataset plan.toml -o recordings --dry-run  what, and how long it takes
howdah shared train recordings/nothing -o model.npz      without our own streams""",
    notes="If it is stopped, the same command goes on with it. A plan is TOML; docs/shared.md has every key.",
)

_TRAIN = Command(
    "train",
    "Train a model on recordings whose competing traffic is known.",
    text="Its training record is written beside it.",
    run="shared_command.make",
    rows={
        "What is trained": [
            _RECORDINGS,
            Option(
                "--classifier NAME", _CLASSIFIERS, key="classifier", choices=(*CLASSIFIERS,), default="trees"
            ),
            *_WINDOWS,
        ],
        "Output": [
            Option(
                "-o, --output MODEL",
                "The model; it ends in .npz.",
                kind=path,
                required=True,
                sets=["model"],
            ),
            _JSON,
            _QUIET,
        ],
    },
    examples="""\
howdah shared train recordings/ -o model.npz
howdah shared train recordings/ -o model.npz --classifier kernels --window 5s --json""",
    notes="docs/shared.md explains each number.",
)

_COMPARE = Command(
    "compare",
    "Compare classifiers on recordings.",
    text="They are tested on unseen runs, on unseen paths, and in random folds as in the paper.",
    run="shared_command.compare",
    rows={
        "What is compared": [
            _RECORDINGS,
            Option(
                "--classifier NAME",
                f"{_CLASSIFIERS} Default: all.",
                key="classifiers",
                choices=(*CLASSIFIERS,),
                many=True,
            ),
            *_WINDOWS,
        ],
        "Output": [_JSON, _QUIET],
    },
    examples="""\
howdah shared compare recordings/
howdah shared compare recordings/ --classifier trees --classifier 1-nn --window 10s""",
    notes=f"All but 1-nn and gnb are trained by scikit-learn: {with_extra('train')}",
)

_RECOGNISE = Command(
    "recognise",
    "Name the competing traffic in each window of recordings, with its probability.",
    run="shared_command.recognise",
    rows={
        "What is judged": [_RECORDINGS, Option("--model MODEL", "A trained model.", kind=path)],
        "Output": [_JSON],
    },
    examples="""\
howdah shared recognise run7.npz
howdah shared recognise recordings/ --model model.npz --json""",
    notes="Without --model, your own model is used, or else the one that comes with howdah (docs/shared.md).",
)

COMMANDS = (
    Command(
        "shared",
        "Recognise competing traffic on a shared path by its RTTs.",
        commands={"Commands": [_KEEP, _DATASET, _TRAIN, _COMPARE, _RECOGNISE]},
    ),
)
