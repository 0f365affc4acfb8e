"""Wildcards in far names: which copies ask the far end for what they lead to."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from howdah import HowdahError
from howdah.remote.endpoints import route
from howdah.remote.messages import Expanded
from howdah.transfer.sources import expanded, has_patterns


@pytest.mark.parametrize(
    ("names", "asks"),
    [
        (["far:run*", "d"], True),
        (["far:a", "far:b?", "d"], True),
        (["far:[ab]", "-"], True),
        (["far:a\\*", "d"], True),
        (["x:run*", "y:d"], True),
        # The shell here has expanded what is here, and a target is one name.
        (["run*", "far:d"], False),
        (["far:a", "d*"], False),
        (["x:a", "y:d*"], False),
        (["far:a{b,c}~$d", "d"], False),
    ],
)
def test_only_far_sources_are_patterns(names: list[str], asks: bool) -> None:
    assert has_patterns(route(names, memory=False)) == asks


def answering(*paths: bytes) -> SimpleNamespace:
    """A far end that says that these match."""
    answer = msgspec.json.encode(Expanded(paths=list(paths)))
    session = SimpleNamespace(expand=lambda _: None, expanded=lambda _: answer)
    return SimpleNamespace(session=session, far=SimpleNamespace(new_stderr=lambda: ""))


def matching(name: str, *paths: bytes) -> list[bytes]:
    sender: Any = answering(*paths)
    display: Any = SimpleNamespace(far_says=lambda _: None)
    return expanded(route([name, "d"], memory=False), False, sender, display).sources


def test_a_name_matches_no_content_of_a_folder() -> None:
    assert matching("far:run*", b"run1", b"run2/") == [b"run1", b"run2/"]
    assert matching("far:run*/.", b"run1/.") == [b"run1/."]
    for lie in (b"run1/.", b".", b"", b"/", b"run1/./"):
        with pytest.raises(HowdahError, match="it lists the content of a folder"):
            matching("far:run*", b"run1", lie)
