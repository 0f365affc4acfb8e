"""The sources on this host before ssh has connected."""

from pathlib import Path

import pytest

from howdah import HowdahError
from howdah.remote.endpoints import route
from howdah.transfer import sources


def test_some_sources_that_are_missing_stop_nothing_and_all_do(tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_bytes(b"12345")
    dangling = tmp_path / "dangling"
    dangling.symlink_to("nowhere")
    way = route([str(missing), str(there), "far:d/"], memory=False)
    sources.check(way)
    assert sources.size(way) == 5
    linked = route([str(dangling), str(there), "far:d/"], memory=False)
    sources.check(linked)
    assert sources.size(linked) is None
    nothing = route([str(missing), str(tmp_path / "other"), "far:d/"], memory=False)
    with pytest.raises(HowdahError, match=r"cannot read .*missing: No such file"):
        sources.check(nothing)
