"""Agents of three hosts and two controllers over NATS, each a process of its own, on the real kernel."""

from collections.abc import Iterator

import pytest
from controls import clean_kernel

from bench.agents import killed, sent
from bench.fleet import GUARANTEE_BPS, Kernel, awaited, fleet
from howdah.cc import programs

pytestmark = pytest.mark.lab

HOSTS = 3
PRESSED_BPS = GUARANTEE_BPS // 10 // HOSTS
"""What the background of a host has while images are asked for."""


@pytest.fixture(scope="module", autouse=True)
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


def test_shares_outlive_the_controller_that_gave_them_and_end_with_the_agents() -> None:
    with fleet(HOSTS) as up:
        up.send(up.hosts[:1])
        with Kernel(per_s=20) as kernel:
            up.order(1)
            pressed = dict.fromkeys((f"background/{host}" for host in up.hosts), PRESSED_BPS)
            awaited(lambda: pressed.items() <= kernel.look().in_force_bps.items(), "order in force", 10)
            found = killed(up, kernel, up.hosts[:1])
            assert pressed.items() <= kernel.look().in_force_bps.items()
        assert max(look.sum_bps for look in kernel.looks) <= GUARANTEE_BPS
        assert found["lowered"] == 0, "no share falls because a controller dies"
        assert found["least"] > 0.7, "no flow stops"
        assert sent(kernel.looks, up.hosts[:1])[1] < 1.1
        assert {each.process.poll() for each in up.agents} == {None}
        up.stop_agents()
        status = programs.status()
        assert not status.rules
        assert not status.shares
        assert not [each for each in status.connections if each.hold and not each.listens]
