"""Listening to a series: who is there, or why that cannot be told. On synthetic series (no measurements)."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rtts import recording, recordings
from samples import PROBE

from howdah import HowdahError
from howdah.recognition import models, training
from howdah.recognition.classifiers.trees import Trees
from howdah.recognition.files import save_model
from howdah.recognition.model import Model, Recognition, Undecided
from howdah.recognition.recognise import model_for, recognise
from howdah.recognition.training import train
from howdah.recognition.windows import cut
from howdah.values.probe import Others
from howdah.words.probe import others
from howdah.words.shared import heard as heard_in_words

SHIPPED_BYTES_MAX = 1_000_000


class Few(Trees):
    """Enough for these tests."""

    trees = 10


@functools.cache
def model() -> Model:
    made = recordings(["nobody", "cubic", "bbr"], 3, duration_s=16.0)
    folds, training.FOLDS = training.FOLDS, 3
    try:
        return train([(each, "") for each in made], Few, 4.0).model
    finally:
        training.FOLDS = folds


def test_a_model_is_of_one_situation() -> None:
    made = recordings(["nobody", "cubic"], 2, duration_s=8.0)
    mixed = [replace(each, ours={"cubic": 1} if number else None) for number, each in enumerate(made)]
    with pytest.raises(HowdahError, match="each needs a model of its own"):
        train([(each, "") for each in mixed], Few, 4.0)
    with pytest.raises(HowdahError, match="take the model of that situation"):
        model().recognise(mixed[1])


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    model_for.cache_clear()
    yield
    model_for.cache_clear()


def heard(answer: Recognition | Undecided) -> Recognition:
    assert isinstance(answer, Recognition)
    return answer


def test_the_end_of_a_series_is_judged_as_a_window_of_a_recording_is() -> None:
    made = recording("bbr", "run", 7, duration_s=12.0, lost=0.0)
    windows, _ = cut(made, 4.0, model().step_s)
    answers = model().at(windows[np.array([2])])
    said = heard(model().recognise_end(made.times_s, made.rtt_s, made.base_rtt_s))
    assert list(said.classes.values()) == pytest.approx(answers.probabilities[0].tolist(), abs=1e-6)
    assert said.heard_s == 4.0
    assert said.background == "1 bbr"
    assert said.bbr == pytest.approx(said.classes["1 bbr"])
    # What lies before does not count, nor does which clock it is.
    later = heard(model().recognise_end(made.times_s[-60:] + 1e6, made.rtt_s[-60:], made.base_rtt_s))
    assert later.classes == pytest.approx(said.classes)


def test_a_finer_series_says_the_same() -> None:
    made = recording("cubic", "run", 7, duration_s=8.0, lost=0.0)
    fine_s = np.repeat(made.times_s, 4) + np.tile(np.arange(-3, 1) * 0.02, made.times_s.size)
    coarse = heard(model().recognise_end(made.times_s, made.rtt_s, made.base_rtt_s))
    fine = heard(model().recognise_end(fine_s, np.repeat(made.rtt_s, 4), made.base_rtt_s))
    assert fine.classes == pytest.approx(coarse.classes)


def test_less_time_is_judged_by_what_is_there_for_it() -> None:
    made = recording("nobody", "run", 7, duration_s=2.6, lost=0.0)
    assert heard(model().recognise_end(made.times_s, made.rtt_s, made.base_rtt_s)).heard_s == 2.0


@pytest.mark.parametrize(
    ("samples", "lost", "base_rtt_s", "why"),
    [
        (5, 0.0, 0.05, "0.5 s are too short; it takes 1 s"),
        (0, 0.0, 0.05, "0.0 s are too short"),
        (40, 0.7, 0.05, "of the last 4 s"),
        (40, 0.0, float("nan"), "the RTT without a queue is not known"),
    ],
)
def test_what_cannot_be_told_is_said(samples: int, lost: float, base_rtt_s: float, why: str) -> None:
    made = recording("bbr", "run", 7, duration_s=10.0, lost=lost)
    answer = model().recognise_end(made.times_s[:samples], made.rtt_s[:samples], base_rtt_s)
    assert isinstance(answer, Undecided)
    assert why in answer.why


def test_a_model_of_the_users_goes_before_ours(tmp_path: Path) -> None:
    made = recording("bbr", "run", 7, duration_s=12.0)
    series = made.times_s, made.rtt_s, made.base_rtt_s
    assert isinstance(recognise(*series, {"hd_scalable": 1}), Undecided)
    folder = tmp_path / "howdah" / "models"
    folder.mkdir(parents=True)
    save_model(replace(model(), ours="cubic"), folder / "cubic.npz")
    model_for.cache_clear()
    assert set(heard(recognise(*series, {"cubic": 3})).classes) == {"nobody", "1 cubic", "1 bbr"}
    # One that was trained in another situation would mislead.
    save_model(replace(model(), ours="cubic"), folder / "nothing.npz")
    with pytest.raises(HowdahError, match="was trained with cubic of ours on the path"):
        recognise(*series)


@pytest.mark.parametrize("situation", ["nothing", "cubic", "bbr", "bursts"])
def test_models_come_with_howdah(situation: str) -> None:
    kept = model_for(situation)
    assert kept is not None
    assert kept.file == models.SHIPPED / f"{situation}.npz"
    assert kept.file.stat().st_size < SHIPPED_BYTES_MAX
    assert kept.model.length_s == 10.0
    record = msgspec.json.decode(kept.file.with_suffix(".json").read_bytes())
    assert (record["model"], record["ours"]) == (kept.digest, situation)
    assert sorted(kept.model.classes) == ["1 bbr", "1 bbr, 1 cubic", "1 cubic", "2 bbr", "2 cubic", "nobody"]


def test_nobody_is_heard_on_a_quiet_path() -> None:
    rng = np.random.default_rng(1)
    times_s = (np.arange(1000) + 0.5) * 0.01
    rtt_s = 0.08 * (1 + 0.002 * rng.random(1000))
    said = heard(recognise(times_s, rtt_s, float(rtt_s.min())))
    assert said.background == "nobody"
    assert said.bbr < 0.5


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"background": "1 bbr, 1 cubic", "probability": 0.94, "classes": {"1 bbr, 1 cubic": 0.94}},
            "1 BBR, 1 CUBIC (0.94)",
        ),
        ({"background": "nobody", "probability": 1.0, "classes": {"nobody": 1.0}}, "nobody (1.00)"),
        (
            {"background": "2 bbr", "probability": 0.9, "new": True, "classes": {"2 bbr": 0.9}},
            "none of the known classes; nearest to it is 2 BBR (0.90)",
        ),
        (
            {"background": "nobody", "probability": 0.99, "new": True, "classes": {"nobody": 0.99}},
            "nobody (0.99), on a path unlike those in the model's training",
        ),
        (
            {"background": "nobody", "new": True, "classes": {"1 cubic": 0.99}},
            "nobody: hardly a probe met a queue, on a path unlike those in the model's training",
        ),
        (
            {
                "background": "1 bbr",
                "probability": 0.4,
                "bbr": 0.75,
                "classes": {"1 bbr": 0.4, "2 bbr": 0.35},
            },
            "cannot tell: perhaps 1 BBR (0.40) or 2 BBR (0.35); any BBR (0.75)",
        ),
        ({"why": "2.0 s are too short; it takes 2.5 s"}, "cannot tell: 2.0 s are too short; it takes 2.5 s"),
    ],
)
def test_who_is_there_in_words(told: dict[str, object], words: str) -> None:
    assert others(msgspec.structs.replace(Others(), **told)) == words
    assert PROBE.others is None


def test_an_idle_path_of_a_new_kind_is_nobody_in_a_recording_too() -> None:
    idle = Recognition(
        start_s=0.0,
        heard_s=5.0,
        new=True,
        sure=True,
        background="nobody",
        probability=0.99,
        bbr=0.0,
        classes={"nobody": 0.99},
    )
    other = msgspec.structs.replace(idle, background="2 bbr")
    assert list(heard_in_words([idle, other])) == [
        "       0.0 s  nobody (0.99), on a path unlike those in training, after 5 s; any bbr 0.00",
        "       0.0 s  unlike anything in training; nearest: 2 bbr (0.99) after 5 s; any bbr 0.00",
    ]
