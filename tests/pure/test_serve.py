"""What ``howdah serve`` says of what holds it. tests/lab/test_serve_root.py and Rust test that it holds."""

import pytest

from howdah.remote.serve import in_words


@pytest.mark.parametrize(
    ("read_only", "abi", "whole", "seccomp", "says"),
    [
        (True, 7, True, True, "to read alone; held by openat2, landlock 7, seccomp"),
        (False, 3, False, True, "to read and write; held by openat2, landlock 3 in part, seccomp"),
        (False, None, False, True, "held by openat2, seccomp; this kernel has no landlock"),
        (False, None, False, False, "held by openat2; this kernel has no landlock and no seccomp"),
    ],
)
def test_a_far_end_says_what_holds_it_and_what_does_not(
    read_only: bool,
    abi: int | None,
    whole: bool,
    seccomp: bool,
    says: str,
) -> None:
    said = in_words(read_only=read_only, abi=abi, whole=whole, seccomp=seccomp)
    assert said.startswith("paths begin at the folder of this login, to read")
    assert said.endswith(says)
