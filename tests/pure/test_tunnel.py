"""The detour through ssh, with programs in ssh's place: tests/lab/test_firewall.py has the real one."""

import os
import socket
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from howdah.remote import tunnel as module
from howdah.remote.process import Pipes, spawn
from howdah.remote.ssh import Login
from howdah.remote.tunnel import Tunnel

WITHIN_S = 10.0


class Ssh:
    """Starts shell scripts, the last one again and again, where a login would start ssh."""

    def __init__(self, *scripts: str) -> None:
        self.scripts = list(scripts)
        self.asked: list[tuple[str, int, bool]] = []

    def channel(self, address: str, port: int, connection: int, *, own: bool, patience_s: float) -> Pipes:
        self.asked.append((address, port, own))
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        stderr_fd, stderr = os.pipe()
        os.set_blocking(stderr_fd, False)
        pid = spawn(["sh", "-c", script], (os.dup(connection), os.dup(connection), stderr))
        return Pipes(-1, -1, stderr_fd, os.pidfd_open(pid))


@pytest.fixture
def made() -> Iterator[list[Tunnel]]:
    tunnels: list[Tunnel] = []
    yield tunnels
    for each in tunnels:
        each.close()


@pytest.fixture
def opened(made: list[Tunnel]) -> Any:  # noqa: ANN401, a call
    def open_by(ssh: Ssh) -> Tunnel:
        made.append(Tunnel(cast("Login", ssh), "192.0.2.7", 50000, 60.0))
        return made[-1]

    return open_by


def dialled(tunnel: Tunnel) -> socket.socket:
    return socket.create_connection(("127.0.0.1", tunnel.port), timeout=WITHIN_S)


def test_each_connection_is_carried_by_an_ssh_and_most_by_one_of_their_own(opened: Any) -> None:  # noqa: ANN401
    ssh = Ssh("cat")
    tunnel = opened(ssh)
    count = module.OWN + 3
    lanes = [dialled(tunnel) for _ in range(count)]
    for number, lane in enumerate(lanes):
        lane.sendall(bytes([number]) * 1000)
        assert lane.recv(1000, socket.MSG_WAITALL) == bytes([number]) * 1000
        lane.shutdown(socket.SHUT_WR)
        assert lane.recv(1) == b""
        lane.close()
    assert [own for *_, own in ssh.asked] == [False, *[True] * module.OWN, False, False]
    assert {each[:2] for each in ssh.asked} == {("192.0.2.7", 50000)}
    assert (tunnel.said, tunnel.forbidden) == (None, False)


def test_a_login_of_its_own_that_fails_gives_way_to_the_kept_one_unseen(opened: Any) -> None:  # noqa: ANN401
    ssh = Ssh("cat", "echo Permission denied >&2; exit 255", "cat")
    tunnel = opened(ssh)
    with dialled(tunnel) as first, dialled(tunnel) as second:
        for lane in (first, second):
            lane.sendall(b"hello")
            assert lane.recv(5, socket.MSG_WAITALL) == b"hello"
    assert [own for *_, own in ssh.asked] == [False, True, False]
    assert not tunnel.forbidden


def test_an_ssh_that_dies_on_its_way_is_not_tried_again_on_the_same_connection(opened: Any) -> None:  # noqa: ANN401
    ssh = Ssh("head -c 3; exit 255")
    tunnel = opened(ssh)
    with dialled(tunnel) as lane:
        lane.sendall(b"abc")
        assert lane.recv(3, socket.MSG_WAITALL) == b"abc"
        assert lane.recv(1) == b""
    assert len(ssh.asked) == 1
    assert tunnel.said is None


def test_an_sshd_that_forbids_it_is_asked_once(opened: Any) -> None:  # noqa: ANN401
    said = "channel 0: open failed: administratively prohibited: open failed"
    ssh = Ssh(f"echo '{said}' >&2; exit 255")
    tunnel = opened(ssh)
    with dialled(tunnel) as lane:
        assert lane.recv(1) == b""
    assert tunnel.forbidden
    assert tunnel.said == said
    assert len(ssh.asked) == 1


def test_an_ssh_that_fails_is_tried_a_few_times(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    monkeypatch.setattr(module, "_AGAIN_S", 0.01)
    ssh = Ssh("exit 255")
    tunnel = opened(ssh)
    with dialled(tunnel) as lane:
        assert lane.recv(1) == b""
    assert len(ssh.asked) == 5
    assert (tunnel.said, tunnel.forbidden) == ("ssh said nothing", False)


def test_the_end_ends_every_ssh(opened: Any, made: list[Tunnel]) -> None:  # noqa: ANN401
    tunnel = opened(Ssh("exec sleep 60"))
    with dialled(tunnel) as lane:
        time.sleep(0.1)
        began_s = time.monotonic()
        tunnel.close()
        made.clear()
        assert lane.recv(1) == b""
        assert time.monotonic() - began_s < 5.0


def test_a_connection_of_another_user_is_closed(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    ssh = Ssh("cat")
    tunnel = opened(ssh)
    monkeypatch.setattr(module.os, "geteuid", lambda: 4711)
    with dialled(tunnel) as lane:
        assert lane.recv(1) == b""
    assert not ssh.asked
