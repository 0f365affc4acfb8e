"""Wildcards in the names of a far host, which its far end expands: ``howdah cp 'far:run*/x?.dat' .``."""

from pathlib import Path

import pytest
from copying import Copier

pytestmark = [pytest.mark.lab, pytest.mark.beside]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    top = tmp_path / "runs"
    for run in ("run1", "run2", "other"):
        for name in (f"{run}-x1.dat", f"{run}-x22.dat", f"{run}-y1.dat", ".hidden"):
            (top / run).mkdir(parents=True, exist_ok=True)
            (top / run / name).write_text(f"{run}/{name}")
    (top / "star*").write_text("a star in its name")
    (top / "starfish").write_text("none")
    return top


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_what_matches_there_is_copied_by_its_name(cp: Copier, runs: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    cp.good(f"far:{runs}/run*/*-x?.dat", f"{into}/")
    assert names(into) == ["run1-x1.dat", "run2-x1.dat"]
    # One that matches is as if it was named.
    cp.good(f"far:{runs}/o*", tmp_path / "renamed")
    assert names(tmp_path / "renamed") == [".hidden", "other-x1.dat", "other-x22.dat", "other-y1.dat"]
    cp.good(f"far:{runs}/run[12]", into)
    assert len(names(into)) == 2 + 2 * 5


def test_a_name_with_a_star_is_reached_and_nothing_is_named(cp: Copier, runs: Path, tmp_path: Path) -> None:
    for pattern in ("star*", "star\\*"):
        into = tmp_path / f"into-{len(pattern)}"
        into.mkdir()
        cp.good(f"far:{runs}/{pattern}", into)
        assert names(into) == ["star*"]
    said = cp.refused(f"far:{runs}/z*", tmp_path)
    assert f"far end: nothing there matches {runs}/z*; to take" in said


def test_a_pipe_takes_what_one_name_matches(cp: Copier, runs: Path) -> None:
    assert cp.piped(f"far:{runs}/run1/*-y*", "-").stdout == b"run1/run1-y1.dat"
    assert (
        b"2 files and folders there match, and a pipe takes one"
        in cp.piped(f"far:{runs}/run[12]", "-").stderr
    )
