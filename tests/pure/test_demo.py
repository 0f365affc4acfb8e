"""The demo's check sees every kind of difference."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.compare import differences


def _touch_later(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def _overwrite(path: Path, content: bytes) -> None:
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _relink(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


def _make(root: Path) -> None:
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").write_bytes(b"load")
    (root / "link").symlink_to("folder")
    os.utime(root / "folder" / "file", ns=(1, 1))
    for folder in (root / "folder", root):
        os.utime(folder, ns=(2, 2))


CHANGES: dict[str, Callable[[Path], None]] = {
    "other bytes": lambda root: _overwrite(root / "folder/file", b"loaf"),
    "longer": lambda root: _overwrite(root / "folder/file", b"loads"),
    "shorter": lambda root: _overwrite(root / "folder/file", b"loa"),
    "later": lambda root: _touch_later(root / "folder/file"),
    "folder later": lambda root: _touch_later(root / "folder"),
    "permissions": lambda root: (root / "folder/file").chmod(0o600),
    "missing": lambda root: (root / "folder/file").unlink(),
    "more": lambda root: (root / "folder/more").touch(),
    "other link": lambda root: _relink(root / "link"),
    "other kind": lambda root: _overwrite(_gone(root / "link"), b""),
}


def _gone(path: Path) -> Path:
    path.unlink()
    path.touch()
    return path


def test_the_same(tmp_path: Path) -> None:
    _make(tmp_path / "one")
    _make(tmp_path / "other")
    assert list(differences(tmp_path / "one", tmp_path / "other")) == []


@pytest.mark.parametrize("change", CHANGES)
def test_not_the_same(tmp_path: Path, change: str) -> None:
    _make(tmp_path / "one")
    _make(tmp_path / "other")
    CHANGES[change](tmp_path / "other")
    assert list(differences(tmp_path / "one", tmp_path / "other")) != []
