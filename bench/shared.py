"""Recognition against its targets and what the OPS paper reached: ``make bench-shared ARGS=RECORDINGS``.

RECORDINGS is a folder that ``howdah shared dataset scenarios/shared-dataset-short.toml`` has made, and
``scenarios/shared-dataset-active.toml`` as well. Scores are of windows that the classifier had not seen,
by the protocol that the row names; the last rows are of recordings beside streams of ours, and stay as they
were where RECORDINGS has none. The paper is Computers 2021, 10, 76; its best is 1-NN.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from bench.report import RESULTS, Row, Target, publish
from howdah.recognition.classifier import Classifier
from howdah.recognition.classifiers.logistic import Logistic
from howdah.recognition.classifiers.paper import NearestNeighbour
from howdah.recognition.confidence import StoppingScore
from howdah.recognition.files import read_recording, recording_files
from howdah.recognition.recording import BURSTS, Recording
from howdah.recognition.training import Protocol, Scores, Training, evaluate, train
from howdah.recognition.windows import default_step_s, examples

PAPERS = "overlay-1"
"""The path of the paper."""

CALIBRATED = 0.03
"""The most that a probability may be from the truth, on average."""
BBR_BESIDE_OURS = {"cubic": 0.99, "bbr": 0.98}
"""The least accuracy about BBR on unseen paths, by the congestion control of our stream."""

Recordings = list[tuple[Recording, str]]


def read(folder: Path) -> Recordings:
    """All recordings of one situation."""
    return [read_recording(file) for file in recording_files([folder])]


def scores_by(record: Training, protocol: str) -> Scores:
    """The scores of one protocol."""
    return next(each for each in record.scores if each.protocol == protocol)


def scores_on(
    path: str, found: Recordings, kind: type[Classifier], length_s: float, protocol: Protocol
) -> Scores:
    """The scores of a classifier that was trained on one path, as the paper's are."""
    heard = [each for each, _ in found if each.path == path]
    (scores,) = evaluate(kind, examples(heard, length_s, default_step_s(heard)), [protocol])
    return scores


def without_ours(found: Recordings) -> tuple[list[Row], Training]:
    """The rows with nothing of ours on the path."""
    record = train(found, Logistic, 10.0).record
    heard = [each for each, _ in found]
    (short,) = evaluate(Logistic, examples(heard, 5.0, default_step_s(heard)), ["runs"])
    runs, paths, random = (scores_by(record, name) for name in ("runs", "paths", "random"))
    six, bbr, here, all_paths = "six classes, 10 s", "is there BBR, 10 s", "Overlay-1", "all paths"
    overlay1 = train([each for each in found if each[0].path == PAPERS], Logistic, 10.0).record
    of_random, of_runs, early = scores_by(overlay1, "random"), scores_by(overlay1, "runs"), overlay1.stopped
    of_short = scores_on(PAPERS, found, Logistic, 5.0, "runs")
    paper = scores_on(PAPERS, found, NearestNeighbour, 10.0, "random")
    return [
        Row(f"{here}: {six}, random folds", of_random.accuracy, "", Target.at_least(0.95), "paper 0.80"),
        Row(f"{here}: {six}, random folds, the paper's 1-NN here", paper.accuracy, "", None, "paper 0.80"),
        Row(f"{here}: {six}, whole runs left out", of_runs.accuracy, "", Target.at_least(0.92)),
        Row(f"{here}: six classes, 5 s, whole runs left out", of_short.accuracy, "", Target.at_least(0.88)),
        Row(f"{here}: {bbr}, whole runs left out", of_runs.accuracy_bbr, "", Target.at_least(0.98)),
        Row(f"{all_paths}: {six}, random folds", random.accuracy, ""),
        Row(f"{all_paths}: {six}, whole runs left out", runs.accuracy, ""),
        Row(f"{all_paths}: six classes, 5 s, whole runs left out", short.accuracy, ""),
        Row(f"{all_paths}: {bbr}, whole runs left out", runs.accuracy_bbr, ""),
        Row(f"{six}, whole paths left out", paths.accuracy, "", Target.at_least(0.95)),
        Row(f"{bbr}, whole paths left out", paths.accuracy_bbr, "", Target.at_least(0.995)),
        *_calibration("nothing of ours", record),
        Row(f"{here}: time to decide, early stopping", early.mean_s, "s", Target.at_most(5.0), _right(early)),
        Row(
            f"{all_paths}: time to decide",
            record.stopped.mean_s,
            "s",
            Target.at_most(4.0),
            _right(record.stopped),
        ),
        Row(f"{all_paths}: right when it decides", record.stopped.accuracy, "", Target.at_least(0.95)),
    ], record


def _calibration(beside: str, record: Training) -> list[Row]:
    return [
        Row(
            f"expected calibration error beside {beside}, {protocol}",
            scores_by(record, protocol).calibration_error,
            "",
            Target.at_most(CALIBRATED),
        )
        for protocol in ("runs", "paths")
    ]


def _right(early: StoppingScore) -> str:
    return f"{early.accuracy:.3f} right"


def beside_ours(name: str, found: Recordings) -> tuple[list[Row], Training]:
    """The rows beside a stream of ours."""
    record = train(found, Logistic, 10.0).record
    rows = []
    for protocol, left_out in (("runs", "whole runs"), ("paths", "whole paths")):
        scores = scores_by(record, protocol)
        what = f"beside one {name} of ours, 10 s, {left_out} left out"
        rows.append(Row(f"{what}: six classes", scores.accuracy, ""))
        asked = Target.at_least(BBR_BESIDE_OURS[name]) if protocol == "paths" else None
        rows.append(Row(f"{what}: is there BBR", scores.accuracy_bbr, "", asked))
    return [*rows, *_calibration(f"one {name} of ours", record)], record


def previous_rows(
    name: str, result: Path = RESULTS / "shared.json"
) -> tuple[list[Row], list[dict[str, Any]]]:
    """The rows beside a stream of ours when it was judged last."""
    kept = json.loads(result.read_bytes())
    rows = [
        Row(each["what"], each["value"], each["unit"], None, each["note"] or f"of {kept['commit']}")
        for each in kept["rows"]
        if f"beside one {name} of ours" in each["what"]
    ]
    return rows, [each for each in kept["runs"] if each["ours"] == name]


def beside_bursts(folder: Path) -> tuple[list[Row], list[Training]]:
    """The rows beside the bursts of active probing, by the paper's protocol."""
    found = read(folder) if folder.is_dir() else []
    rows = []
    for length_s, least, paper in ((50.0, 0.99, "paper 0.96"), (10.0, 0.96, "")):
        what = f"Overlay-1: six classes, active, {length_s:g} s, random folds"
        value = scores_on(PAPERS, found, Logistic, length_s, "random").accuracy if found else None
        rows.append(Row(what, value, "", Target.at_least(least), paper if found else f"no {folder}"))
    if not found:
        return rows, []
    record = train(found, Logistic, 10.0).record
    on_paths = scores_by(record, "paths").accuracy
    what = "all paths: six classes, active, 10 s, whole paths left out"
    return [*rows, Row(what, on_paths, "", Target.at_least(0.98)), *_calibration("bursts", record)], [record]


def main(folder: Path) -> int:
    """Prints and keeps the table; 1 when a target is not met."""
    rows, record = without_ours(read(folder / "nothing"))
    more, others = beside_bursts(folder / BURSTS)
    rows += more
    records = [msgspec.to_builtins(each) for each in (record, *others)]
    for name in ("cubic", "bbr"):
        if (folder / name).is_dir():
            more, record = beside_ours(name, read(folder / name))
            records.append(msgspec.to_builtins(record))
        else:
            more, kept = previous_rows(name)
            records += kept
        rows += more
    return 0 if publish("shared", rows, records) else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give the folder of recordings: make bench-shared ARGS=RECORDINGS")
    sys.exit(main(Path(sys.argv[1])))
