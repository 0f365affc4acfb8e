"""What packages are made of, as far as that needs no build; `make package` tries them in bare roots."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from howdah.cli import app
from howdah.cli.pages import walk

ROOT = Path(__file__).parent.parent.parent


def pins(name: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / "requirements" / name).read_text(), re.MULTILINE))


def test_the_debian_package_holds_what_the_tests_have() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    needed = {re.sub(r"\[.*\]", "", one) for one in [*project["dependencies"], *extras]}
    assert needed <= pins("package.txt")
    assert pins("package.txt") <= pins("dev.txt")


def test_each_command_has_a_page_and_each_shell_a_script(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/pages.py", tmp_path], check=True)
    called = {"-".join(words) for words, _ in walk(app.howdah())}
    assert {page.stem for page in (tmp_path / "man/man1").iterdir()} == called
    scripts = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.suffix != ".1"}
    assert {"zsh/vendor-completions/_howdah", "bash-completion/completions/howdah"} <= scripts
    assert "fish/vendor_completions.d/howdah.fish" in scripts
    # Where zsh finds scripts by itself, it reads this line.
    assert (tmp_path / "zsh/vendor-completions/_howdah").read_text().startswith("#compdef howdah\n")


def test_the_example_of_a_policy_is_the_one_of_the_page() -> None:
    shown = re.search(r"```toml\n(.*?)```", (ROOT / "docs/policy.md").read_text(), re.DOTALL)
    assert shown
    assert tomllib.loads(shown[1]) == tomllib.loads((ROOT / "packaging/policy.toml").read_text())


def commit(tree: Path) -> str:
    script = [tree / "scripts/commit.sh"]
    return subprocess.run(script, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_known_from_git_and_in_an_archive_and_else_not(tmp_path: Path) -> None:
    who = {
        f"GIT_{who}_{what}": "me@a.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    env = {**os.environ, **who}

    def git(*words: str | Path) -> str:
        command = ["git", "-C", tree, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()

    tree = tmp_path / "tree"
    (tree / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/commit.sh", tree / "scripts")
    shutil.copy(ROOT / ".gitattributes", tree)
    assert commit(tree) == ""
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "First")
    short = git("rev-parse", "--short", "HEAD")
    assert commit(tree) == short
    # An archive that was unpacked inside another repository is still of its own commit.
    archive, inside = tmp_path / "archive.tar", tree / "unpacked"
    git("archive", "--output", archive, "HEAD")
    inside.mkdir()
    subprocess.run(["tar", "-C", inside, "-xf", archive], check=True)
    assert commit(inside) == short
    (tree / ".gitattributes").write_text("changed\n")
    assert commit(tree) == f"{short}-dirty"
