"""What is kept of files, by words."""

import pytest

from howdah import HowdahError
from howdah.remote.messages import Keep
from howdah.transfer.keep import read


def test_the_last_word_counts() -> None:
    assert read([]) == Keep()
    archive = Keep(owner=True, group=True, devices=True, specials=True, top=True)
    assert read(["archive"]) == archive
    assert read(["no_owner", "archive", "hard_links"]) == Keep(
        owner=True, group=True, devices=True, specials=True, top=True, hard_links=True
    )
    assert read(["archive", "no_owner", "no_D"]) == Keep(group=True, top=True)
    assert read(["D", "no_archive"]) == Keep()


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(HowdahError, match="keep ownr is unknown; it is one of archive, D, hard_links"):
        read(["ownr"])
