"""What each kept record measured, and which parts that its figures depend on have changed since.

python -m bench.standing            writes the list in docs/results.md (``make records``)
python -m bench.standing --check    fails if the list is not true (``make lint``)

A record counts for today's code only if its commits are in this history and of a clean tree, and none of
the parts below has changed since. The list names the parts. A record that does not count is in bold.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.page import PAGE, ROOT, Part, git, has_changed

LIST = Part("<!-- records: made by `make records` -->", "<!-- end of records -->")

LINK = ("crates/link", "crates/emulator", "python/howdah/lab")
DATA = ("crates/transfer", "crates/wire", "crates/tcp", "crates/digest")
COPY = (*DATA, "python/howdah/transfer", "python/howdah/remote")
SHARED = (*COPY, "python/howdah/steering", "python/howdah/recognition", "python/howdah/probing")
CONTROL = ("python/howdah/control",)
PROFILES = ("python/howdah/profiles",)
DEPENDS: dict[str, Sequence[str]] = {
    "agents": ("crates/cc", *CONTROL),
    "archive": ("python/howdah/archive", "python/howdah/values"),
    "before": (*LINK, *SHARED),
    "between": COPY,
    "blocked": (*COPY, "crates/far"),
    "bus": CONTROL,
    "cc": (*LINK, "crates/cc"),
    "control": CONTROL,
    "cost": COPY,
    "dumbbell": LINK,
    "dynamics": PROFILES,
    "faults": (*COPY, "crates/failing"),
    "filters": ("crates/filter", "crates/transfer"),
    "first": ("crates/cc",),
    "hpdc17": (*LINK, "crates/cc", *PROFILES, "python/howdah/decide"),
    "leases": CONTROL,
    "link": LINK,
    "lsst": (*LINK, "crates/cc", *CONTROL, *COPY),
    "million": DATA,
    "models": PROFILES,
    "ops": (*LINK, *SHARED),
    "peers": COPY,
    "power": DATA,
    "profile": PROFILES,
    "second": (*COPY, "crates/cc"),
    "select": (*PROFILES, "python/howdah/decide"),
    "shared": ("python/howdah/recognition",),
    "small": DATA,
    "trust": COPY,
    "why": (*COPY, "python/howdah/report"),
}
"""The parts that the figures of a record depend on, beside the bench itself."""
OTHERWISE = {"fuzz"}
"""Records that are judged elsewhere: bench/fuzz.py counts each target by its own code."""


class Standing(NamedTuple):
    """A record beside the tree that it lies in."""

    name: str
    commits: tuple[str, ...]
    dirty: bool
    """Whether the tree held changes when it was measured."""
    strange: bool
    """Whether one of its commits is not in this history."""
    changed: tuple[str, ...]
    """The parts that have changed since."""

    def row(self) -> str:
        """A row of the list."""
        counts = not (self.dirty or self.strange or self.changed)
        name = self.name if counts else f"**{self.name}**"
        if self.strange:
            says = "unknown: a commit is not in this history"
        elif self.dirty:
            says = "unknown: the tree held changes that no commit has"
        else:
            says = "; ".join(_together(self.changed)) or "nothing"
        return f"| {name} | {', '.join(each[:7] for each in self.commits)} | {says} |\n"


def _together(parts: Sequence[str]) -> list[str]:
    """Parts as people name them: crates, packages of Python, the bench."""
    crates = [part.removeprefix("crates/") for part in parts if part.startswith("crates/")]
    packages = [part.removeprefix("python/howdah/") for part in parts if part.startswith("python/")]
    bench = any(part.startswith("bench/") for part in parts)
    found = [
        f"{kind} {', '.join(names)}" for kind, names in (("crates", crates), ("Python", packages)) if names
    ]
    return [*found, *(["the bench"] if bench else [])]


def commits(record: dict[str, Any]) -> list[str]:
    """The commits of a record and of its runs, in order of mention."""
    found = [record.get("commit"), *(run.get("commit") for run in record.get("runs", []))]
    return list(dict.fromkeys(each for each in found if each))


def judged(name: str, record: dict[str, Any], root: Path) -> Standing:
    """A record beside the tree at ``root``, its uncommitted changes included."""
    named = commits(record)
    clean = tuple(dict.fromkeys(each.rstrip("+") for each in named))
    known = (git(root, "merge-base", "--is-ancestor", each, "HEAD") for each in clean)
    strange = not clean or not all(known)
    parts = () if strange else (*DEPENDS[name], *_bench(name, root))
    changed = [
        part for part in parts if any(has_changed(each, part, f":!{part}/tests", root=root) for each in clean)
    ]
    return Standing(name, clean, any(each.endswith("+") for each in named), strange, tuple(changed))


def listed(root: Path) -> str:
    """The list of all records in ``bench/results``. Raises KeyError for one whose parts nobody has named."""
    files = sorted((root / "bench" / "results").glob("*.json"))
    rows = [
        judged(file.stem, json.loads(file.read_text()), root).row()
        for file in files
        if file.stem not in OTHERWISE
    ]
    return "| record | of | changed since |\n| --- | --- | --- |\n" + "".join(rows)


def _bench(name: str, root: Path) -> list[str]:
    """The bench itself, a module or a package."""
    found = [root / "bench" / f"{name}.py", root / "bench" / name]
    return [str(each.relative_to(root)) for each in found if each.exists()]


def _history(root: Path) -> bool:
    """Whether the tree has its whole history; an archive of the sources has none, a shallow clone a part."""
    said = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=root, check=False, capture_output=True, text=True
    )
    return said.returncode == 0 and said.stdout.strip() == "false"


def main() -> int:
    """Writes or compares the list."""
    parser = argparse.ArgumentParser(prog="python -m bench.standing", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the list is not true")
    check = parser.parse_args().check
    if not _history(ROOT):
        print("records: not compared, because this tree has not its whole history", file=sys.stderr)
        return 0
    page = PAGE.read_text()
    now = LIST.replaced(page, listed(ROOT))
    if check and now != page:
        print(
            f"{PAGE.relative_to(ROOT)}: its list of records is not true any more; run `make records`",
            file=sys.stderr,
        )
        return 1
    if not check:
        PAGE.write_text(now)
        print("docs/results.md: the list of records is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
