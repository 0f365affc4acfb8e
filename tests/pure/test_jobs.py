"""Running copies as others see them: the socket of each, who may ask there, metrics, and the log file."""

import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from samples import LIMITS, howdah, progress, run

from howdah import HowdahError
from howdah.cli.jobs_command import line
from howdah.library import jobs as library
from howdah.remote import ssh
from howdah.remote.endpoints import route
from howdah.remote.messages import FarHello
from howdah.transfer import jobs, logfile, metrics
from howdah.transfer.logfile import LogFile
from howdah.transfer.metrics import Metrics
from howdah.transfer.outside import Attending
from howdah.transfer.request import Request
from howdah.transfer.standing import Standing, Watched
from howdah.transfer.valve import Valve
from howdah.values.bottleneck import Cause
from howdah.values.limit import Limits
from howdah.values.outcome import Change, Removal, Spent

RECORD = "20260302T081502.110000Z-0f3a9c"


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The path of a socket is short.
    path = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    monkeypatch.setattr("howdah.remote.ssh._COMMON", f"{path}/howdah")
    return path / "howdah" / "jobs"


def watched(valve: Valve, record: str = RECORD) -> Watched:
    request = Request([], route(["run42/", "dtn2:/archive/"], memory=False))
    return Watched(request, record, datetime(2026, 3, 2, 8, 15, tzinfo=UTC), valve)


@contextmanager
def attending(record: str = RECORD) -> Iterator[tuple[Watched, Valve]]:
    valve = Valve(Limits.parse("100Mbit"))
    seen = watched(valve, record)
    with Attending(record, seen.now, valve):
        yield seen, valve


def test_a_copy_is_listed_limited_paused_and_gone() -> None:
    assert library.running() == ([], [])
    with attending() as (seen, valve):
        seen.progress(progress(elapsed_s=1.0, bytes_done=10**9, bytes_total=4 * 10**9))
        seen.progress(progress(elapsed_s=2.0, bytes_done=10**9 + 12_500_000, bytes_total=4 * 10**9))
        ((standing,), silent) = library.running()
        assert silent == []
        assert (standing.job, standing.state, standing.rate_bps) == ("0f3a9c", "moving", 1e8)
        assert (standing.from_, standing.to) == (["run42/"], "dtn2:/archive/")
        assert line(standing) == (
            "0f3a9c  moving  1.01 GB of 4.00 GB  100 Mb/s  limit 100Mb/s  run42/ to dtn2:/archive/"
        )
        assert library.limit("0f3a9c", "5Mbit").limit_bps == 5_000_000
        assert library.pause(RECORD).state == "paused"
        assert valve.paused
        seen.waiting("paused; continue with: howdah continue 0f3a9c")
        assert library.running().standing[0].rate_bps == 0.0
        assert library.resume("0f3a9c").state == "moving"
        with pytest.raises(HowdahError, match=r"^the limit fast: fast is not a rate; give for example"):
            library.limit("0f3a9c", "fast")
        with pytest.raises(
            HowdahError, match=r"none of your copies on this host is called 0f3a9d; there is 0f3a9c$"
        ):
            library.pause("0f3a9d")
        with (
            attending("20260302T081502.110001Z-0f3a9c"),
            pytest.raises(HowdahError, match="is the name of 2 copies"),
        ):
            library.pause("0f3a9c")
    with pytest.raises(HowdahError, match=r"is called 0f3a9c; none runs$"):
        library.pause("0f3a9c")


ATTENDS = f"""
import sys, time
from test_jobs import attending
with attending("{RECORD}"):
    print(flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("started", [{}, {"XDG_RUNTIME_DIR": "{own}"}])
def test_a_copy_is_found_whatever_started_it(started: dict[str, str], tmp_path: Path) -> None:
    """As cron does, which has no login session, and a shell of another session."""
    bare = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    own = {name: value.format(own=tmp_path) for name, value in started.items()}
    copy = [sys.executable, "-c", ATTENDS]
    env = {**bare, **own, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(copy, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        listed = howdah("jobs", "--json", XDG_RUNTIME_DIR=str(tmp_path / "mine"))
        process.communicate()
    found = msgspec.json.decode(listed.stdout, type=list[Standing])
    assert RECORD in {each.record for each in found}


def test_the_first_large_file_under_way_is_no_matter_of_small_files() -> None:
    """Three of four streams rest, and no file is whole yet."""
    seen = watched(Valve(None))
    spent = Spent(wall_s={"waiting": 27.0, "socket": 9.0}, cpu_s={})
    seen.progress(
        progress(
            bytes_done=10**8, bytes_total=10**9, files_done=0, files_total=1, sender=spent, receiver=spent
        )
    )
    assert seen.now().shares[0].cause is Cause.PATH


def test_what_a_killed_copy_left_is_removed_and_what_is_no_socket_is_left_alone(runtime: Path) -> None:
    folder = jobs.folder()
    assert folder == runtime
    assert folder.stat().st_mode & 0o777 == 0o700
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / RECORD))
    left.close()
    (folder / "README").touch()
    assert library.running() == ([], [])
    assert [path.name for path in folder.iterdir()] == ["README"]
    (folder / RECORD).touch()
    assert library.running() == ([], ["0f3a9c"])
    with pytest.raises(HowdahError, match="is not your own socket"):
        library.pause("0f3a9c")


def test_nobody_else_is_believed(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with attending():
        monkeypatch.setattr(jobs, "peer_of", lambda _: os.getuid() + 1)
        assert library.running().standing == []
        monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime.parents[1]))
    monkeypatch.setattr("howdah.remote.ssh._COMMON", str(runtime.parent))
    runtime.chmod(0o755)
    assert jobs.folder() is None
    assert library.running() == ([], [])
    # A copy goes on without a socket.
    with attending():
        assert library.running() == ([], [])
    runtime.rmdir()
    runtime.symlink_to(runtime.parent)
    assert jobs.folder() is None


@pytest.mark.parametrize("said", [b"", b"{", b"{}\n", b'{"do":"fly"}\n', b"x" * 70_000, b"\xff\n"])
def test_noise_on_the_socket_harms_nobody(said: bytes, runtime: Path) -> None:
    with attending() as (_, valve):
        with socket.socket(socket.AF_UNIX) as noisy:
            noisy.connect(str(runtime / RECORD))
            noisy.sendall(said)
            noisy.shutdown(socket.SHUT_WR)
            noisy.settimeout(5)
            heard = noisy.recv(1 << 16)
        assert heard == b"" or msgspec.json.decode(heard, type=jobs.Answer).error
        assert library.running().standing[0].limit == "100Mb/s"
        assert not valve.paused


def test_what_is_asked_of_a_stopped_copy_in_vain_is_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WITHIN_S", 0.3)
    copy = [sys.executable, "-c", f"from howdah.remote import ssh\nssh._COMMON = {ssh._COMMON!r}\n{ATTENDS}"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(copy, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            with pytest.raises(HowdahError, match="does not answer; if Ctrl-Z stopped it"):
                library.pause("0f3a9c")
            process.send_signal(signal.SIGCONT)
            monkeypatch.setattr(jobs, "WITHIN_S", 2.0)
            assert library.running().standing[0].state == "connecting"
        finally:
            process.kill()


def test_a_copy_has_failed_when_it_has_ended_and_not_with_a_session() -> None:
    seen = watched(Valve(None))
    seen.progress(progress(phase="failed"))
    assert seen.now().state == "waiting"
    seen.waiting("the far end has gone; trying again")
    assert seen.now().waiting_for == "the far end has gone; trying again"
    seen.ended(failed=True)
    assert (seen.now().state, seen.now().waiting_for) == ("failed", None)


def found(text: str) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("state", "moving") == "moving"
    }


def test_metrics_are_what_a_copy_is_and_leave_out_what_is_not_known(tmp_path: Path) -> None:
    seen = watched(Valve(None))
    assert "howdah_copy_limit_bits_per_second" not in found(metrics.text(seen.now()))
    seen = watched(Valve(Limits.parse("50Mbit")))
    seen.progress(progress(bytes_done=5, files_done=2, retransmissions=7))
    told = found(metrics.text(seen.now()))
    assert told["howdah_copy_bytes_total"] == 5
    assert told["howdah_copy_retransmissions_total"] == 7
    assert told["howdah_copy_limit_bits_per_second"] == 5e7
    assert told["howdah_copy_state"] == 1
    assert "howdah_copy_size_bytes" not in told
    strange = msgspec.structs.replace(seen.now(), to='dtn2:/"\\\n')
    (info,) = (each for each in text_string_to_metric_families(metrics.text(strange)) if "info" in each.name)
    assert info.samples[0].labels["target"] == 'dtn2:/"\\\n'
    file = tmp_path / "copy.prom"
    with Metrics(str(file), seen.now):
        assert found(file.read_text())["howdah_copy_bytes_total"] == 5
        seen.progress(progress(bytes_done=9))
    assert found(file.read_text())["howdah_copy_bytes_total"] == 9
    assert [path.name for path in tmp_path.iterdir()] == ["copy.prom"]
    with (
        pytest.raises(HowdahError, match=r"^metrics .*no/x: No such file or directory$"),
        Metrics(str(tmp_path / "no" / "x"), seen.now),
    ):
        pass


def test_metrics_replace_what_a_link_leads_to_and_nothing_but_a_file(tmp_path: Path) -> None:
    seen = watched(Valve(None))
    target, link = tmp_path / "target", tmp_path / "link.prom"
    link.symlink_to(target.name)
    for _ in range(2):
        with Metrics(str(link), seen.now):
            pass
        assert link.is_symlink()
        assert found(target.read_text())["howdah_copy_bytes_total"] == 0
    link.unlink()
    target.unlink()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-fifo").symlink_to("fifo")
    (tmp_path / "circle").symlink_to("circle")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    kinds = {"fifo": "a FIFO", "to-fifo": "a FIFO", "folder": "a folder", "socket": "a socket"}
    if os.getuid() == 0:
        os.mknod(tmp_path / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        kinds["device"] = "a device"
    before = {each: each.lstat().st_ino for each in tmp_path.iterdir()}
    for name, kind in kinds.items():
        why = rf"^metrics .*/{name}: it is {kind}, and only a regular file is replaced; give another name$"
        with pytest.raises(HowdahError, match=why):
            Metrics(str(tmp_path / name), seen.now).__enter__()
    with pytest.raises(HowdahError, match=r"circle: Too many levels of symbolic links$"):
        Metrics(str(tmp_path / "circle"), seen.now).__enter__()
    assert {each: each.lstat().st_ino for each in tmp_path.iterdir()} == before


def test_a_reader_that_resets_its_connection_says_nothing_here(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Metrics(str(port), watched(Valve(None)).now):
        for asked in (b"GET /me", b"GET /metrics HTTP/1.0\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as line:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                line.sendall(asked)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert answer.status == 200
    assert capfd.readouterr() == ("", "")


def test_a_port_answers_on_loopback_alone() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seen = watched(Valve(None))
    with Metrics(str(port), seen.now):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert found(answer.read().decode())["howdah_copy_bytes_total"] == 0
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
        with socket.socket() as other:
            assert other.connect_ex(("127.0.0.2", port)) != 0
        with pytest.raises(HowdahError, match=rf"^metrics {port}: .*; give another port$"):
            Metrics(str(port), seen.now).__enter__()
    with socket.socket() as closed:
        assert closed.connect_ex(("127.0.0.1", port)) != 0
    with pytest.raises(HowdahError, match=r"^metrics 70000 is not a port"):
        Metrics("70000", seen.now).__enter__()
    with pytest.raises(HowdahError, match=r"^metrics -1 is not a port"):
        Metrics("-1", seen.now).__enter__()
    with pytest.raises(HowdahError, match=r"^metrics '' names no file; give a file, or a port$"):
        Metrics("", seen.now).__enter__()


def test_the_log_has_a_line_for_each_thing_and_no_name_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "_AT_ONCE_BYTES", 64)
    file, digests = tmp_path / "log", tmp_path / "digests"
    file.write_text("before\n")
    digests.touch()
    log = LogFile(file, "0f3a9c", "run42 to dtn2:/a, record x")
    record = run()
    assert record.plan is not None
    log.planned(record.plan, FarHello(version="0", limits=LIMITS, addresses=[], port=1))
    log.read_digests(digests)
    names = [b"run42/a", b"run42/\x1b[2J", b"run42/\xff", rb"run42/two\nlines"]
    with digests.open("ab") as kept:
        for name in names:
            kept.write(b"\\" * (b"\\" in name) + b"ab" * 32 + b"  " + name + b"\n")
        kept.write(b"cd" * 32 + b"  part")
    log.progress(progress())
    log.progress(progress(outages=1, outage_s=9.0, connections_replaced=2))
    change = Change(t_s=1.0, streams=2, why="a whim")
    log.progress(progress(outages=1, outage_s=9.0, connections_replaced=2, latest=change))
    log.waiting("no answer from dtn2 for 9 s; trying again for another 4 min")
    log.waiting("no answer from dtn2 for 10 s; trying again for another 4 min")
    log.far_says("one\ntwo\x07\n")
    log.ended(msgspec.structs.replace(record, error="the disk\nis full"))
    before, *lines = file.read_text().splitlines()
    assert before == "before"
    assert all(line.isascii() and line.isprintable() and line.split(" ")[1] == "0f3a9c" for line in lines)
    told = [line.split(" ", 2)[2] for line in lines]
    hashed = "ab" * 32
    assert [each for each in told if each.startswith("copied")] == [
        f"copied blake3 {hashed}  run42/a",
        f"copied blake3 {hashed}  run42/\\u{{1b}}[2J",
        f"copied blake3 {hashed}  run42/\\xff",
        f"copied blake3 {hashed}  run42/two\\nlines",
    ]
    others = [each for each in told if not each.startswith("copied")]
    assert others == [
        "start run42 to dtn2:/a, record x",
        f"plan {record.plan.in_short()}",
        "outage ridden through; 9 s in all",
        "reconnected 2 connections replaced so far",
        "steered 2 streams (a whim)",
        "waits no answer from dtn2 for 9 s",
        "said one",
        "said two\\u{7}",
        "moved 1.25 GB, 0 files, 0 skipped, 0 restarts, in 10.5 s",
        "end failed: the disk\\nis full",
    ]
    with pytest.raises(HowdahError, match=r"^log_file .*: Is a directory$"):
        LogFile(tmp_path, "0f3a9c", "")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(HowdahError, match=r"^log_file .*: nobody reads from this FIFO or socket$"):
        LogFile(fifo, "0f3a9c", "")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    LogFile(fifo, "0f3a9c", "read").ended(record)
    assert os.read(reader, 1 << 16).split(b"\n")[0].endswith(b" 0f3a9c start read")
    os.close(reader)
    full = LogFile(Path("/dev/full"), "0f3a9c", "")
    full.ended(record)
    assert full.failed == "No space left on device"


FILLS = """
import resource, sys
from pathlib import Path
from howdah.transfer.logfile import LogFile
file = Path(sys.argv[1])
log = LogFile(file, "0f3a9c", "run42 to dtn2:/a, record x")
# As on a disk that takes only the beginning of a line.
resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, resource.RLIM_INFINITY))
log.far_says("a line for which there is no room\\nand another one\\n")
print(log.failed)
"""


def test_the_log_ends_with_a_whole_line_where_there_is_no_room(tmp_path: Path) -> None:
    file = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", FILLS, str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\n"
    (line,) = file.read_text().splitlines(keepends=True)
    assert line.endswith(" 0f3a9c start run42 to dtn2:/a, record x\n")


def test_a_wait_is_one_line_of_the_log_however_often_it_is_said(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", "0f3a9c", "")
    for second in range(8, 12):
        # As a copy does each tick: a look, then what it waits for. A pause in an outage is another wait.
        log.progress(progress())
        log.waiting(f"no answer from dtn2 for {second} s; trying again for another 4 min")
        log.waiting("paused; continue with: howdah continue 0f3a9c")
    log.progress(progress())
    log.progress(progress())
    for second in (8, 9):
        log.progress(progress())
        log.waiting(f"no answer from dtn2 for {second} s; trying again for another 4 min")
    log.waiting("ssh ended; trying again for another 9 s")
    log.waiting("ssh ended; trying again for another 8 s")
    log.ended(run())
    lines = (tmp_path / "log").read_text().splitlines()
    told = [line.partition(" waits ")[2] for line in lines if " waits " in line]
    assert told == ["no answer from dtn2 for 8 s", "paused", "no answer from dtn2 for 8 s", "ssh ended"]


@pytest.mark.parametrize(
    ("removal", "keys", "seen", "said"),
    [
        (Removal(extraneous=3, removed=3, failed=0), {}, 3, ["removed 3 of 3 that the source does not have"]),
        (
            Removal(extraneous=1200, removed=1198, failed=2),
            {},
            1198,
            ["removed 1,198 of 1,200 that the source does not have"],
        ),
        (
            Removal(extraneous=3, removed=0, failed=0),
            {"dry_run_plan": []},
            0,
            ["removed 0 of 3 that the source does not have (a dry run)"],
        ),
        (Removal(extraneous=0, removed=0, failed=0), {}, 0, ["removed 0 of 0 that the source does not have"]),
        (None, {}, 0, []),
    ],
)
def test_the_log_tells_how_many_were_removed(
    tmp_path: Path, removal: Removal | None, keys: dict[str, list[str]], seen: int, said: list[str]
) -> None:
    record = run()
    assert record.outcome is not None
    outcome = msgspec.structs.replace(record.outcome, removal=removal, **keys)
    stopped = msgspec.structs.replace(record, outcome=None, error="interrupted")
    for each, shown in ((msgspec.structs.replace(record, outcome=outcome), said), (stopped, None)):
        log = LogFile(tmp_path / each.kind, "0f3a9c", "")
        log.progress(progress(removed=seen))
        log.ended(each)
        told = [line.split(" ", 2)[2] for line in (tmp_path / each.kind).read_text().splitlines()]
        before_the_stop = [f"removed {seen:,} that the source does not have, so far"] if seen else []
        expected = before_the_stop if shown is None else shown
        assert [line for line in told if line.startswith("removed")] == expected
        (tmp_path / each.kind).unlink()


def test_a_copy_does_not_wait_for_its_socket() -> None:
    began_s = time.monotonic()
    for _ in range(10):
        with attending():
            pass
    assert time.monotonic() - began_s < 1.0
