"""Copies where firewalls close the data port, or ports of both ends, and the doctor's findings."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from copying import Copier, Wall, alive, tree

from howdah.lab import mounts

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

RANGE = (50000, 50020)
START_S = 4.0
"""The first byte through a firewall that drops has left within this time: 1.3 s are without an answer."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    (top / "sub").mkdir(parents=True)
    for number in range(40):
        (top / f"sub/{number}").write_bytes(bytes([number]) * 3000)
    (top / "big").write_bytes(os.urandom(24 << 20))
    return top


CLOSED = {
    "drop": "no answer",
    "reject with tcp reset": "Connection refused",
    "reject with icmpx admin-prohibited": "No route to host",
}


@pytest.mark.parametrize("otherwise", CLOSED)
def test_a_closed_port_is_gone_around_through_ssh_in_both_directions(
    cp: Copier, wall: Wall, source: Path, tmp_path: Path, otherwise: str
) -> None:
    wall(otherwise)
    why = CLOSED[otherwise]
    done = cp(f"{source}/.", f"far:{tmp_path}/there")
    assert done.returncode == 0, done.stderr
    assert tree(source) == tree(tmp_path / "there")
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("howdah: the data goes through"))
    assert why in said
    assert said.endswith("howdah doctor far")
    assert re.search(
        r"ssh carries at most \S+ [GM]b/s \(\d+ streams? with 2 MiB each in a round trip of", said
    ), said
    assert "Through the ssh connection, because the data port was closed (" in done.stdout
    pulled = cp.good(f"far:{tmp_path}/there/.", tmp_path / "back")
    assert tree(source) == tree(tmp_path / "back")
    assert pulled.outcome is not None
    assert pulled.outcome.through_ssh is not None
    assert why in pulled.outcome.through_ssh
    assert pulled.outcome.connections_replaced == 0
    assert pulled.outcome.setup_s is not None
    assert pulled.outcome.setup_s < START_S


@pytest.mark.parametrize("otherwise", ["drop", "reject with tcp reset"])
def test_the_far_end_connects_where_only_its_port_is_closed(
    cp: Copier, wall: Wall, source: Path, tmp_path: Path, otherwise: str
) -> None:
    wall(otherwise, hosts=("far",))
    done = cp(f"{source}/.", f"far:{tmp_path}/there")
    assert done.returncode == 0, done.stderr
    assert tree(source) == tree(tmp_path / "there")
    assert "howdah: the far end connects to this host, because its data port is closed (" in done.stderr
    assert "The far end connected to this host, because its port was closed (" in done.stdout
    pulled = cp.good("--plaintext", f"far:{tmp_path}/there/.", tmp_path / "back")
    assert tree(source) == tree(tmp_path / "back")
    assert pulled.outcome is not None
    assert pulled.outcome.through_ssh is None
    assert pulled.outcome.by_far_end is not None
    assert CLOSED[otherwise] in pulled.outcome.by_far_end
    assert pulled.outcome.setup_s is not None
    assert pulled.outcome.setup_s < START_S


def test_streams_of_the_far_end_that_break_are_replaced_by_it(cp: Copier, wall: Wall, tmp_path: Path) -> None:
    wall("drop", hosts=("far",))
    argv = cp.argv("--json", "--quiet", "--memory", "300MB", "far:")
    said = tmp_path / "record.json"
    with (
        # A pipe that nobody reads yet would hold the process at its end.
        said.open("wb") as record,
        alive(cp.lab.popen("near", argv, env=cp.env, stdout=record, stderr=subprocess.PIPE)) as process,
    ):
        resets = 0
        # The first connections may be those by which the far end has tried the port.
        while resets < 3 and process.poll() is None:
            time.sleep(0.4)
            # Those that are not all there yet are left alone: on a slow machine they would never come back.
            if cp.connected("near") > 1:
                resets += cp.reset_all("near") > 1
        _, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    outcome = json.loads(said.read_bytes())["outcome"]
    assert outcome["by_far_end"] is not None
    assert outcome["connections_replaced"] >= 1


def test_a_range_that_the_firewall_lets_in_is_used_straight(
    cp: Copier, wall: Wall, source: Path, tmp_path: Path
) -> None:
    wall("drop", f"{RANGE[0]}-{RANGE[1]}")
    record = cp.good("--ports", f"{RANGE[0]}-{RANGE[1]}", f"{source}/.", f"far:{tmp_path}/there")
    assert record.outcome is not None
    assert record.outcome.through_ssh is None
    folder = tmp_path / "config/howdah"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[host.far]\nports = "{RANGE[0]}"\n')
    done = cp("--json", f"{source}/.", f"far:{tmp_path}/again", XDG_CONFIG_HOME=str(folder.parent))
    assert json.loads(done.stdout)["outcome"]["through_ssh"] is None


def test_an_open_path_asks_nothing_more_of_ssh(cp: Copier, source: Path, tmp_path: Path) -> None:
    record = cp.good(f"{source}/.", f"far:{tmp_path}/there")
    assert record.outcome is not None
    assert record.outcome.through_ssh is None
    assert not [args for args in cp.processes().values() if " -W " in args]


def test_through_a_jump_host_from_which_only_ssh_leads_on(
    cp: Copier, wall: Wall, source: Path, tmp_path: Path
) -> None:
    wall("drop")
    config = tmp_path / "ssh_config"
    of_lab = cp.lab.run("near", ["cat", "/etc/ssh/ssh_config"], capture_output=True, text=True, check=True)
    beyond = "Host inside\n  HostName far\n  HostKeyAlias far\n  ProxyCommand ssh -W %h:%p far\n"
    config.write_text(beyond + of_lab.stdout.replace("Host far ", "Host inside far ", 1))
    done = cp("--json", f"{source}/.", f"inside:{tmp_path}/there", HOWDAH_SSH=f"ssh -F {config}")
    assert done.returncode == 0, done.stderr
    assert tree(source) == tree(tmp_path / "there")
    assert json.loads(done.stdout)["outcome"]["through_ssh"].endswith("no answer")
    cp.wait_for_nothing_left()


def test_an_sshd_that_forwards_nothing_ends_the_copy_with_what_to_ask_for(
    cp: Copier, wall: Wall, source: Path, tmp_path: Path
) -> None:
    wall("reject")
    keys = mounts.PRIVATE / "authorized_keys"
    plain = cp.lab.run("far", ["cat", str(keys)], capture_output=True, text=True, check=True).stdout

    def write(line: str) -> None:
        cp.lab.run("far", ["tee", str(keys)], input=line, stdout=subprocess.DEVNULL, text=True, check=True)

    write(f"no-port-forwarding {plain}")
    try:
        done = cp(source, f"far:{tmp_path}/there")
    finally:
        write(plain)
    assert done.returncode == 1
    *_, error = done.stderr.splitlines()
    assert error.startswith("howdah: the data port of far is closed (")
    assert (
        "ask its administrator for AllowTcpForwarding yes in sshd_config, or for the port: howdah doctor far"
        in error
    )


def test_the_doctor_tries_the_data_port_and_says_what_to_ask_for(cp: Copier, wall: Wall) -> None:
    def doctor(*options: str) -> dict[str, str]:
        argv = [sys.executable, "-m", "howdah", "doctor", "far", "--json", *options]
        done = cp.lab.run("near", argv, env=cp.env, capture_output=True, text=True, timeout=60)
        findings = json.loads(done.stdout)["hosts"][1]["findings"]
        (found,) = (each for each in findings if each["what"] == "data port")
        return dict(found)

    ports = f"{RANGE[0]}-{RANGE[1]}"
    wall("drop", ports)
    closed = doctor()
    assert closed["state"] == "gap"
    assert "no answer" in closed["found"]
    assert closed["cost"].startswith("copies go through the ssh connection")
    assert "ports 50000-50999, and copy with --ports 50000-50999; the line below" in closed["cost"]
    assert doctor("--ports", ports)["state"] == "good"
    cp.lab.run("near", ["nft", "flush", "ruleset"], check=True)
    from_there = doctor()
    assert from_there["state"] == "good"
    assert from_there["found"].endswith("connects to this host, so copies go straight")
