"""What of a copy is skipped for what is at the target: what can be asked for, and what the summary says."""

import pytest
from test_delete import asked
from test_summary import finished

from howdah._native import HowdahError
from howdah.library.copy import Memory, copy_request
from howdah.remote.messages import Skip, Walk
from howdah.words.copy import summary


@pytest.mark.parametrize(
    ("words", "skip"),
    [
        ([], Skip()),
        (["--existing"], Skip(missing=True)),
        (["--ignore-existing"], Skip(there=True)),
        (["-u"], Skip(newer=True)),
        (["--size-only"], Skip(same="size")),
        (["-I", "--update"], Skip(newer=True, same="nothing")),
        (["-cu"], Skip(newer=True, same="content")),
    ],
)
def test_each_option_is_asked_of_the_receiver(words: list[str], skip: Skip) -> None:
    assert asked(*words, "run42", "dtn2:d").skip == skip


def test_what_contradicts_itself_or_moves_no_files_is_refused() -> None:
    with pytest.raises(HowdahError, match="--size-only skips what --ignore-times sends"):
        asked("--size-only", "-I", "run42", "dtn2:d")
    with pytest.raises(HowdahError, match="--checksum compares contents and --ignore-times does not"):
        asked("-c", "-I", "run42", "dtn2:d")
    with pytest.raises(HowdahError, match="nothing to skip"):
        copy_request(["dtn2:"], [], memory=Memory(size_bytes=1), update=True)


@pytest.mark.parametrize(
    ("words", "walk"),
    [
        ([], Walk()),
        (["-x"], Walk(one_file_system=True)),
        (["-L", "--copy-unsafe-links"], Walk(links="followed")),
        (["--copy-unsafe-links", "--safe-links"], Walk(links="unsafe", safe_links=True)),
    ],
)
def test_how_the_sources_are_gone_through_is_asked_of_the_sender(words: list[str], walk: Walk) -> None:
    assert asked(*words, "run42", "dtn2:d").walk == walk


def test_where_no_files_move_there_are_no_links() -> None:
    with pytest.raises(HowdahError, match="no links and no file systems"):
        copy_request(["dtn2:"], [], memory=Memory(size_bytes=1), copy_links=True)


def test_the_summary_says_that_what_was_skipped_is_there_only_where_it_must_be() -> None:
    assert "3 skipped, there already (5.00 kB)" in summary(finished(), None)
    assert "3 skipped (5.00 kB)" in summary(finished(skips_as_asked=True), None)
