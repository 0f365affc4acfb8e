"""What all tests share: tests with the marker ``lab`` run only where labs can be made."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings
from requirement import missing

# nohup, background shells and some runners start us with these ignored; every program under test, and a
# shell's trap, would inherit that, and no signal would ever end it.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)

# A machine that is busy, or imports something for the first time, is no counterexample.
settings.register_profile("howdah", deadline=None)
settings.load_profile("howdah")


@pytest.fixture(scope="session")
def privilege() -> None:
    """Root and TUN devices."""
    if why := _no_lab():
        missing(f"lab tests cannot run here: {why}")


@pytest.fixture(autouse=True)
def _privilege_where_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("lab"):
        request.getfixturevalue("privilege")


def _no_lab() -> str | None:
    if os.geteuid() != 0:
        return "not root; run them with sudo"
    if not Path("/dev/net/tun").exists():
        return "no /dev/net/tun; modprobe tun"
    return None
