"""Logins as sites have them: keys with rights of their own, an sshd that takes few at a time."""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from copying import SLACK_S, STOP_S, Copier, alive, tree, wait_until

from howdah.lab import Lab, mounts

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

KEYS = mounts.PRIVATE / "authorized_keys"
SERVER = mounts.PRIVATE / "sshd_config"
CLIENT = "/etc/ssh/ssh_config"
KNOWN = (
    f"UserKnownHostsFile {mounts.PRIVATE}/known_hosts\nHostKeyAlias far\nBatchMode yes\nIdentitiesOnly yes\n"
)
PORT = 2222

Say = Callable[[str], None]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    top.mkdir()
    for number in range(3):
        (top / f"{number}").write_bytes(bytes([number]) * 10_000)
    return top


def written(wan: Lab, path: Path | str, text: str) -> None:
    wan.run("far", ["tee", str(path)], input=text, stdout=subprocess.DEVNULL, text=True, check=True)


def read(wan: Lab, path: Path | str) -> str:
    return wan.run("far", ["cat", str(path)], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def says(wan: Lab) -> Iterator[Say]:
    """Adds to the configuration that every ssh of the lab reads."""
    plain = read(wan, CLIENT)
    yield lambda more: written(wan, CLIENT, more + plain)
    written(wan, CLIENT, plain)


def test_two_keys_of_one_account_lead_each_to_its_own_folder(
    cp: Copier, wan: Lab, says: Say, source: Path, tmp_path: Path
) -> None:
    plain, lines, hosts = read(wan, KEYS), [], []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        key = tmp_path / f"key-{name}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        served = shlex.join([str(Path(sys.executable).parent / "howdah"), "serve", "--root"])
        lines.append(f'command="{served} {tmp_path / name}",restrict {key.with_suffix(".pub").read_text()}')
        hosts.append(f"Host {name}\nHostName far\nIdentityFile {key}\n{KNOWN}")
    says("".join(hosts))
    written(wan, KEYS, "".join(lines))
    try:
        for name in ("one", "two", "one"):
            done = cp(source / "1", f"{name}:{name}")
            assert done.returncode == 0, done.stderr
        # Each is kept, for copies of its own.
        wait_until(lambda: sum("[mux]" in args for args in cp.processes().values()) == 2, STOP_S + SLACK_S)
    finally:
        written(wan, KEYS, plain)
    for name in ("one", "two"):
        assert [each.name for each in (tmp_path / name).iterdir()] == [name]


@pytest.fixture
def few(wan: Lab, says: Say) -> Iterator[None]:
    """The host ``few``: a further sshd of the far host, which takes one login at a time."""
    says(f"Host few\nHostName far\nPort {PORT}\nIdentityFile {mounts.PRIVATE}/user_key\n{KNOWN}")
    config = SERVER.with_name("few_config")
    written(wan, config, read(wan, SERVER).replace("MaxStartups 1000", "MaxStartups 1:100:1"))
    server = ["/usr/sbin/sshd", "-D", "-f", str(config), "-p", str(PORT)]
    with alive(wan.popen("far", server, stderr=subprocess.DEVNULL)):
        listens = f":{PORT:04X}"
        wait_until(lambda: listens in read(wan, "/proc/net/tcp"), STOP_S + SLACK_S)
        yield


def stranger(wan: Lab, for_s: float) -> "subprocess.Popen[bytes]":
    """Somebody who connects to that sshd and says nothing, for so long."""
    program = (
        f"import socket, time; s = socket.create_connection(('far', {PORT})); s.recv(9); "
        f"print(flush=True); time.sleep({for_s})"
    )
    waits = wan.popen("near", [sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert waits.stdout is not None
    with closing(waits.stdout) as said:
        said.readline()
    return waits


def test_a_host_that_takes_few_logins_at_a_time_is_asked_again(
    cp: Copier, wan: Lab, few: None, source: Path, tmp_path: Path
) -> None:
    with alive(stranger(wan, 3.0)):
        done = cp(source, f"few:{tmp_path}/new")
    assert done.returncode == 0, done.stderr
    (told,) = (line for line in done.stderr.splitlines() if "closed the connection before the login" in line)
    assert "MaxStartups" in told
    assert "; trying again for " in told
    assert tree(tmp_path / "new") == tree(source)


def test_it_is_asked_no_longer_than_the_patience(
    cp: Copier, wan: Lab, few: None, source: Path, tmp_path: Path
) -> None:
    with alive(stranger(wan, 60.0)):
        begun_s = time.monotonic()
        done = cp("--patience", "2s", source, f"few:{tmp_path}/new")
        assert time.monotonic() - begun_s < 2 + 10
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("howdah: few closed the connection before the login")
        said = cp.refused("--patience", "0s", source, f"few:{tmp_path}/new")
        assert "few closed the connection before the login" in said
    assert not (tmp_path / "new").exists()


def test_a_command_of_the_user_for_a_host_does_not_take_the_place_of_ours(
    cp: Copier, says: Say, source: Path, tmp_path: Path
) -> None:
    says("Host far\nRemoteCommand echo hi\nSessionType none\nStdinNull yes\n")
    cp.good(source, f"far:{tmp_path}/new")
    assert tree(tmp_path / "new") == tree(source)
