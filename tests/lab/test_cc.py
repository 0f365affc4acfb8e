"""``howdah cc`` and what uses it, with programs under their real names and unmodified applications."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from controls import PINS, cc, clean_kernel, good, refused, take_all_away
from copying import Copier, alive, wait_until
from traces import HOWDAH, Traces

from bench.cc import crowd
from howdah import lab
from howdah._native import CC_PROGRAMS
from howdah.cc import programs
from howdah.lab import Lab

pytestmark = pytest.mark.lab

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
PORT, NUTTCP_PORTS, POSTGRESQL_PORT = "5201", "5000-5001", "5432"
HELD_BPS = 40e6 * 1448 / 1538
"""What is payload of 40 Mb/s on the wire."""
OWN = os.getpid() % 50_000
FAR = f"198.18.{OWN // 256}.{OWN % 256}"
NEAR = (f"198.19.{OWN // 256}.{OWN % 256}", f"fd78:{OWN:x}::1")
"""Further addresses of the hosts: rules hold in every lab of this machine, and all labs look alike."""


@pytest.fixture(scope="module")
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


@pytest.fixture(autouse=True)
def nothing_loaded(kernel: None) -> Iterator[None]:
    yield
    take_all_away()


@pytest.fixture(scope="module")
def wan(kernel: None) -> Iterator[Lab]:
    """100 Mb/s, 20 ms, with an OpenSSH server and iperf3 on the far host."""
    link = lab.symmetric(100_000_000, 20_000_000)
    with (
        lab.started(link, sshd=True) as up,
        alive(up.popen("far", ["iperf3", "-s"], stdout=subprocess.DEVNULL)),
    ):
        for host, other, address in (
            ("far", "near", FAR),
            ("near", "far", NEAR[0]),
            ("near", "far", NEAR[1]),
        ):
            nodad = ["nodad"] if ":" in address else []
            up.run(host, ["ip", "address", "add", address, "dev", "wan0", *nodad], check=True)
            up.run(other, ["ip", "route", "add", address, "dev", "wan0"], check=True)
        await_service(up, PORT)
        yield up


def await_service(wan: Lab, port: str) -> None:
    """Returns once something listens on the far host's ``port``."""
    answers = ["sh", "-c", f"ss -Hltn | grep -q :{port}"]
    wait_until(lambda: wan.run("far", answers).returncode == 0, 10)


def iperf3(wan: Lab, seconds: float = 1, *options: str) -> "subprocess.Popen[str]":
    argv = ["iperf3", "-c", FAR, "-t", str(seconds), "--json", *options]
    return wan.popen("near", argv, stdout=subprocess.PIPE, text=True)


def ended(client: "subprocess.Popen[str]") -> dict[str, Any]:
    output, _ = client.communicate(timeout=20)
    end: dict[str, Any] = json.loads(output)["end"]
    return end


def controls_used(wan: Lab, port: str = PORT) -> set[str]:
    """What the near host's connections to a service (iperf3) use, by ss."""
    shown = wan.run("near", ["ss", "-Htin", "dst", f"{FAR}:{port}"], capture_output=True, text=True).stdout
    return {line.split()[0] for line in shown.splitlines() if line.startswith("\t")}


def control(name: str) -> dict[str, Any]:
    (found,) = (each for each in good("list") if each["name"] == name)
    assert isinstance(found, dict)
    return found


@pytest.mark.beside
def test_loading_lasts_and_unloading_takes_all_away() -> None:
    assert not control("hd_scalable")["available"]
    loaded = good("load", "scalable")
    assert loaded["action"] == "loaded"
    found = control("hd_scalable")
    assert found["available"]
    assert found["source"] == "howdah"
    assert found["program"]["loaded"]["current"]
    assert control("cubic")["source"] == "kernel"
    assert "hd_scalable" in AVAILABLE.read_text().split()
    assert good("load", "hd_scalable")["action"] == "unchanged"
    swapped = good("load", "scalable", "--set", "md_shift=2")
    assert swapped["action"] == "swapped"
    assert {each["name"]: each["text"] for each in swapped["settings"]} == {
        "ai_packets": "100",
        "md_shift": "2",
    }
    told = cc("status").stdout
    assert "hd_scalable: ai_packets=100, md_shift=2" in told
    assert good("unload", "scalable")["left"] == 0
    assert "hd_scalable" not in AVAILABLE.read_text().split()
    assert not PINS.exists()
    assert "no program of howdah is loaded" in cc("status").stdout


OWN_MOUNTS = """
while mountpoint -q /sys/fs/bpf; do umount /sys/fs/bpf; done
for by in howdah system; do
    [ $by = howdah ] || mount -t bpf bpf /sys/fs/bpf
    for command in "load scalable" "unload scalable"; do
        "$@" cc $command >/dev/null
        grep -c ' /sys/fs/bpf ' /proc/self/mountinfo || true
    done
done
"""


@pytest.mark.beside
def test_a_file_system_that_it_mounted_ends_with_the_last_program() -> None:
    shell = ["unshare", "--mount", "sh", "-eu", "-c", OWN_MOUNTS, "sh", *HOWDAH]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=30)
    assert (done.stdout.split(), done.stderr) == (["1", "0", "1", "1"], "")


@pytest.mark.beside
def test_every_command_helps_with_an_example() -> None:
    for command in ("list", "load", "unload", "set", "status", "attach", "detach"):
        told = cc(command, "--help").stdout
        assert f"howdah cc {command}" in told.partition("xample")[2], told


@pytest.mark.beside
@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        ("load nonsense", f"nonsense is not one of {', '.join(CC_PROGRAMS)}", 2),
        ("load hold --set guard_loss", "has no value", 2),
        ("load hold --set guard_loss=2", "outside 0 to 1", 2),
        ("load hold --set loss=2%", "it has headroom", 2),
        ("unload hold", "hd_hold is not loaded, so nothing is to be unloaded; see: howdah cc status", 1),
        ("set scalable --rate 1Gbit", "has no setting to change", 2),
        ("set hold", "one of --rate, --window and --none", 2),
        ("set hold --rate 1Gbit --window 5", "one of --rate, --window and --none", 2),
        ("set hold --rate 400", "has no unit", 2),
        ("set hold --rate 0Mbit", "0Mbit is below 8.00 kb/s", 2),
        ("set hold --window -3", "-3 is not from 2 to 268,435,456", 2),
        ("set hold --rate 1Gbit", "load it with: howdah cc load hold", 1),
        ("set hold --rate 1Gbit --flow here", "10.9.0.2:5201", 2),
        ("set resume --to 10.9.0.0/16 --rate 1Gbit --rtt 9ms --streams 0", "0 streams cannot share", 2),
        ("set resume --to 10.9.0.0/16 --rate 1Gbit --rtt 9ms --for 8d", "1 ms to 7 days", 2),
        ("set resume --to 10.9.0.0/16 --rate 1Gbit --rtt 9ms", "load it with: howdah cc load resume", 1),
        ("attach --to 10.9.0.0/16 --ports 5100-5000 --cc reno", "did you mean 5000-5100", 2),
        ("attach --to 10.9.0.1/16 --ports 5000 --cc reno", "did you mean 10.9.0.0/16", 2),
        ("attach --to 10.9.0.0/16 --ports 5000 --cc hold", "load it with: howdah cc load hold", 1),
        ("attach --to 10.9.0.0/16 --ports 5000 --cc reno --rate 1Gbit", "only hold does", 1),
        ("attach --to 10.9.0.0/16 --ports 5000 --cc vegas", "is not in this kernel", 1),
        ("attach --cgroup /none.slice/x --cc reno", "there is no cgroup /none.slice/x below /", 1),
        ("detach --to 10.9.0.0/16 --ports 5000", "is not attached", 1),
    ],
)
def test_what_is_wrong_is_refused_with_the_way_out(words: str, says: str, code: int) -> None:
    assert says in refused(*words.split(), code=code)
    assert not PINS.exists()


@pytest.mark.beside
def test_rules_that_meet_are_refused() -> None:
    rule = ("attach", "--to", "192.0.2.0/24", "--ports", "5000-5100", "--cc", "reno")
    good(*rule)
    assert "end that first with: howdah cc detach --to 192.0.2.0/24 --ports 5000-5100" in refused(*rule)
    assert "give ports outside of it" in refused(*rule[:4], "5100-5200", *rule[5:])
    assert "overlaps 192.0.2.0/24" in refused(*rule[:2], "192.0.0.0/16", *rule[3:])


@pytest.mark.beside
def test_iperf3_uses_a_program_by_name_and_survives_its_unloading(wan: Lab) -> None:
    good("load", "htcp")
    client = iperf3(wan, 2.5, "-C", "hd_htcp")
    wait_until(lambda: control("hd_htcp")["connections"] > 0, 5)
    assert "hd_htcp" in controls_used(wan)
    done = good("unload", "htcp")
    assert done["moved"].get("cubic", 0) >= 1
    assert done["left"] == 0
    assert controls_used(wan) == {"cubic"}
    assert ended(client)["sum_received"]["bytes"] > 1_000_000


def test_attach_reaches_unmodified_programs_and_detach_gives_back(wan: Lab) -> None:
    good("load", "hold")
    running = iperf3(wan, 5)
    wait_until(lambda: controls_used(wan) == {"cubic"}, 5)
    time.sleep(0.5)
    rule = ("--to", f"{FAR}/32", "--ports", PORT)
    attached = good("attach", *rule, "--cc", "hold", "--rate", "40Mbit")
    assert attached["moved"] == 2, "iperf3 has a connection for control and one for data"
    held = [each for each in programs.status().connections if each.remote == f"{FAR}:{PORT}"]
    assert {each.control for each in held} == {"hd_hold"}
    assert all(each.hold and each.hold.target and each.hold.target.rate_bps == 40_000_000 for each in held)
    assert "detach first" in refused("unload", "hold")
    time.sleep(1)
    assert controls_used(wan) == {"hd_hold"}
    detached = good("detach", *rule)
    assert detached["moved"] == 2
    assert controls_used(wan) == {"cubic"}
    ended(running)
    good("attach", *rule, "--cc", "hold", "--rate", "40Mbit")
    done = ended(iperf3(wan, 2))
    assert done["sender_tcp_congestion"] == "hd_hold"
    assert_held(done["sum_received"]["bits_per_second"])
    (listed,) = programs.status().rules
    assert listed.chosen == 2


@pytest.mark.beside
def test_scp_is_attached_where_it_is_accepted_in_both_families(wan: Lab, tmp_path: Path) -> None:
    good("load", "scalable")
    (tmp_path / "data").write_bytes(bytes(100_000))
    for address, far, bits in ((NEAR[0], "far", 32), (NEAR[1], "far6", 128)):
        rule = ("--to", f"{address}/{bits}", "--ports", "22")
        good("attach", *rule, "--cc", "scalable")
        scp = ["scp", "-q", "-o", f"BindAddress={address}", tmp_path / "data", f"{far}:{tmp_path}/there"]
        copied = wan.run("near", scp, timeout=20)
        assert copied.returncode == 0
        (found,) = programs.status().rules
        assert (found.chosen, found.refused) == (1, 0)
        good("detach", *rule)


def test_nuttcp_is_attached(wan: Lab) -> None:
    good("load", "hold")
    good("attach", "--to", f"{FAR}/32", "--ports", NUTTCP_PORTS, "--cc", "hold", "--rate", "40Mbit")
    with alive(wan.popen("far", ["nuttcp", "-S", "--nofork"])):
        await_service(wan, NUTTCP_PORTS.partition("-")[0])
        assert_held(nuttcp_bps(wan))
    (listed,) = programs.status().rules
    assert (listed.chosen, listed.refused) == (2, 0), "one connection for control and one for data"


def nuttcp_bps(wan: Lab) -> float:
    """Of payload, in one second."""
    argv = ["nuttcp", "-T1", "-fparse", FAR]
    told = wan.run("near", argv, capture_output=True, text=True, timeout=20)
    assert told.returncode == 0, told.stderr
    return 1e6 * float(told.stdout.partition("rate_Mbps=")[2].split()[0])


def assert_held(rate_bps: float) -> None:
    """Never more than the rate; how near it a machine that is not busy comes, benches measure."""
    assert 0.3 < rate_bps / HELD_BPS < 1.02


@pytest.fixture
def database(wan: Lab) -> Iterator[None]:
    """A PostgreSQL server on the far host, which lets everybody in and forgets everything."""
    (*_, binaries) = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    as_nobody = ["setpriv", "--reuid", "nobody", "--clear-groups"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "cluster"
        folder.mkdir()
        for path in (folder.parent, folder):
            shutil.chown(path, "nobody")
        initdb = [binaries / "initdb", "--no-sync", "--auth=trust", "--username=tester", "-D", folder]
        subprocess.run([*as_nobody, *initdb], check=True, cwd="/", stdout=subprocess.DEVNULL, timeout=60)
        with (folder / "pg_hba.conf").open("a") as access:
            access.write("host all all all trust\n")
        settings = ("listen_addresses=*", "unix_socket_directories=", "fsync=off")
        serve = [binaries / "postgres", "-D", folder, *(word for each in settings for word in ("-c", each))]
        with wan.popen("far", [*as_nobody, *serve], cwd="/", stderr=subprocess.DEVNULL) as server:
            try:
                await_service(wan, POSTGRESQL_PORT)
                yield
            finally:
                server.send_signal(signal.SIGQUIT)


def psql(wan: Lab) -> "subprocess.Popen[str]":
    """A client that works off what it is sent."""
    argv = ["psql", "-X", "-q", "-A", "-t", "-h", FAR, "-U", "tester", "postgres"]
    return wan.popen("near", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.beside
@pytest.mark.usefixtures("database")
def test_a_database_client_is_moved_while_it_lives_and_attached_when_it_begins(
    wan: Lab, tmp_path: Path
) -> None:
    good("load", "scalable")
    rows = tmp_path / "rows"
    rows.write_text("howdah\n" * 100_000)

    writing = psql(wan)
    wait_until(lambda: controls_used(wan, POSTGRESQL_PORT) == {"cubic"}, 10)
    attached = good("attach", "--to", f"{FAR}/32", "--ports", POSTGRESQL_PORT, "--cc", "scalable")
    assert attached["moved"] == 1
    assert controls_used(wan, POSTGRESQL_PORT) == {"hd_scalable"}
    writing.communicate(f"create table t(row text);\n\\copy t from {rows}\n", timeout=20)
    assert writing.returncode == 0

    reading = psql(wan)
    wait_until(lambda: controls_used(wan, POSTGRESQL_PORT) == {"hd_scalable"}, 10)
    output, _ = reading.communicate("table t;\n", timeout=20)
    assert output == rows.read_text()
    (listed,) = programs.status().rules
    assert (listed.chosen, listed.refused) == (1, 0)


@pytest.mark.beside
def test_a_thousand_connections_are_attached_while_they_are_made_and_targets_change(wan: Lab) -> None:
    good("load", "hold")
    outcome = crowd.attach_while_targets_change(wan, FAR)
    assert outcome.lost == 0, outcome
    assert outcome.wrong == 0, outcome
    assert outcome.moved + outcome.chosen >= outcome.asked == 1000


@pytest.mark.beside
def test_a_lab_takes_a_program_as_its_default(traces: Traces) -> None:
    options = ("--rate", "100Mbit", "--rtt", "1ms", "--cc", "highspeed")
    command = ("--", "cat", "/proc/sys/net/ipv4/tcp_congestion_control")
    without = traces.howdah("lab", "run", *options, *command)
    assert without.returncode == 1
    assert "load it with: howdah cc load highspeed" in without.stderr
    good("load", "highspeed")
    done = traces.howdah("lab", "run", *options, *command)
    assert (done.stdout, done.stderr) == ("hd_highspeed\n", "")


@pytest.mark.beside
def test_a_copy_brings_what_the_kernel_lacks_and_says_so(wan: Lab, tmp_path: Path) -> None:
    cp = Copier(wan, tmp_path)
    line = cp.refused("far:/etc/hostname", tmp_path / "pulled", "--cc", "scalable")
    assert "on far, as root: howdah cc load scalable" in line
    planned = cp("--dry-run", "--cc", "scalable", "/etc/hostname", f"far:{tmp_path}/")
    assert "which the copy would load" in planned.stdout
    assert not PINS.exists()
    record = cp.good("--memory", "1MiB", "--cc", "scalable", "far:")
    assert record.plan is not None
    assert record.outcome is not None
    assert record.plan.congestion_control == "hd_scalable"
    assert {stream.congestion_control for stream in record.outcome.streams} == {"hd_scalable"}
    (evidence,) = (each for each in record.plan.why.evidence if each.name == "scalable on this host")
    assert evidence.value == "hd_scalable"
    assert "howdah cc unload scalable" in evidence.source
    pulled = cp.good("far:/etc/hostname", tmp_path / "pulled", "--cc", "scalable")
    assert pulled.plan is not None
    assert any("howdah's program, loaded on far" in line for line in pulled.plan.why.summary)
    own = cp.good("--memory", "1MiB", "--cc", "reno", "far:")
    assert own.plan is not None
    assert any("reno (the kernel's own)" in line for line in own.plan.why.summary)


@pytest.mark.beside
def test_a_program_is_found_that_was_loaded_while_a_far_end_waited(wan: Lab, tmp_path: Path) -> None:
    cp = Copier(wan, tmp_path)
    cp.forget_logins()
    cp.good("--memory", "1MiB", "far:")
    cp.waiting()
    # What its kernel has is part of its hello.
    time.sleep(0.5)
    good("load", "scalable")
    pulled = cp.good("far:/etc/hostname", tmp_path / "pulled", "--cc", "scalable")
    assert pulled.plan is not None
    assert pulled.plan.congestion_control == "hd_scalable"
    line = cp.refused("far:/etc/hostname", tmp_path / "pulled", "--cc", "nosuch")
    assert "does not allow it" in line


@pytest.mark.beside
def test_verbose_is_where_the_kernels_log_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "load", _refuse)
    from howdah.cli import app

    def told(*options: str) -> str:
        from contextlib import redirect_stderr, suppress
        from io import StringIO

        with redirect_stderr(StringIO()) as errors, suppress(Exception):
            app.main(["cc", "load", "scalable", *options])
        return errors.getvalue()

    assert "R1 type=ctx" not in told()
    assert "R1 type=ctx" in told("--verbose")


def _refuse(name: str, settings: object = ()) -> programs.Loading:
    from howdah import HowdahError

    error = HowdahError(f"this kernel refuses hd_{name}")
    error.add_note("R1 type=ctx expected=fp")
    raise error


@pytest.mark.beside
def test_the_choice_is_the_kernels_own_where_it_has_it() -> None:
    from howdah.cc import choose

    assert choose("scalable", ["cubic", "scalable", "hd_scalable"]) == ("scalable", "kernel")
    assert choose("scalable", ["cubic", "hd_scalable"]) == ("hd_scalable", "howdah")
    assert choose("hd_hold", ["cubic", "hd_hold"]) == ("hd_hold", "howdah")
    assert choose("hold", ["cubic"]) == ("hd_hold", "missing")
    assert choose("bbr", ["cubic"]) == ("bbr", "missing")
    assert choose("bbr", ["cubic"]).program is None
    assert choose("hold", ["cubic"]).program == "hold"
    assert msgspec.json.encode(choose("cubic", ["cubic"])) == b'["cubic","kernel"]'
