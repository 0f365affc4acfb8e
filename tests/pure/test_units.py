"""The units of systemd that are shipped: what they start is there, and they keep what they say."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from requirement import missing

from howdah.cli import app
from howdah.cli.table import read
from howdah.control.privilege.remote import CAPABILITIES

FOLDER = Path(__file__).parents[2] / "packaging" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
PRIVILEGED = ["howdah-agent.service", "howdah-control.service"]
TO_GIVE_UP = {"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"}
"""What giving all else up takes."""
EXPOSURE_MAX = {"howdah-agent.service": 4.0, "howdah-control.service": 4.0, "howdah-controller.service": 1.5}
"""What systemd-analyze security says, 0 to 10, with some room for another systemd's opinion."""
ANALYZE = shutil.which("systemd-analyze")
ALL = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)


def settings(unit: Path, section: str = "Service") -> dict[str, list[str]]:
    """The values of each key of a section, in their order."""
    found: dict[str, list[str]] = {}
    current = ""
    for line in unit.read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif line and not line.startswith("#") and current == section:
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_all_units_are_known() -> None:
    assert [unit.name for unit in UNITS] == sorted(EXPOSURE_MAX)


@ALL
def test_what_it_starts_is_a_command_of_ours(unit: Path) -> None:
    (start,) = settings(unit)["ExecStart"]
    program, *words = shlex.split(start)
    assert program == "howdah"
    # The variable has a file's options in it, or none.
    words = [word for word in words if not re.fullmatch(r"\$[A-Z_]+", word)]
    command = app.howdah(words[0])
    while words and words[0] in command.named():
        command = command.named()[words.pop(0)]
    assert command.run is not None
    read(command, words, {"HOWDAH_NATS": "nats://bus:4222"})


@ALL
def test_it_is_confined(unit: Path) -> None:
    found = settings(unit)
    for key in (
        *("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectHostname"),
        *("ProtectKernelLogs", "ProtectKernelModules", "ProtectControlGroups", "RestrictRealtime"),
        *("RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute"),
    ):
        assert found[key] == ["yes"], key
    assert found["ProtectSystem"] == ["strict"]
    assert found["SystemCallArchitectures"] == ["native"]
    assert found["SystemCallFilter"][0].startswith("@system-service")
    assert found["RestrictAddressFamilies"][0].startswith("AF_UNIX AF_INET AF_INET6")


@ALL
def test_its_capabilities_are_those_that_its_helper_keeps(unit: Path) -> None:
    found = settings(unit)
    bounds = set(" ".join(found["CapabilityBoundingSet"]).split())
    if unit.name in PRIVILEGED:
        assert bounds == {f"CAP_{each.upper()}" for each in CAPABILITIES} | TO_GIVE_UP
    else:
        assert bounds == set()
        assert found["User"] == ["howdah"]


@ALL
def test_systemd_finds_nothing_wrong_with_it(unit: Path, tmp_path: Path) -> None:
    if ANALYZE is None:
        missing("systemd-analyze is not installed; run: apt-get install systemd")
    # Where howdah is depends on how it was installed.
    text = unit.read_text(encoding="ascii").replace("ExecStart=howdah", f"ExecStart={sys.executable}")
    copy = tmp_path / unit.name
    copy.write_text(text)
    verified = subprocess.run([ANALYZE, "verify", copy], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = subprocess.run(
        [ANALYZE, "security", "--offline=true", copy], capture_output=True, text=True, check=True
    )
    level = re.search(r"exposure level for \S+: ([0-9.]+)", judged.stdout)
    assert level is not None
    assert float(level[1]) <= EXPOSURE_MAX[unit.name]
