"""What is kept of files, by words."""

import pytest

from howdah import HowdahError
from howdah.remote.messages import Keep, Skip
from howdah.transfer.what import read_keep
from howdah.words.copy import times_note


def test_the_last_word_counts() -> None:
    assert read_keep([]) == Keep()
    archive = Keep(owner=True, group=True, devices=True, specials=True, top=True)
    assert read_keep(["archive"]) == archive
    assert read_keep(["no_owner", "archive", "hard_links"]) == Keep(
        owner=True, group=True, devices=True, specials=True, top=True, hard_links=True
    )
    assert read_keep(["archive", "no_owner", "no_D"]) == Keep(group=True, top=True)
    assert read_keep(["D", "no_archive"]) == Keep()


@pytest.mark.parametrize(
    ("words", "keep"),
    [
        ("no_perms no_times omit_dir_times", Keep(perms=False, times=False, omit_dir_times=True)),
        ("no_perms perms no_times times omit_dir_times no_omit_dir_times", Keep()),
        ("no_perms no_times no_archive", Keep(perms=False, times=False)),
        # As in rsync, where -a stands for -pt among others, and -A for -p too, but not for their opposites.
        ("omit_dir_times no_perms no_times archive no_owner no_group no_D no_top", Keep(omit_dir_times=True)),
        ("no_perms no_times acls", Keep(acls=True, times=False)),
        ("no_acls", Keep()),
        ("acls no_perms", Keep(acls=True, perms=False)),
    ],
)
def test_modes_and_times_are_kept_unless_the_last_word_on_them_says_otherwise(words: str, keep: Keep) -> None:
    assert read_keep(words.split()) == keep


@pytest.mark.parametrize(
    ("keep", "skip", "noted"),
    [
        (Keep(), Skip(), False),
        (Keep(times=False), Skip(), True),
        (Keep(times=False), Skip(missing=True), True),
        (Keep(times=False), Skip(same="size"), False),
        (Keep(times=False), Skip(same="content"), False),
        (Keep(times=False), Skip(newer=True), False),
        (Keep(omit_dir_times=True, perms=False), Skip(), False),
    ],
)
def test_a_note_says_what_follows_of_no_times(keep: Keep, skip: Skip, noted: bool) -> None:
    note = times_note(keep, skip)
    assert (note is not None) == noted
    if note is not None:
        assert "--size-only or --checksum" in note


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(HowdahError, match="keep ownr is unknown; it is one of archive, D, perms"):
        read_keep(["ownr"])
