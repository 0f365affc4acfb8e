"""What benches write into docs/results.md, and whether what a record depends on has changed since."""

import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/results.md"


class Part(NamedTuple):
    """A part of the page that a program makes, by the lines around it."""

    begin: str
    end: str

    def of(self, page: str) -> str:
        """What the page has there. Raises ValueError where it has no such part."""
        return self._divided(page)[1]

    def replaced(self, page: str, made: str) -> str:
        """The page with what was made there. Raises ValueError where it has no such part."""
        before, _, after = self._divided(page)
        return before + made + after

    def _divided(self, page: str) -> tuple[str, str, str]:
        before, begin, rest = page.partition(f"{self.begin}\n")
        inside, end, after = rest.partition(f"{self.end}\n")
        if not (begin and end):
            raise ValueError(f"no markers {self.begin} and {self.end}")
        return before + begin, inside, end + after


def has_changed(since: str, *parts: str, root: Path = ROOT) -> bool:
    """Whether those files and folders are not as that commit has them, uncommitted changes included."""
    return not git(root, "diff", "--quiet", since, "--", *parts)


def git(root: Path, *words: str) -> bool:
    """Whether git says yes."""
    return subprocess.run(["git", *words], cwd=root, check=False, capture_output=True).returncode == 0
