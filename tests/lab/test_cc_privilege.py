"""What ``howdah cc`` and ``howdah doctor`` say to those whom the kernel lets load nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from controls import cc, refused
from traces import HOWDAH

from howdah.doctor import facts

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("privilege")]

AS_USER = ["unshare", "--mount", sys.executable, str(Path(__file__).with_name("as_user.py"))]
AS_ROOT_OF_A_USER_NAMESPACE = ["unshare", "--user", "--map-root-user"]


def test_without_root_only_looking_works() -> None:
    for command in (
        ["load", "scalable"],
        ["unload", "scalable"],
        ["status"],
        ["set", "hold", "--rate", "1Gbit"],
    ):
        assert "programs in the kernel are root's: this needs root" in refused(*command, through=AS_USER)
    assert cc("list", through=AS_USER).returncode == 0


@pytest.mark.parametrize(
    ("through", "why"),
    [(AS_USER, "needs root"), (AS_ROOT_OF_A_USER_NAMESPACE, "a user namespace or a container")],
    ids=["user", "root of a user namespace"],
)
def test_the_doctor_gives_the_reason_that_loading_gives(through: list[str], why: str) -> None:
    doctor = [*through, *HOWDAH, "doctor", "--rate", "1Gbit", "--rtt", "10ms", "--json"]
    done = subprocess.run(doctor, capture_output=True, check=False, timeout=30)
    reason = json.loads(done.stdout)["hosts"][0]["facts"]["programs_refused"]
    assert why in reason
    assert refused("load", "scalable", through=through) == f"howdah: {reason}\n"


def test_the_doctor_gives_root_no_reason() -> None:
    assert facts.gather().programs_refused is None
