"""What of a source is copied, over real ssh and by a confined far end, held against rsync."""

import os
import subprocess
from pathlib import Path

import pytest
from copying import Copier, tree

pytestmark = [pytest.mark.lab, pytest.mark.beside]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Files, and links in it and out of it."""
    top = tmp_path / "src"
    (top / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for name in ("src/same", "src/touched", "src/bytes", "src/newer", "elsewhere/file"):
        (tmp_path / name).write_text("from source")
        os.utime(tmp_path / name, (1_000_000_000, 1_000_000_000))
    (top / "big").write_bytes(os.urandom(3_000_001))
    os.utime(top / "big", (1_000_000_000, 1_000_000_000))
    (top / "inside").symlink_to("sub")
    (top / "sub" / "up").symlink_to("../same")
    (top / "outside").symlink_to("../elsewhere/file")
    (top / "folder").symlink_to("../elsewhere")
    return top


def fill(target: Path, source: Path) -> None:
    """A target of files that differ in one way each."""
    target.mkdir()
    for name, text, at_s in (
        ("same", "from source", 1_000_000_000),
        ("touched", "from source", 1_000_000_010),
        ("bytes", "at  target!", 1_000_000_000),
        ("newer", "at  target!", 1_000_000_010),
        ("gone", "at target", 1_000_000_000),
    ):
        (target / name).write_text(text)
        os.utime(target / name, (at_s, at_s))
    (target / "big").write_bytes((source / "big").read_bytes())
    os.utime(target / "big", (999_999_990, 999_999_990))


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("options", ["-c", "-cu --existing", "-c --delete", "-L", "--safe-links --delete"])
def test_the_target_is_what_rsync_makes_of_it(
    cp: Copier, source: Path, tmp_path: Path, direction: str, options: str
) -> None:
    words = options.split()
    rsync, ours = tmp_path / "rsync", tmp_path / "ours"
    for target in (rsync, ours):
        fill(target, source)
    subprocess.run(["rsync", "-a", *words, f"{source}/", f"{rsync}/"], check=True, capture_output=True)
    names = (f"{source}/.", f"far:{ours}/") if direction == "push" else (f"far:{source}/.", f"{ours}/")
    planned = cp.good("-a", *words, "--dry-run", *names).outcome
    outcome = cp.good("-a", *words, *names).outcome
    assert outcome is not None and planned is not None
    assert planned.files_skipped == outcome.files_skipped
    assert {name: node for name, node in tree(ours).items() if node[0] != "link"} == {
        name: node for name, node in tree(rsync).items() if node[0] != "link"
    }
    assert tree(ours).keys() == tree(rsync).keys()
    if "-c" in words and "--existing" not in words:
        assert outcome.bytes == len("from source") * 2, "what has the same content is not sent"
