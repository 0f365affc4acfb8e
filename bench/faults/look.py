"""What a copy has left, and whether docs/guarantees.md and docs/delete.md allow it."""

from pathlib import Path

import msgspec

from bench.faults import trees
from bench.faults.cases import KEPT, MIRRORS, SOURCE_FAULTS
from bench.faults.strikes import Scene
from bench.faults.trees import Tree

FINDINGS = (
    "wrong bytes",
    "lost",
    "removed too early",
    "different",
    "leftover",
    "not finished",
    "unclear error",
    "hangs",
    "flipped bit not told",
    "failed disk not told",
    "no verdict",
)
"""What a case may not show. The last is a case that could not be carried out."""
BESIDE = "beside"
"""A folder of the target that is no part of the copy, so that not even a mirror removes it."""
_ROOM_HAS = {"target", "lost+found"}
_SHOWN = 5


class Finding(msgspec.Struct, frozen=True):
    """What a case showed that may not be."""

    what: str
    detail: str


class Look:
    """Looks at the target of a case, before its copy begins and whenever it has ended."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._mirror = scene.case.shape in MIRRORS
        self._before = self._tree(scene.where)
        self._sent = self._tree(scene.source)
        self._versions = [self._before, self._sent]

    def source_again(self) -> None:
        """Looks at the source after the copy, which may have sent what it was or what it is."""
        self._versions.append(self._tree(self._scene.source))

    def at_what_is_left(self, exit_code: int) -> list[Finding]:
        """Under a final name there may only be bytes that a version of it had, whole; none may be gone.

        What the source of a mirror has not may go, but only when all that it has is there.
        """
        left = self._tree(self._scene.where)
        found = self._removed_too_early(left, exit_code)
        for name, node in left.items():
            hidden = Path(name).name.startswith(".")
            known = any(name in tree and tree[name].digest == node.digest for tree in self._versions)
            if node.kind == "file" and not hidden and not known:
                found.append(Finding("wrong bytes", name))
        if self._scene.case.fault != "target removed":
            may_go = self._before.keys() - self._sent.keys() if self._mirror else set[str]()
            gone = self._before.keys() - left.keys() - may_go
            if gone:
                found.append(Finding("lost", f"{_some(gone)} were there before the copy"))
            if self._mirror and not (self._scene.target / BESIDE / trees.STAYS).exists():
                found.append(Finding("lost", f"{BESIDE} is no part of the copy"))
        return found

    def _removed_too_early(self, left: Tree, exit_code: int) -> list[Finding]:
        if not self._mirror or self._scene.case.fault == "target removed":
            return []
        gone = self._before.keys() - self._sent.keys() - left.keys()
        if not gone:
            return []
        if self._scene.case.fault in SOURCE_FAULTS:
            detail = f"{_some(gone)}, though a source could not be copied"
            return [Finding("removed too early", detail)] if exit_code else []
        missing = {name for name, node in self._sent.items() if not node.is_there(left.get(name))}
        detail = f"{_some(gone)}, before {_some(missing)} were there"
        return [Finding("removed too early", detail)] if missing else []

    def at_both_sides(self, when: str) -> list[Finding]:
        """They must be the same now. Beside that, a mirror has nothing, and no copy what no version had."""
        found = []
        source, target = self._tree(self._scene.source), self._tree(self._scene.where)
        wrong = {name for name, node in source.items() if target.get(name) != node}
        if wrong:
            found.append(Finding("different", f"{when}, and {_some(wrong)} differ"))
        known = set[str]() if self._mirror else set[str]().union(*self._versions)
        beside = {path.name for path in self._scene.room.iterdir()} - _ROOM_HAS
        strange = (target.keys() - source.keys() - known) | beside
        if strange:
            found.append(Finding("leftover", f"{when}, and {_some(strange)} are left"))
        return found

    def places(self) -> set[Path]:
        """The paths of all that a version of the source or the target had, and of the folders above them."""
        roots = self._scene.source, self._scene.where
        below = {root / name for root in roots for tree in self._versions for name in tree}
        return {*roots, self._scene.target, *below}

    def _tree(self, root: Path) -> Tree:
        return trees.tree(root, kept=self._scene.case.shape in KEPT)


def _some(names: set[str]) -> list[str]:
    return sorted(names)[:_SHOWN]
