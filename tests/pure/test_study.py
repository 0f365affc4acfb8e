"""``howdah profile``, from runs to what is printed."""

import dataclasses
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console
from samples import howdah, run

from bench.profile_families import REPEATS, RTTS_S, SIGMA, buffer_limited
from howdah import HowdahError
from howdah.archive import Archive
from howdah.archive.runs import Runs
from howdah.profiles.study import runs_with, study
from howdah.values.link import symmetric
from howdah.words.results import parts

GBIT = 10**9


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three streams counts of one control, a late run, a copy of a file, and one RTT of another path."""
    folder = tmp_path_factory.mktemp("data")
    archive = Archive(folder / "howdah" / "records")
    generator = np.random.default_rng(1)
    after_s = 0
    for streams in (1, 4, 10):
        means = buffer_limited(generator, 0)
        for rtt_s, mean in zip(RTTS_S, means, strict=True):
            link = symmetric(10 * GBIT, round(rtt_s * 1e9))
            for _ in range(REPEATS):
                after_s += 60
                rate_bps = 1e10 * mean * (1 + SIGMA * generator.normal())
                archive.save(run(after_s, rate_bps=rate_bps, streams=streams, buffer_bytes=2**28, link=link))
    late = run(after_s + 60, rate_bps=1e9, streams=1, buffer_bytes=2**28, flags=["lateness"])
    copy = run(after_s + 120, rate_bps=1e9)
    assert copy.outcome is not None
    copy = msgspec.structs.replace(copy, outcome=msgspec.structs.replace(copy.outcome, files=1))
    for each in (late, copy, run(after_s + 180), run(after_s + 240, rate_bps=1.1e9)):
        archive.save(each)
    return folder


@pytest.fixture(scope="module")
def runs(home: Path) -> Runs:
    return Archive(home / "howdah" / "records").runs()


def test_each_configuration_has_its_own_profile(runs: Runs) -> None:
    found = study(runs)
    assert (found.late, found.files, found.without_rtt) == (1, 1, 0)
    host, lab = found.paths
    assert (lab.path, lab.capacity_bps, lab.runs) == ("lab 10 Gb/s", 1e10, 210)
    assert [each.streams for each in lab.configurations] == [1, 4, 10]
    for each in lab.configurations:
        own = runs.where(path="lab 10 Gb/s", streams=each.streams)
        means = [own.where(rtt_s=at.rtt_s).rate_bps.mean() for at in each.at]
        assert [at.mean_bps for at in each.at] == pytest.approx(means)
        assert each.transition is not None
        assert each.sigmoids is not None
        assert each.transition.bracket_s[0] < each.transition.transition_rtt_s <= each.transition.bracket_s[1]
    (single,) = host.configurations
    assert single.transition is None
    assert single.problem == "runs at 1 RTT have no transition RTT; measure at three or more"


def test_encrypted_runs_have_profiles_of_their_own(runs: Runs) -> None:
    lab = runs.where(path="lab 10 Gb/s", streams=4)
    every_other = dataclasses.replace(lab, encrypted=np.arange(len(lab)) % 2 == 1)
    plain, encrypted = study(every_other).paths
    assert [(each.path, each.encrypted) for each in (plain, encrypted)] == [
        ("lab 10 Gb/s", False),
        ("lab 10 Gb/s", True),
    ]
    (configuration,) = encrypted.configurations
    own = every_other.where(encrypted=True)
    for at in configuration.at:
        assert at.mean_bps == pytest.approx(own.where(rtt_s=at.rtt_s).rate_bps.mean())


def test_late_runs_and_files_count_when_told(runs: Runs) -> None:
    found = study(runs, late=True, files=True)
    assert (found.late, found.files) == (0, 0)
    assert sum(path.runs for path in found.paths) == 214


def test_what_is_left_out_is_said_when_nothing_is_left(runs: Runs) -> None:
    only_late = runs[runs.late]
    with pytest.raises(HowdahError, match=r"there are 1 late \(count them with late\)"):
        study(only_late)
    with pytest.raises(HowdahError, match="no runs to make a profile of; measure some with: howdah sweep"):
        study(runs[:0])


def test_a_choice_of_nothing_says_what_there_is(runs: Runs) -> None:
    assert set(runs_with(runs, streams=[4, 10], buffer_bytes=[2**28]).streams.tolist()) == {4, 10}
    with pytest.raises(HowdahError, match="no runs with streams 3; there are runs with 1, 2, 4, 10"):
        runs_with(runs, streams=[3])
    with pytest.raises(HowdahError, match=r"no runs with the buffer 1\.00 MB; there are runs with auto"):
        runs_with(runs, streams=[2], buffer_bytes=[1e6])


def test_values_that_would_read_alike_are_told_apart(runs: Runs) -> None:
    with pytest.raises(HowdahError) as caught:
        runs_with(runs, buffer_bytes=[2**28 + 1])
    asked, _, found = str(caught.value).partition("; there are runs with ")
    assert asked.endswith("268,435,457 B")
    assert "268,435,456 B" in found
    (rtt_s, *_) = runs.rtt_s.tolist()
    with pytest.raises(HowdahError) as caught:
        runs_with(runs, rtt_s=[rtt_s + 1e-9])
    asked, _, found = str(caught.value).partition("; there are runs with ")
    assert asked.split()[-1] not in found.split(", ")
    lab = runs.where(path="lab 10 Gb/s", streams=4)
    rtts = np.where(np.arange(len(lab)) % 2 == 1, lab.rtt_s[0], lab.rtt_s[0] * 1.0001)
    buffers = np.where(np.arange(len(lab)) % 4 < 2, 2**28, 2**28 + 1.0)
    console = Console(width=200)
    with console.capture() as shown:
        for part in parts(study(dataclasses.replace(lab, rtt_s=rtts, buffer_bytes=buffers))):
            console.print(part)
    heads = shown.get().partition("cc ")[2].splitlines()[0].split()
    assert len(set(heads)) == len(heads), heads
    assert "268,435,456 B" in shown.get()
    assert "268,435,457 B" in shown.get()


def test_the_table_shows_every_mean_and_what_was_left_out(runs: Runs) -> None:
    found = study(runs)
    console = Console(width=200)
    with console.capture() as shown:
        for part in parts(found):
            console.print(part)
    text = shown.get()
    for at in found.paths[1].configurations[0].at:
        assert f"{at.mean_bps / 1e9:.3g}" in text
    assert "Left out: 1 late run" in text
    assert "Left out: 1 run of files" in text
    assert "No transition RTT of cubic, 2 streams, buffers autotuned: runs at 1 RTT" in text


def test_the_command_prints_a_document_without_nan(home: Path) -> None:
    done = howdah("profile", "--json", "--streams", "4", XDG_DATA_HOME=str(home))
    assert done.stderr == ""
    (path,) = json.loads(done.stdout)["paths"]
    (one,) = path["configurations"]
    assert len(one["at"]) == len(one["transition"]["shares"]) == len(one["sigmoids"]["shares"]) == 7
    assert sum(one["sigmoids"]["shares"]) == pytest.approx(1)
    assert "NaN" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "howdah: no runs to make a profile of; measure some with: howdah sweep HOST\n"),
        (("--buffer", "big"), "howdah: "),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = howdah("profile", *words, XDG_DATA_HOME=str(tmp_path))
    assert done.returncode != 0
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_what_another_archive_tells_of_its_hosts_is_obeyed_by_no_terminal(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "howdah" / "records")
    for after_s in (0, 60):
        archive.save(run(after_s, host="\x1b]52;c;ZWNobyBoaQ==\x07\u202e"))
    for words in (["profile"], ["report", "-o", str(tmp_path / "report.html")], ["archive", "ls"]):
        done = howdah(*words, XDG_DATA_HOME=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr), words
        assert words[0] != "profile" or r"\u{1b}]52" in done.stdout
