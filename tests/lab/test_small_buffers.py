"""Buffers far below the bandwidth-delay product: what they hold crosses the path at once, and is not lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from copying import Copier

from howdah import lab

RTT_S = 0.183
BUFFER_BYTES = 244_000


@pytest.fixture
def wan(privilege: None) -> Iterator[lab.Lab]:
    """Ten gigabits a second, long enough that a window is one burst."""
    with lab.started(lab.symmetric(10_000_000_000, round(RTT_S * 1e9)), sshd=True) as up:
        yield up


def test_a_window_that_arrives_at_once_finds_room(wan: lab.Lab, tmp_path: Path) -> None:
    """Where it found none, nearly every run lost some and waited for timeouts."""
    options = ("--plaintext", "--streams", "2", "--buffer", f"{BUFFER_BYTES}B", "--path", "shared")
    record = Copier(wan, tmp_path).good("--memory", "6s", *options, "far:")
    assert record.outcome is not None
    assert [stream.retransmissions for stream in record.outcome.streams] == [0, 0]
    assert record.outcome.moving_bps is not None
    windows = record.outcome.moving_bps * RTT_S / 8 / (2 * BUFFER_BYTES)
    assert 1.15 < windows < 2
