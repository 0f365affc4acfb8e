"""What a test needs of this machine: a visible skip where it is missing on a laptop, a failure in CI."""

import os
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Ends the test that asked."""
    if os.environ.get("CI"):
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
