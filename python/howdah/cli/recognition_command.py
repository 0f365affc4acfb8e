"""``howdah shared`` from the arguments of its commands to what they print."""

import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from howdah import HowdahError, document, interrupt
from howdah.archive import Archive
from howdah.recognition.classifiers import CLASSIFIERS, classifier
from howdah.recognition.files import load_model, read_recording, recording_files, save_model, write_recording
from howdah.recognition.model import Model, Recognition
from howdah.recognition.recognise import model_for
from howdah.recognition.recording import Recording, background, recording_of
from howdah.recognition.training import Scores, Tick, Training, evaluate, possible, record_file, train
from howdah.recognition.windows import default_step_s, examples
from howdah.text import count

_PROTOCOLS = {"runs": "runs not seen", "paths": "paths not seen", "random": "random folds"}


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One classifier by all protocols that the recordings allow, as ``compare --json`` prints it."""

    classifier: str
    what: str
    scores: list[Scores]


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """One recording, as ``recognise --json`` prints it."""

    file: str
    run: str
    path: str
    background: str | None
    """What the recording says was there; null when it does not."""
    model: str
    """Digest of the model's file."""
    heard: list[Recognition]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """As ``keep --json`` prints it."""

    file: str
    run: str
    path: str
    background: str | None


def keep(name: str, others: str | None, output: Path, *, json: bool) -> None:
    """Writes the series of a probe in the archive as a recording. Raises HowdahError."""
    _check_npz(output, "a recording")
    made = recording_of(Archive().load(name), None if others is None else background(others))
    write_recording(made, output)
    if json:
        document.show(Kept(file=str(output), run=made.run, path=made.path, background=made.label))
    else:
        print(f"{output}: {made.run} to {made.path}, {made.label or 'who was there is not known'}")


def _check_npz(output: Path, what: str) -> None:
    if output.suffix != ".npz":
        raise HowdahError(f"{what} is a file that ends in .npz; give -o {output.with_suffix('.npz')}")


def make(
    places: list[Path],
    output: Path,
    name: str,
    window_s: float,
    step_s: float | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Trains a model and keeps it with its training record. Raises HowdahError."""
    interrupt.install()
    _check_npz(output, "a model")
    kind = classifier(name)
    if not output.absolute().parent.is_dir():
        raise HowdahError(f"there is no folder {output.parent}; make it first")
    trained = train(_readable(places), kind, window_s, step_s, _tick(quiet or json))
    with interrupt.Held():
        digest = save_model(trained.model, output)
        record = msgspec.structs.replace(trained.record, model=digest)
        try:
            record_file(output).write_bytes(document.encode(record))
        except OSError as error:
            raise HowdahError(
                f"cannot write {record_file(output)}: {error.strerror}; the model is there"
            ) from None
    if json:
        document.show(record)
    elif not quiet:
        _tell(record, output)


def compare(
    places: list[Path], names: list[str], window_s: float, step_s: float | None, *, json: bool, quiet: bool
) -> None:
    """Prints how good classifiers are, trained and tested on the same recordings. Raises HowdahError."""
    interrupt.install()
    kinds = [classifier(name) for name in names or CLASSIFIERS]
    heard = [each for each, _ in _readable(places)]
    whole = examples(heard, window_s, step_s or default_step_s(heard))
    found = [
        Compared(
            classifier=kind.name,
            what=kind.what,
            scores=evaluate(kind, whole, possible(whole), _tick(quiet or json)),
        )
        for kind in kinds
    ]
    if json:
        document.show(found)
        return
    windows = f"{count(len(whole.labels), 'window')} of {whole.windows.length_s:g} s"
    print(f"{windows}, accuracy (is there BBR; calibration error)")
    table = Table(box=None, pad_edge=False)
    for column in ("classifier", *(_PROTOCOLS[each.protocol] for each in found[0].scores)):
        table.add_column(column, no_wrap=True)
    for each in found:
        table.add_row(each.classifier, *(_in_short(scores) for scores in each.scores))
    Console(soft_wrap=True).print(table, highlight=False)


def recognise(places: list[Path], model: Path | None, *, json: bool) -> None:
    """Prints who is there in recordings, window by window. Raises HowdahError."""
    given = load_model(model) if model else None
    found = []
    for file in recording_files(places):
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
    if json:
        document.show(found)
        return
    for one in map(document.strange, found):
        known = "" if one.background is None else f", said to be {one.background}"
        print(f"{one.file}: run {one.run} on {one.path}{known}")
        for each in one.heard:
            new = "nothing seen in training; nearest: " if each.new else ""
            when = f"{each.start_s - one.heard[0].start_s:8.1f} s"
            who = f"{new}{each.background} ({each.probability:.2f})"
            print(f"  {when}  {who} after {each.heard_s:g} s; any bbr {each.bbr:.2f}")


def _default(heard: Recording, file: Path) -> tuple[Model, str]:
    kept = model_for(heard.situation)
    if kept is None:
        raise HowdahError(
            f"{file}: no model comes with howdah for {heard.situation} of ours on the path; give one: --model"
        )
    return kept.model, kept.digest


def _readable(places: list[Path]) -> list[tuple[Recording, str]]:
    return [read_recording(file) for file in recording_files(places)]


def _tick(quiet: bool) -> Tick:
    def say(what: str) -> None:
        print(f"howdah: {what}", file=sys.stderr, flush=True)

    return (lambda what: None) if quiet else say


def _tell(record: Training, output: Path) -> None:
    used = count(len(record.recordings), "recording")
    windows = f"{count(record.windows, 'window')} of {record.window_s:g} s"
    print(f"{output}: {record.classifier}, {used}, {windows}, {len(record.classes)} classes")
    for scores in record.scores:
        print(f"  {_PROTOCOLS[scores.protocol]}: {_in_short(scores)}")
    stopped = record.stopped
    print(f"  stopping early: {stopped.accuracy:.3f} after {stopped.mean_s:.1f} s on average")
    missed = ", ".join(f"{name} {share:.2f}" for name, share in record.new.found.items())
    print(f"  called new: {record.new.false_alarms:.2f} of what is known; left out of training: {missed}")
    print(f"  the training record is {record_file(output)}")


def _in_short(scores: Scores) -> str:
    bbr = "-" if scores.accuracy_bbr is None else f"{scores.accuracy_bbr:.3f}"
    return f"{scores.accuracy:.3f} ({bbr}; {scores.calibration_error:.3f})"
