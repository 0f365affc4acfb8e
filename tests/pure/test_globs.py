"""Wildcards in far names: which copies ask the far end for what they lead to."""

import pytest

from howdah.remote.endpoints import route
from howdah.transfer.globs import has_any


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
    assert has_any(route(names, memory=False)) == asks
