"""Models: trained, kept, asked; and files that are none. On synthetic series (no measurements)."""

import functools
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rtts import recording, recordings

from howdah import HowdahError
from howdah.cli import app
from howdah.recognition import files, training
from howdah.recognition.classifier import Classifier
from howdah.recognition.classifiers.logistic import Logistic
from howdah.recognition.classifiers.paper import NearestNeighbour
from howdah.recognition.classifiers.trees import Trees
from howdah.recognition.files import load_model, read_recording, save_model, write_recording
from howdah.recognition.model import Model, stage_lengths
from howdah.recognition.training import Trained, train
from howdah.recognition.windows import cut

KINDS = ["nobody", "cubic", "bbr"]


class Few(Trees):
    """Enough for these tests."""

    trees = 15


@pytest.fixture(autouse=True)
def _few_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "FOLDS", 3)


@functools.cache
def trained(kind: type[Classifier] = Few) -> Trained:
    return train([(each, each.run) for each in recordings(KINDS, 3, duration_s=40.0)], kind, 10.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_model(trained().model, tmp_path / "model.npz")
    return tmp_path / "model.npz"


def test_the_record_says_what_was_used_and_what_it_is_worth() -> None:
    record = trained().record
    assert record.classes == ["1 bbr", "1 cubic", "nobody"]
    assert [each.run for each in record.recordings] == [f"{kind}-{n}" for kind in KINDS for n in range(3)]
    assert sum(each.windows for each in record.recordings) == record.windows == 36
    assert [each.protocol for each in record.scores] == ["runs", "random"]
    assert record.scores[0].accuracy > 0.8
    assert record.curve[-1].mean_s == record.window_s == 10.0
    assert [stage.length_s for stage in trained().model.stages] == [2.5, 5.0, 7.5, 10.0]


def test_it_hears_who_is_there_and_who_was_never_there() -> None:
    for kind, label in (("nobody", "nobody"), ("cubic", "1 cubic"), ("bbr", "1 bbr")):
        heard = trained(Trees).model.recognise(recording(kind, "later", 91, duration_s=60.0))
        right = [each for each in heard if each.background == label and not each.new]
        assert len(right) >= 4, kind
        assert all(sum(each.classes.values()) == pytest.approx(1) for each in heard)
        assert all(each.bbr == pytest.approx(each.classes["1 bbr"]) for each in heard)
    strange = trained(Trees).model.recognise(recording("udp", "later", 92, duration_s=60.0))
    assert sum(each.new for each in strange) >= 5


def test_it_listens_on_until_it_is_sure() -> None:
    windows, _ = cut(recording("cubic", "later", 93), 10.0, 0.1)
    quick = replace(trained().model, sure=0.01).answer(windows)
    never = replace(trained().model, sure=1.0).answer(windows)
    assert (never.heard_s == 10).all()
    assert quick.heard_s.mean() < 10
    # What is like nothing known is listened to until the end.
    assert (quick.heard_s[quick.new] == 10).all()
    for number, length_s in enumerate(quick.heard_s):
        alone = trained().model.at(windows[number : number + 1].first(float(length_s)))
        np.testing.assert_allclose(alone.probabilities[0], quick.probabilities[number])
    with pytest.raises(HowdahError, match=r"1 s are too short to judge; measure for 2\.5 s"):
        trained().model.at(windows.first(1.0))


def test_a_model_comes_back_as_it_was(file: Path) -> None:
    back, digest = load_model(file)
    assert digest == save_model(back, file.with_name("again.npz"))
    assert file.read_bytes() == file.with_name("again.npz").read_bytes()
    windows, _ = cut(recording("bbr", "later", 94), 10.0, 0.1)
    for one, other in zip(back.answer(windows), trained().model.answer(windows), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_papers_classifiers_wait_until_there_is_something_to_see(tmp_path: Path) -> None:
    model = trained(NearestNeighbour).model
    assert [stage.length_s for stage in model.stages] == [5.0, 7.5, 10.0]
    save_model(model, tmp_path / "model.npz")
    back, _ = load_model(tmp_path / "model.npz")
    heard = recording("cubic", "later", 95)
    assert back.recognise(heard) == model.recognise(heard)
    assert stage_lengths(3.0, 0.1, NearestNeighbour, [0.5, 1]) == []


def rewritten(file: Path, change: Callable[[dict[str, bytes]], None], compression: int = 0) -> Path:
    """The file with its members changed."""
    with zipfile.ZipFile(file) as zipped:
        members = {name: zipped.read(name) for name in zipped.namelist()}
    change(members)
    with zipfile.ZipFile(file, "w", compression) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return file


def npy(values: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    content = io.BytesIO()
    np.save(content, values, allow_pickle=allow_pickle)
    return content.getvalue()


def manifest(change: Callable[[dict[str, object]], None]) -> Callable[[dict[str, bytes]], None]:
    def changed(members: dict[str, bytes]) -> None:
        known = json.loads(members["manifest.json"])
        change(known)
        members["manifest.json"] = json.dumps(known).encode()

    return changed


ROOTS = "0.roots"


def bomb(members: dict[str, bytes]) -> None:
    members["zeros.npy"] = bytes(1 << 24)


def objects(members: dict[str, bytes]) -> None:
    members[f"{ROOTS}.npy"] = npy(np.array([{"a": 1}], object), allow_pickle=True)


def objects_said(members: dict[str, bytes]) -> None:
    objects(members)
    manifest(lambda known: known["arrays"][ROOTS].update(dtype="|O", shape=[1]))(members)


def huge(members: dict[str, bytes]) -> None:
    content = npy(np.zeros(2, np.int32)).replace(b"(2,), }", b"(2000000000000,), }"[:19])
    members[f"{ROOTS}.npy"] = content
    manifest(lambda known: known["arrays"][ROOTS].update(shape=[2000000000000]))(members)


def odd_array(members: dict[str, bytes]) -> None:
    members["\x1b[2J.npy"] = members.pop(f"{ROOTS}.npy")
    manifest(lambda known: known.update(arrays={"\x1b[2J": {**known["arrays"][ROOTS], "dtype": "|O"}}))(
        members
    )
    for name in [each for each in members if each not in ("manifest.json", "\x1b[2J.npy")]:
        del members[name]


def endless(members: dict[str, bytes]) -> None:
    members["manifest.json"] = b"[" * 3_000_000


HOSTILE = {
    "compressed": (bomb, zipfile.ZIP_DEFLATED, "compressed"),
    "more members": (bomb, 0, "'zeros.npy' is in its manifest or among its members, not in both"),
    "no manifest": (lambda members: members.pop("manifest.json"), 0, "no manifest.json"),
    "no array": (lambda members: members.pop(f"{ROOTS}.npy"), 0, "not in both"),
    "objects": (objects, 0, "manifest says"),
    "objects, and says so": (objects_said, 0, "dtype '|O'"),
    "huge": (huge, 0, "array 0.roots"),
    "a shape of its own": (
        lambda members: members.update({f"{ROOTS}.npy": npy(np.zeros((2, 2), np.int32))}),
        0,
        "its manifest says",
    ),
    "damage": (lambda members: members.update({f"{ROOTS}.npy": npy(np.zeros(15, np.int32))}), 0, "damaged"),
    "no npy": (lambda members: members.update({f"{ROOTS}.npy": b"import os"}), 0, "magic string"),
    "endless": (endless, 0, "is not JSON|not a model"),
    "no JSON": (lambda members: members.update({"manifest.json": b"\xff{"}), 0, "is not"),
    "newer": (manifest(lambda known: known.update(schema=2)), 0, "schema 2, howdah .* reads schema 1"),
    "another kind": (manifest(lambda known: known.pop("classifier")), 0, "classifier"),
    "unknown classifier": (
        manifest(lambda known: known.update(classifier="x" * 999)),
        0,
        "has no classifier",
    ),
    "one class": (manifest(lambda known: known.update(classes=["nobody"] * 3)), 0, "two classes or more"),
    "odd class": (manifest(lambda known: known["classes"].__setitem__(0, "\x1b[2J")), 0, "is no class"),
    "too few classes": (manifest(lambda known: known["classes"].pop()), 0, "do not fit together"),
    "no stages": (manifest(lambda known: known.update(stages=[])), 0, "stages do not ascend"),
    "stage out of range": (
        manifest(lambda known: known["stages"][0].update(temperature=0)),
        0,
        "stage of 2.5 s is out of range",
    ),
    "step out of range": (manifest(lambda known: known.update(step_s=-1)), 0, "out of range"),
    "odd keys": (manifest(lambda known: known.update({"\x1b[2J\n" * 500: 1})), 0, "unknown field"),
    "odd array": (
        manifest(lambda known: known["arrays"].update({"\x1b[2J\n" * 500: known["arrays"][ROOTS]})),
        0,
        "is not a model: .*; train one",
    ),
    "odd array, and there": (odd_array, 0, "is of dtype"),
    "more keys": (manifest(lambda known: known.update(hook="os.system")), 0, "hook"),
}


@pytest.mark.parametrize(("change", "compression", "says"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_a_model_is_refused_in_one_line(
    file: Path, change: Callable[[dict[str, bytes]], None], compression: int, says: str
) -> None:
    rewritten(file, change, compression)
    with pytest.raises(HowdahError, match=says) as error:
        load_model(file)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 600


def test_numbers_that_are_none_are_refused(file: Path) -> None:
    stages = [
        stage._replace(distance=stage.distance._replace(mean=stage.distance.mean * np.nan))
        for stage in trained().model.stages
    ]
    save_model(Model(trained().model.classes, 0.1, stages, 0.9), file)
    with pytest.raises(HowdahError, match=r"0\.familiar_mean has numbers that are not finite"):
        load_model(file)


def test_numbers_that_overflow_are_told() -> None:
    windows, _ = cut(recording("bbr", "later", 94), 10.0, 0.1)
    fitted = Logistic().fit(windows, np.array(["a", "b"] * 3), np.array(["run"] * 6))
    fitted.weights = fitted.weights + 1e308
    with pytest.raises(HowdahError, match="has numbers that overflow"):
        fitted.predict_proba(windows)
    stage = trained().model.stages[-1]
    far = stage.distance._replace(whitening=stage.distance.whitening * 1e300)
    model = replace(trained().model, stages=[stage._replace(distance=far)])
    assert model.at(windows).new.all()


def test_files_that_are_no_files_are_refused(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = file.read_bytes()
    for content in (b"", b"PK\x03\x04", whole[:1000], whole[:-30], whole[: len(whole) // 2] + b"\0" * 99):
        file.write_bytes(content)
        with pytest.raises(HowdahError, match=r"is not a model: .*; train one"):
            load_model(file)
    with pytest.raises(HowdahError, match="there is no model"):
        load_model(tmp_path)
    with pytest.raises(HowdahError, match="there is no model"):
        load_model(tmp_path / "missing.npz")
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    file.write_bytes(whole)
    with pytest.raises(HowdahError, match="longer than any model"):
        load_model(file)


@pytest.mark.parametrize("seed", range(40))
def test_a_byte_changed_anywhere_never_harms(file: Path, seed: int) -> None:
    content = bytearray(file.read_bytes())
    rng = np.random.default_rng(seed)
    # Half of them near the ends, where the zip's own tables and the manifest are.
    place = int(rng.integers(len(content)) if seed % 2 else rng.choice([1, -1]) * rng.integers(1, 3000))
    content[place] ^= int(rng.integers(1, 256))
    file.write_bytes(content)
    try:
        load_model(file)
    except HowdahError as error:
        assert "\n" not in str(error)


def test_a_recording_is_no_model_and_no_model_a_recording(tmp_path: Path, file: Path) -> None:
    write_recording(recording("udp", "run"), tmp_path / "run.npz")
    with pytest.raises(HowdahError, match="is not a model"):
        load_model(tmp_path / "run.npz")
    with pytest.raises(HowdahError, match="is not a recording"):
        read_recording(file)


def howdah(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert app.main(list(map(str, words))) == 0
    return capsys.readouterr().out


def test_train_then_recognise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trees, "trees", 10)
    (tmp_path / "heard").mkdir()
    for number, each in enumerate(recordings(KINDS, 2, duration_s=30.0)):
        write_recording(each, tmp_path / "heard" / f"{number}.npz")
    model = tmp_path / "model.npz"
    given = [str(tmp_path / "heard"), "-o", str(model)]
    assert app.main(["shared", "train", *given, "--classifier", "gnb"]) == 0
    told = capsys.readouterr()
    assert "howdah: gnb, 10 s, fold 1 of" in told.err
    assert "runs not seen: " in told.out
    record = json.loads(howdah(capsys, "shared", "train", *given, "--json"))
    assert record == json.loads((tmp_path / "model.json").read_text())
    assert record["model"] == load_model(model)[1]
    assert record["recordings"][0]["digest"] == read_recording(tmp_path / "heard" / "0.npz")[1]

    later = tmp_path / "later.npz"
    write_recording(recording("cubic", "later", 96, duration_s=20.0), later)
    found = json.loads(howdah(capsys, "shared", "recognise", later, "--model", model, "--json"))
    assert [each["run"] for each in found] == ["later"]
    assert len(found[0]["heard"]) == 2
    assert found[0]["model"] == record["model"]
    assert "1 cubic (" in howdah(capsys, "shared", "recognise", later, "--model", model)

    table = howdah(
        capsys, "shared", "compare", tmp_path / "heard", "--classifier", "gnb", "--classifier", "1-nn", "-q"
    )
    assert "runs not seen" in table
    assert "1-nn" in table


def test_what_cannot_be_trained_is_refused(tmp_path: Path) -> None:
    write_recording(recording("udp", "run"), tmp_path / "run.npz")
    given = [str(tmp_path / "run.npz"), "-o"]
    for words, says in (
        ([*given, "model.bin"], "must end in .npz; give model.npz as --output"),
        ([*given, str(tmp_path / "no" / "model.npz")], "no folder"),
        ([*given, str(tmp_path / "model.npz")], "class '1 udp' has one run"),
        ([str(tmp_path / "none.npz"), "-o", str(tmp_path / "model.npz")], "there is no recording"),
    ):
        with pytest.raises(HowdahError, match=says):
            app.main(["shared", "train", *words])
    assert [each.name for each in tmp_path.iterdir()] == ["run.npz"]
