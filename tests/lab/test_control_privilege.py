"""Which process of ``howdah control`` has which privilege, and what is left when one of them dies."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import nkeys
import pytest
from booted import booted
from controls import clean_kernel, in_kernel
from copying import alive, wait_until
from traces import HOWDAH

from bench.nats_server import NatsServer
from howdah import HowdahError
from howdah.cc import programs
from howdah.cc.shares import everyones, now_ns
from howdah.control.http import tokens
from howdah.control.http.client import Client
from howdah.control.leases.agent import Held
from howdah.control.policy.members import Member
from howdah.control.privilege import protocol, remote

pytestmark = [pytest.mark.lab, pytest.mark.beside]

HOST = "base20"
POLICY = """
name = "small"
guarantee = "80Mbit"
lease = "LEASE"
[class.images]
minimum = "10Mbit"
[[class.images.member]]
host = "base20"
to = "10.99.0.0/16"
"""
UNITS = Path(__file__).parents[2] / "packaging" / "systemd"
HELPER = "howdah.control.privilege.helper"
KEPT = {12: "net_admin", 19: "sys_ptrace", 21: "sys_admin", 38: "perfmon", 39: "bpf"}
"""Numbers of capabilities(7)."""
SOON_S = 30
FOR_ROOT_ALONE = 0o600


@pytest.fixture(autouse=True)
def _kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


def privileges(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def helper_of(pid: int) -> int:
    """The only child of a process, which has to be the helper."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    assert HELPER in Path(f"/proc/{child}/cmdline").read_text(encoding="ascii").split("\0")
    return int(child)


def check_unprivileged(pid: int, *, own_group: bool = False) -> None:
    """``own_group``: whether its only group is among its supplementary ones too, as systemd has it."""
    found = privileges(pid)
    for ids in (found["Uid"], found["Gid"]):
        assert len(set(ids.split())) == 1
        assert ids.split()[0] != "0"
    assert found["Groups"].split() == (found["Gid"].split()[:1] if own_group else [])
    assert {found[key].strip("0") for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {""}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found = privileges(int(thread.name))
        assert found["NoNewPrivs"] == "1"
        assert not found["CapPrm"].strip("0")


def check_helper(pid: int) -> None:
    found = privileges(pid)
    kept = sum(1 << number for number in KEPT)
    assert {int(found[key], 16) for key in ("CapPrm", "CapEff", "CapBnd")} == {kept}
    assert found["NoNewPrivs"] == "1"
    sockets = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
    assert sum(each.startswith("socket:") for each in sockets) == 1, sockets


@contextmanager
def running(
    *words: str, python: str = sys.executable, under: tuple[str, ...] = ()
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The command once it is ready, and its URL; ``under`` is what starts it."""
    argv = [*under, python, *HOWDAH[1:], "control", *words, "--json"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with alive(process):
        assert process.stdout
        assert process.stderr
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said += line
        yield process, json.loads(said)["url"] or ""


def policy(folder: Path, lease: str = "1s") -> str:
    file = folder / "small.toml"
    file.write_text(POLICY.replace("LEASE", lease))
    file.chmod(FOR_ROOT_ALONE)
    return str(file)


@contextmanager
def closed_python(folder: Path) -> Iterator[str]:
    """This Python and its libraries, seen through a folder that nobody but root can enter."""
    closed = folder / "closed"
    (closed / "python").mkdir(parents=True)
    closed.chmod(0o700)
    subprocess.run(["mount", "--bind", sys.prefix, closed / "python"], check=True)
    try:
        yield str(closed / "python" / "bin" / "python")
    finally:
        subprocess.run(["umount", "--lazy", closed / "python"], check=True)


def fetched(url: str, path: str, token: str = "", ca: Path | None = None) -> bytes:
    """What a server answers; it has to succeed."""
    scheme, _, address = url.partition("://")
    connection = (
        HTTPSConnection(address, timeout=SOON_S, context=ssl.create_default_context(cafile=ca))
        if scheme == "https"
        else HTTPConnection(address, timeout=SOON_S)
    )
    with closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert answer.status == 200, path
        return answer.read()


def free_address() -> str:
    """A loopback address with a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def answers(url: str) -> bool:
    """Whether a controller answers there yet."""
    try:
        return bool(fetched(url, "/v1/status"))
    except OSError:
        return False


def settled(client: Client) -> None:
    """Returns once the share of the only flow is in force."""
    for status in client.watch():
        if status.settled and all(flow.share_bps == 80_000_000 for flow in status.flows):
            return


def test_who_serves_a_network_has_no_privilege_and_the_helper_only_what_it_uses(tmp_path: Path) -> None:
    secret, table = tokens.make("all", "operate")
    allowed, seed = tmp_path / "tokens.toml", tmp_path / "seed"
    allowed.write_text(table)
    own = nkeys.from_seed(key := nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    seed.write_bytes(key)
    for file in (allowed, seed):
        file.chmod(FOR_ROOT_ALONE)
    settings = {"authorization": {"users": [{"nkey": own.public_key.decode()}]}}
    with ExitStack() as stack:
        server = stack.enter_context(NatsServer(tmp_path / "nats", settings=settings))
        python = stack.enter_context(closed_python(tmp_path))
        login = ["--nkey", str(seed)]
        serve = ["serve", policy(tmp_path), "--nats", server.url, *login, "--tokens", str(allowed)]
        controller, url = stack.enter_context(running(*serve, "--listen", "127.0.0.1:0", python=python))
        follow = ["agent", "--controller", server.url, *login, "--host", HOST]
        agent, _ = stack.enter_context(running(*follow, python=python))
        client = Client(url, secret)
        settled(client)
        check_unprivileged(controller.pid)
        check_unprivileged(agent.pid)
        check_helper(helper_of(agent.pid))
        assert not Path(f"/proc/{controller.pid}/task/{controller.pid}/children").read_text()
        for path in ("/", "/v1/status", "/openapi.json", "/metrics"):
            assert fetched(url, path, secret)

        # Nothing has to be read again to log in again.
        (share,) = everyones()
        server.kill()
        server.start()
        wait_until(lambda: bool(everyones()) and everyones()[0].until_ns > share.until_ns + 10**9, SOON_S)
        settled(client)
        for process in (agent, controller):
            process.terminate()
            _, said = process.communicate(timeout=SOON_S)
            assert process.returncode == 143, said
            assert "Traceback" not in said
    assert everyones() == []
    assert in_kernel() == []


def test_the_capabilities_of_the_units_are_enough(tmp_path: Path) -> None:
    text = (UNITS / "howdah-control.service").read_text(encoding="ascii")
    bounds = " ".join(re.findall("^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)).split()
    kept = ",".join(f"+{each.removeprefix('CAP_').lower()}" for each in bounds)
    under = ("setpriv", "--no-new-privs", f"--bounding-set=-all,{kept}", "--")
    listen = ("--listen", "127.0.0.1:0")
    with running("serve", policy(tmp_path), "--host", HOST, *listen, under=under) as (process, url):
        settled(Client(url, None))
        check_unprivileged(process.pid)
        check_helper(helper_of(process.pid))
        process.terminate()
        process.communicate(timeout=SOON_S)
        # As systemd is told by SuccessExitStatus.
        assert f"SuccessExitStatus={process.returncode}" in text.splitlines()


def test_the_unit_of_one_machine_works_under_systemd(tmp_path: Path) -> None:
    listen = free_address()
    options = f"HOWDAH_CONTROL_OPTIONS=--host {HOST} --listen {listen}\n"
    files = {"howdah/shares.toml": POLICY.replace("LEASE", "1s"), "howdah/control.env": options}
    with booted(tmp_path, files) as systemd:
        unit = "howdah-control.service"
        systemd.start(unit)
        wait_until(lambda: answers(f"http://{listen}"), SOON_S)
        settled(Client(f"http://{listen}"))
        check_unprivileged(pid := systemd.pid_of(unit))
        check_helper(helper_of(pid))
        systemd.stop(unit)
    wait_until(lambda: "hold" not in in_kernel(), SOON_S)


def test_the_units_of_many_machines_work_under_systemd(tmp_path: Path) -> None:
    listen = free_address()
    with NatsServer(tmp_path / "nats") as server:
        env = f"HOWDAH_NATS={server.url}\n"
        files = {
            "howdah/shares.toml": POLICY.replace("LEASE", "1s"),
            "howdah/controller.env": f"{env}HOWDAH_CONTROLLER_OPTIONS=--listen {listen}\n",
            "howdah/agent.env": f"{env}HOWDAH_AGENT_OPTIONS=--host {HOST}\n",
        }
        with booted(tmp_path / "root", files) as systemd:
            systemd.within("chown", "howdah", "/etc/howdah", "/etc/howdah/shares.toml")
            units = ["howdah-controller.service", "howdah-agent.service"]
            systemd.start(*units)
            wait_until(lambda: answers(f"http://{listen}"), SOON_S)
            settled(Client(f"http://{listen}"))
            controller, agent = (systemd.pid_of(unit) for unit in units)
            check_unprivileged(controller, own_group=True)
            check_unprivileged(agent)
            check_helper(helper_of(agent))
            for unit in units:
                systemd.stop(unit)
    wait_until(lambda: "hold" not in in_kernel(), SOON_S)


def test_a_controller_with_agents_has_no_privilege_over_https_at_a_port_of_root(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=x"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    key.chmod(FOR_ROOT_ALONE)
    tls = ["--cert", str(cert), "--key", str(key), "--listen", "127.0.0.1:907"]
    with running("serve", policy(tmp_path), "--host", HOST, *tls) as (process, url):
        assert url == "https://127.0.0.1:907"
        check_unprivileged(process.pid)
        check_helper(helper_of(process.pid))

        def shares() -> list[int]:
            return [flow["share_bps"] for flow in json.loads(fetched(url, "/v1/status", ca=cert))["flows"]]

        wait_until(lambda: shares() == [80_000_000], SOON_S)


def test_an_agent_whose_helper_dies_ends_and_says_so_and_the_lease_stays(tmp_path: Path) -> None:
    # With so long a lease it would ask nothing of the helper for minutes.
    with running("serve", policy(tmp_path, "600s"), "--host", HOST, "--listen", "127.0.0.1:0") as (
        process,
        url,
    ):
        settled(Client(url))
        (share,) = everyones()
        os.kill(helper_of(process.pid), signal.SIGKILL)
        _, said = process.communicate(timeout=SOON_S)
    assert process.returncode == 1, said
    assert "the helper that changes this host's kernel was killed by signal 9" in said
    assert "Traceback" not in said
    (left,) = everyones()
    assert (left.rate_bps, left.until_ns) == (share.rate_bps, share.until_ns)


def test_a_helper_whose_agent_is_killed_ends_and_the_lease_runs_out(tmp_path: Path) -> None:
    with running("serve", policy(tmp_path), "--host", HOST, "--listen", "127.0.0.1:0") as (process, url):
        settled(Client(url))
        helper = helper_of(process.pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(helper, number)
        process.kill()
        process.wait()
        wait_until(lambda: not Path(f"/proc/{helper}").exists(), SOON_S)
    (share,) = everyones()
    wait_until(lambda: everyones()[0].in_force_bps == share.minimum_bps, SOON_S)


def test_a_helper_that_was_asked_for_nothing_takes_its_program_along() -> None:
    script = f"""
import time
from howdah.control.privilege import remote
with remote.started({{"{HOST}": None}}):
    print("started", flush=True)
    time.sleep(3600)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with alive(process):
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        assert in_kernel() == ["hold"]
        process.kill()
    wait_until(lambda: not in_kernel(), SOON_S)


@pytest.fixture
def helper() -> Iterator[remote.Helper]:
    with remote.started({HOST: None}) as found:
        yield found


def test_a_host_has_one_agent_on_a_machine(helper: remote.Helper) -> None:
    host = helper.kernels[HOST]
    host.hold("images/base20", Held(60_000_000, 10_000_000, now_ns() + 10**11))
    host.place({"images/base20": Member(HOST, "10.99.0.0/16", (1, 9))})
    there = f"an agent of {HOST} runs on this machine already, process {os.getpid()}; each host has one"
    with pytest.raises(HowdahError, match=there), remote.started({HOST: None}):
        pass
    assert len(everyones()) == len(programs.rules()) == 1
    with remote.started({"base21": None}):
        pass
    host.leave()


def raw(helper: remote.Helper, frame: bytes) -> str:
    """Why the helper refuses a frame."""
    channel: socket.socket = helper._channel
    channel.sendall(len(frame).to_bytes(4) + frame)
    with pytest.raises(HowdahError) as refused:
        helper.answer()
    return str(refused.value)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "no request to the helper"),
        (b"\xff\xfe", "no request to the helper"),
        (b"[" * 100_000, "no request to the helper"),
        (b'{"do":"load","host":"base20"}', "Invalid value 'load'"),
        (b'{"do":"unload","host":"base20","name":"cubic"}', "Invalid value 'unload'"),
        (b'{"do":"held","host":"base20","path":"/etc/shadow"}', "unknown field `path`"),
        (b'{"do":"held"}', "missing required field `host`"),
        (b'{"do":"leave","host":"base21"}', "the helper is not for host 'base21'"),
        (b'{"do":"hold","host":"base20","flow":"a","rate_bps":-1,"minimum_bps":0,"until_ns":0}', ">= 0"),
        (b'{"do":"hold","host":"base20","flow":"a","rate_bps":1,"minimum_bps":0,"until_ns":0}', "8 kb/s"),
        (
            b'{"do":"hold","host":"base20","flow":"a","rate_bps":99999999999999999999999999,"minimum_bps":0,'
            b'"until_ns":0}',
            "",
        ),
        (b'{"do":"hold","host":"base20","flow":"","rate_bps":9000,"minimum_bps":0,"until_ns":0}', "no name"),
        (
            b'{"do":"hold","host":"base20","flow":"a","rate_bps":9000,"minimum_bps":0,'
            b'"until_ns":9000000000000000000}',
            "the longest is 600 s",
        ),
        (
            b'{"do":"place","host":"base20","members":{"images/base20":{"agent":"base20","to":"../x",'
            b'"ports":[1,2]}}}',
            "../x",
        ),
        (
            b'{"do":"place","host":"base20","members":{"images/base20":{"agent":"base20","to":null,'
            b'"ports":[1,2],"cgroup":"/../../etc"}}}',
            "empty, . or ..",
        ),
        (b'{"do":"release","host":"base20","flow":"of nobody"}', "no share"),
    ],
)
def test_the_helper_refuses_what_is_not_its_protocol(helper: remote.Helper, frame: bytes, says: str) -> None:
    host = helper.kernels[HOST]
    share = Held(60_000_000, 10_000_000, now_ns() + 10**9)
    host.hold("images/base20", share)
    assert says in raw(helper, frame)
    # It goes on with what it is for, and nothing has changed.
    assert host.held() == {"images/base20": share}
    assert programs.status().rules == []
    host.leave()


def test_a_frame_that_is_too_long_ends_the_helper(helper: remote.Helper) -> None:
    channel: socket.socket = helper._channel
    channel.sendall((protocol.FRAME_MAX + 1).to_bytes(4))
    with pytest.raises(HowdahError, match="helper that changes this host's kernel ended"):
        helper.kernels[HOST].held()
    wait_until(lambda: not in_kernel(), SOON_S)


def test_cgroups_that_are_not_there_are_named_as_without_a_helper(helper: remote.Helper) -> None:
    host = helper.kernels[HOST]
    host.hold("images/base20", Held(60_000_000, 10_000_000, 0))
    assert host.place({"images/base20": Member(HOST, None, (1, 9), "/none-such")}) == ["/none-such"]
    host.leave()
