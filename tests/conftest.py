"""What all tests share."""

import os

import pytest


@pytest.fixture(scope="session")
def privilege() -> None:
    """Root with the network namespaces a lab needs: a visible skip on a laptop, a failure in CI."""
    missing = _missing()
    if missing is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"lab tests cannot run here: {missing}", pytrace=False)
    pytest.skip(f"lab tests cannot run here: {missing}")


def _missing() -> str | None:
    if os.geteuid() != 0:
        return "not root; run them with sudo"
    if not os.path.exists("/dev/net/tun"):  # noqa: PTH110
        return "no /dev/net/tun; modprobe tun"
    return None
