"""Whether a kept record is of today's code, by its commits and the parts that it depends on."""

import subprocess
from pathlib import Path

import pytest

from bench import standing

LINK, LAB, BENCH = "crates/link/model.rs", "python/howdah/lab/wan.py", "bench/link.py"


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet")
        self.first = self.commit(LINK, LAB, BENCH, "crates/emulator/run.rs")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        argv = ["git", *who, *words]
        return subprocess.run(argv, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def change(self, *files: str) -> None:
        for file in files:
            path = self.root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((path.read_text() if path.exists() else "") + "more\n")

    def commit(self, *files: str) -> str:
        self.change(*files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change something")
        return self.git("rev-parse", "--short=12", "HEAD")

    def judged(self, *commits: str) -> standing.Standing:
        record = {"commit": commits[0], "runs": [{"commit": each} for each in commits[1:]]}
        return standing.judged("link", record, self.root)


@pytest.fixture
def tree(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_record_counts_until_a_part_of_it_changes(tree: Repository) -> None:
    tree.commit("docs/link.md", "crates/link/tests/shape.rs", "crates/wire/frame.rs")
    assert tree.judged(tree.first).row() == f"| link | {tree.first[:7]} | nothing |\n"
    tree.commit(LAB, BENCH)
    assert tree.judged(tree.first).changed == ("python/howdah/lab", "bench/link.py")
    assert tree.judged(tree.first).row().startswith("| **link** | ")
    assert tree.judged(tree.first).row().endswith(" | Python lab; the bench |\n")


def test_a_change_that_is_not_committed_counts_too(tree: Repository) -> None:
    tree.change(LINK)
    assert tree.judged(tree.first).changed == ("crates/link",)


def test_each_run_has_its_commit(tree: Repository) -> None:
    later = tree.commit(LINK)
    assert tree.judged(later).changed == ()
    assert tree.judged(later, tree.first).changed == ("crates/link",)


def test_a_tree_with_changes_and_a_commit_from_elsewhere_count_for_nothing(tree: Repository) -> None:
    dirty = tree.judged(tree.first + "+")
    assert (dirty.dirty, dirty.row()[:10]) == (True, "| **link**")
    for commit in ("0123456789ab", "no-such-thing"):
        strange = tree.judged(commit)
        assert (strange.strange, strange.changed) == (True, ())
        assert "not in this history" in strange.row()
    tree.git("checkout", "--quiet", "-b", "aside")
    aside = tree.commit(LINK)
    tree.git("checkout", "--quiet", "-")
    assert tree.judged(aside).strange, "it is on another branch"


def test_the_list_stands_between_its_markers() -> None:
    page = f"before\n{standing.LIST.begin}\nold\n{standing.LIST.end}\nafter\n"
    assert standing.LIST.of(page) == "old\n"
    assert standing.LIST.replaced(page, "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no markers"):
        standing.LIST.replaced("before\n", "new\n")


def test_every_record_and_every_part_is_there() -> None:
    """A record whose parts nobody has named is an error, and so is a part that is gone."""
    kept = {path.stem for path in (standing.ROOT / "bench" / "results").glob("*.json")}
    assert kept == set(standing.DEPENDS) | standing.OTHERWISE
    assert [
        part for parts in standing.DEPENDS.values() for part in parts if not (standing.ROOT / part).is_dir()
    ] == []
