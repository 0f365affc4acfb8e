"""Who else is on a path, by its round trips: recordings, models trained on them, and what they say.

What takes time to load is loaded by the call that needs it: the help of the command line shows the names of
the classifiers.
"""

import os
from pathlib import Path

from howdah import HowdahError, replaced
from howdah.recognition.classifiers import CLASSIFIERS
from howdah.recognition.classifiers import classifier as named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from howdah.archive import Archive
    from howdah.library.ended import Name
    from howdah.recognition.model import Model
    from howdah.recognition.recognise import Recognised
    from howdah.recognition.recording import Recording
    from howdah.recognition.training import Comparison, Training

__all__ = ["CLASSIFIERS", "compare", "keep", "recognise", "train"]


def keep(
    record: str, file: "Name", *, others: str | None = None, archive: "Archive | None" = None
) -> "Recording":
    """Writes the series of a probing in the archive as a recording, and returns that.

    Args:
        record: the id of the probing, or ``last``.
        file: the recording; its name ends in .npz.
        others: who was there, as ``1 bbr, 2 cubic`` or ``nobody``; None: not known.
        archive: by default the user's.

    Raises:
        HowdahError: for another name, a congestion control that is not known, another kind of record, and a
            file that cannot be written.
    """
    file = _npz(file, "a recording", "file")
    told = None if others is None else _told(others)
    from howdah.archive import Archive  # noqa: PLC0415
    from howdah.recognition.files import write_recording  # noqa: PLC0415
    from howdah.recognition.recording import recording_of  # noqa: PLC0415

    found = (archive or Archive()).load(record)
    made = recording_of(found, told)
    write_recording(made, file)
    return made


def train(
    recordings: "Name | Sequence[Name]",
    model: "Name",
    *,
    classifier: str = "trees",
    window_s: float = 10.0,
    step_s: float | None = None,
    on_step: "Callable[[str], None]" = lambda what: None,
) -> "Training":
    """Trains a model and writes it, with its training record beside it, which is returned.

    Args:
        recordings: files, or folders of them, that say who was there.
        model: the file to write; its name ends in .npz.
        classifier: one of ``CLASSIFIERS``.
        window_s: what is judged at once, seconds.
        step_s: seconds between two round trips; by default 0.02, or the recordings' own.
        on_step: called with each step in words.

    Raises:
        HowdahError: where the recordings are not enough, and for files that cannot be read or written.
    """
    model = _npz(model, "a model", "model")
    kind = named(classifier)
    if not model.absolute().parent.is_dir():
        raise HowdahError(f"there is no folder {model.parent}; make it first")
    import msgspec  # noqa: PLC0415

    from howdah import document, interrupt  # noqa: PLC0415
    from howdah.recognition import training  # noqa: PLC0415
    from howdah.recognition.files import save_model  # noqa: PLC0415

    trained = training.train(_readable(recordings), kind, window_s, step_s, on_step)
    file = training.record_file(model)
    with interrupt.Held():
        kept = msgspec.structs.replace(trained.record, model=save_model(trained.model, model))
        try:
            file.write_bytes(document.encode(kept))
        except OSError as error:
            raise HowdahError(f"cannot write {file}: {error.strerror}; the model itself is written") from None
    return kept


def compare(
    recordings: "Name | Sequence[Name]",
    *,
    classifiers: "Sequence[str] | None" = None,
    window_s: float = 10.0,
    step_s: float | None = None,
    on_step: "Callable[[str], None]" = lambda what: None,
) -> "Comparison":
    """How good classifiers are, trained and tested on the same recordings by each protocol they allow.

    ``classifiers`` are names of ``CLASSIFIERS``; None: all. The other arguments, and the errors, are those
    of ``train``.
    """
    kinds = [named(name) for name in classifiers or CLASSIFIERS]
    from howdah.recognition.training import comparison  # noqa: PLC0415

    return comparison([each for each, _ in _readable(recordings)], kinds, window_s, step_s, on_step)


def recognise(recordings: "Name | Sequence[Name]", *, model: "Name | None" = None) -> "list[Recognised]":
    """Who is there in recordings, window by window.

    ``model`` is the file of one; None: the one for what of ours was on the path, the user's own or one that
    comes with howdah. Raises HowdahError where there is none, and for files that cannot be read.
    """
    from howdah.recognition.files import load_model, read_recording, recording_files  # noqa: PLC0415
    from howdah.recognition.recognise import Recognised  # noqa: PLC0415

    given = load_model(Path(model)) if model else None
    found = []
    for file in recording_files(_paths(recordings)):
        heard, _ = read_recording(file)
        judge, digest = given or _default(heard, file)
        found.append(
            Recognised(
                file=str(file),
                run=heard.run,
                path=heard.path,
                background=heard.label,
                model=digest,
                heard=judge.recognise(heard),
            )
        )
    return found


_SENDERS = (
    *("bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno"),
    *("scalable", "vegas", "veno", "westwood", "yeah"),
)
"""The congestion controls of Linux, of which another host may have more than this one."""


def _told(others: str) -> "dict[str, int]":
    """The streams of others; refuses those that nobody sends, which a model would learn as a class."""
    from howdah import _native  # noqa: PLC0415
    from howdah.arguments import BadArgument  # noqa: PLC0415
    from howdah.recognition.recording import background  # noqa: PLC0415
    from howdah.values.listened import NOBODY  # noqa: PLC0415
    from howdah.values.record import HostLimits  # noqa: PLC0415

    found = background(others)
    here = HostLimits.here().congestion_controls_available
    known = {*_SENDERS, *_native.CC_PROGRAMS, *here, "udp"}
    if unknown := sorted({*found} - known):
        raise BadArgument(
            f"{{others}} names {' and '.join(unknown)}, which is no congestion control known here; "
            f"give {NOBODY}, or of {', '.join(sorted(known))}"
        )
    return found


def _default(heard: "Recording", file: "Path") -> "tuple[Model, str]":
    from howdah.recognition.recognise import model_for  # noqa: PLC0415

    kept = model_for(heard.situation)
    if kept is None:
        from howdah.arguments import NotHere, literal  # noqa: PLC0415

        raise NotHere(
            f"{literal(str(file))}: no model comes with howdah for {heard.situation} of ours on the path; "
            "give one with {model}"
        )
    return kept.model, kept.digest


def _paths(given: "Name | Sequence[Name]") -> "list[Path]":
    return [Path(given)] if isinstance(given, str | os.PathLike) else [Path(each) for each in given]


def _readable(places: "Name | Sequence[Name]") -> "list[tuple[Recording, str]]":
    from howdah.recognition.files import read_recording, recording_files  # noqa: PLC0415

    return [read_recording(file) for file in recording_files(_paths(places))]


def _npz(name: "Name", what: str, argument: str) -> "Path":
    file = Path(name)
    if file.suffix != ".npz":
        from howdah.arguments import BadArgument, literal  # noqa: PLC0415

        mended = literal(str(file.with_suffix(".npz")))
        raise BadArgument(f"{what} must end in .npz; give {mended} as {{{argument}}}")
    try:
        replaced.check(file)
    except OSError as error:
        raise HowdahError(f"cannot write {file}: {error.strerror}") from None
    return file
