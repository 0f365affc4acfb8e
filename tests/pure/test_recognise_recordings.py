"""Recordings made of probes, and what people say of who was there."""

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import PROBE, record

from howdah import HowdahError
from howdah.archive import Archive
from howdah.cli import app
from howdah.recognition import recording
from howdah.recognition.files import read_recording, recording_files

PROBED = msgspec.structs.replace(
    record(), kind="probe", host="dtn2", probe=msgspec.structs.replace(PROBE, rtt_s=[0.021, None, 0.04] * 9)
)


def test_a_recording_that_is_named_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.npz").touch()
    named = recording_files([tmp_path, Path("a.npz"), tmp_path / "b.npz", Path(), Path("c.npz")])
    assert [file.name for file in named] == ["a.npz", "b.npz", "c.npz"]


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Archive:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return Archive()


def keep(*words: str) -> None:
    assert app.main(["shared", "keep", *words]) == 0


def test_a_probe_is_kept_with_who_was_there(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.save(PROBED)
    file = tmp_path / "run.npz"
    keep("last", "--others", "2 cubic, bbr", "-o", str(file), "--json")
    assert json.loads(capsys.readouterr().out)["background"] == "1 bbr, 2 cubic"
    kept, _ = read_recording(file)
    assert (kept.run, kept.path, kept.background) == (PROBED.id, "dtn2", {"bbr": 1, "cubic": 2})
    assert (kept.step_s, kept.base_rtt_s) == (PROBE.step_s, PROBE.base_rtt_s)
    np.testing.assert_array_equal(kept.rtt_s, [0.021, np.nan, 0.04] * 9)
    np.testing.assert_allclose(np.diff(kept.times_s), PROBE.step_s)
    keep("last", "-o", str(file))
    assert "competing traffic not known" in capsys.readouterr().out
    assert read_recording(file)[0].background is None
    link, fifo = tmp_path / "link.npz", tmp_path / "fifo.npz"
    link.symlink_to("run.npz")
    keep("last", "--others", "bbr", "-o", str(link))
    assert link.is_symlink()
    assert read_recording(file)[0].background == {"bbr": 1}
    os.mkfifo(fifo)
    with pytest.raises(HowdahError, match=r"fifo\.npz: it is a FIFO, and only a regular file is replaced"):
        app.main(["shared", "keep", "last", "-o", str(fifo)])
    assert fifo.is_fifo()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["last", "-o", "run.txt"], "give run.npz as --output"),
        (["last", "-o", "run.npz", "--others", "two bbr"], "'two bbr' does not name competing traffic"),
        (["last", "-o", "run.npz", "--others", "nobody, 1 bbr"], "does not name competing traffic"),
        (["last", "-o", "run.npz", "--others", "1 bbr, 2 bbr"], "does not name competing traffic"),
        (
            ["last", "-o", "run.npz", "--others", "1 bbr, 2 cubix"],
            "--others names cubix, which is no congestion control known here; give nobody, or of bbr, bic",
        ),
        (["last", "-o", "run.npz"], "is the record of a transfer; only a probe's can be kept"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    archive: Archive, words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive.save(record())
    with pytest.raises(HowdahError, match=says):
        app.main(["shared", "keep", *words])
    assert not Path("run.npz").exists()


@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True), st.integers(1, 999), max_size=4)
)
def test_the_name_of_a_class_says_what_it_has(background: dict[str, int]) -> None:
    background.pop(recording.NOBODY, None)
    assert recording.background(recording.label(background)) == background
