"""What howdah writes of a user's files is for that user alone, whatever the umask."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_archive_store import traced

from howdah.archive import Archive, exchange
from howdah.archive.store import Selection


@pytest.fixture(autouse=True)
def _wide_open() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def check_private(root: Path) -> int:
    """Checks everything from ``root`` on; how many files there are."""
    files = [each for each in root.rglob("*") if each.is_file()]
    for each in (root, *root.rglob("*")):
        assert each.stat().st_mode & 0o777 == (0o600 if each.is_file() else 0o700), each
    return len(files)


def test_an_archive_is_private_however_open_the_umask(tmp_path: Path) -> None:
    root = tmp_path / "data" / "howdah" / "records"
    archive = Archive(root)
    made = traced(0)
    archive.new_digests(made.id)
    archive.save(made)
    assert check_private(tmp_path / "data") == 2
    assert archive.load(made.id) == made
    exported = tmp_path / "exported"
    exchange.export(archive.inbox, Selection(), exported)
    assert check_private(tmp_path / "data") == 2
    assert check_private(exported) == 3


def test_an_archive_that_an_older_howdah_left_open_is_closed_to_others(tmp_path: Path) -> None:
    root = tmp_path / "records"
    root.mkdir(mode=0o755)
    Archive(root).save(traced(0))
    assert root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o775)
    list(Archive(root).newest())
    assert root.stat().st_mode & 0o777 == 0o700
