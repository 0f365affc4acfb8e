"""Plans of data sets: what they may say, what of them is left, and what people are told meanwhile."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rtts import recording

from howdah import HowdahError
from howdah.cli import app
from howdah.dataset.plan import CLASSES, DatasetPlan, load, loads
from howdah.dataset.recorder import left
from howdah.dataset.run import RunMade
from howdah.recognition.files import read_recording, write_recording
from howdah.recognition.recording import label
from howdah.words.shared import Lines, total_s

SCENARIOS = Path(__file__).parents[2] / "scenarios"

PLAN = """
name = "two"
length = "10s"
runs = 2
runs_beside_ours = 1
ours = ["nobody", "2 cubic"]
[[path]]
name = "wide"
rate = "100Mbit"
rtt = "50ms"
queue = "0.5BDP"
[[path]]
name = "narrow"
rate = "10Mbit"
rtt = "20ms"
queue = "80kB"
settle = "5s"
runs = 1
"""


def changed(old: str, new: str) -> str:
    assert old in PLAN
    return PLAN.replace(old, new)


def test_a_plan_is_every_class_on_every_path_in_every_situation() -> None:
    plan = loads(PLAN, "p.toml")
    runs = plan.runs()
    assert {label(run.background) for run in runs} == set(CLASSES)
    counts = {(path, ours): 0 for path in ("wide", "narrow") for ours in ("nothing", "cubic")}
    for run in runs:
        counts[run.path.name, Path(run.file).parts[0]] += 1
    # Runs of its own are runs beside ours, too, unless that says otherwise itself.
    classes = len(CLASSES)
    assert counts == {
        ("wide", "nothing"): 2 * classes,
        ("wide", "cubic"): classes,
        ("narrow", "nothing"): classes,
        ("narrow", "cubic"): classes,
    }
    assert len({run.name for run in runs}) == len({run.file for run in runs}) == len(runs)
    wide, narrow = plan.paths
    assert (wide.link.near_to_far.queue_bytes, narrow.link.near_to_far.queue_bytes) == (312_500, 80_000)
    assert (wide.rate_bps, wide.rtt_s, wide.settle_s, narrow.settle_s) == (100_000_000, 0.05, 25.0, 5.0)
    assert plan.controls() == ["cubic", "bbr"]


def test_what_is_recorded_first_is_of_every_kind() -> None:
    runs = loads(PLAN, "p.toml").runs()
    first = [run for run in runs if run.file.endswith(".1.npz")]
    assert runs[: len(first)] == first
    assert [run.file for run in first] != sorted(run.file for run in first)
    again = runs[0].again()
    assert runs[0].random().random() == loads(PLAN, "p.toml").runs()[0].random().random()
    assert again.name == runs[0].name
    assert again.random().random() != runs[0].random().random()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (changed('name = "narrow"', 'name = "wide"'), "p.toml: path: wide is listed twice"),
        (changed('"2 cubic"', '"two cubic"'), "p.toml: ours: 'two cubic' does not name competing traffic"),
        (
            changed('"0.5BDP"', '"half a BDP"'),
            "p.toml: path wide: queue: half a BDP: give bytes, or 0.01",
        ),
        (changed('"100Mbit"', '"fast"'), "p.toml: path 1: rate: "),
        (changed('length = "10s"', 'length = "1s"'), "p.toml: length 1s is not within 5s to"),
        (changed('settle = "5s"', "settled = 5"), "settled"),
        ('name = "none"\nlength = "10s"\npath = []', "p.toml records nothing"),
        (changed('name = "two"', 'name = "a/b"'), "p.toml: name 'a/b'"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_the_key(text: str, says: str) -> None:
    with pytest.raises(HowdahError) as refused:
        loads(text, "p.toml")
    assert says in str(refused.value)


def kept(plan: DatasetPlan, folder: Path, number: int) -> None:
    run = plan.runs()[number]
    (folder / run.file).parent.mkdir(parents=True, exist_ok=True)
    write_recording(recording("cubic", run.name), folder / run.file)


def test_what_the_folder_holds_is_not_made_again(tmp_path: Path) -> None:
    plan = loads(PLAN, "p.toml")
    kept(plan, tmp_path, 3)
    runs = plan.runs()
    assert left(plan, tmp_path) == [*runs[:3], *runs[4:]]
    # More runs go on with the same; another length is another data set.
    more = loads(changed("runs = 2", "runs = 3"), "p.toml")
    assert len(left(more, tmp_path)) == len(more.runs()) - 1
    with pytest.raises(HowdahError, match="belongs to another plan; give another folder"):
        left(loads(changed('length = "10s"', 'length = "20s"'), "p.toml"), tmp_path)


def test_a_dry_run_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text(PLAN)
    kept(loads(PLAN, "p.toml"), tmp_path / "out", 0)
    words = ["shared", "dataset", str(tmp_path / "p.toml"), "-o", str(tmp_path / "out"), "--dry-run"]
    assert app.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["plan"], told["runs"], told["runs_left"]) == ("two", 30, 29)
    assert app.main([*words, "--cores", "0.5"]) == 0
    assert "29 recordings of 10.0 s left" in capsys.readouterr().out
    with pytest.raises(HowdahError, match="--cores 0 is not above 0"):
        app.main([*words, "--cores", "0"])


def test_each_run_is_told_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    plan = loads(PLAN, "p.toml")
    todo = plan.runs()[:2]
    clock = iter([0.0, 30.0, 60.0, 90.0])
    lines = Lines(lambda: next(clock))
    lines.begins(plan, todo, 1.0)
    late = RunMade(late_fraction=0.5, late_p99_s=0.1, spoilt="it was late")
    lines.made(todo[0], late, again=True)
    lines.made(todo[0].again(), late, again=False)
    lines.made(todo[1], RunMade(late_fraction=0.0, late_p99_s=0.0, spoilt=None), again=True)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("howdah: data set two: 2 recordings left")
    assert "[0/2]" in said[1]
    assert "spoilt: it was late; made again" in said[1]
    assert "[1/2]" in said[2]
    assert "left out" in said[2]
    assert " left" in said[2].partition("left out")[2]
    assert "[2/2]" in said[3]
    assert said[3].endswith("recorded")


def test_the_scenarios_are_plans() -> None:
    paper = load(SCENARIOS / "shared-dataset.toml")
    hour = [run for run in paper.runs() if label(run.background) == "2 bbr"]
    assert sum(run.length_s for run in hour) == 3600
    short = load(SCENARIOS / "shared-dataset-short.toml")
    assert len(short.paths) >= 6
    assert {path.rtt_s for path in short.paths} >= {0.01, 0.15}
    assert total_s(short.runs(), 2.0) < 3600


def test_a_recording_keeps_what_of_ours_was_there(tmp_path: Path) -> None:
    made = recording("bbr", "run", bursts=())
    for ours in (None, {"cubic": 2}):
        write_recording(replace(made, ours=ours), tmp_path / "a.npz")
        held, _ = read_recording(tmp_path / "a.npz")
        assert (held.ours, held.label) == (ours, "1 bbr")
    assert held.situation == "cubic"
    with pytest.raises(HowdahError, match="0 streams of 'cubic' are no streams of ours"):
        replace(made, ours={"cubic": 0})
