"""Members of a class by cgroup: processes of one host that send to one place have different shares."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import streams
from controls import clean_kernel, good, take_all_away
from streams import PAYLOAD_BYTES, PORT, WIRE_BYTES

from howdah import lab
from howdah.cc import programs
from howdah.cc.shares import Place, everyones
from howdah.control.bus import LocalBus
from howdah.control.policy.policyfile import loads
from howdah.control.privilege.helper import Host
from howdah.control.running.agent import serve
from howdah.control.running.operations import Operations
from howdah.lab import Lab

pytestmark = pytest.mark.lab

OUTER = f"/howdah-test-{os.getpid()}"
INNER, LATE = f"{OUTER}/inner", f"{OUTER}/late"
POLICY = f"""
name = "cgroups"
guarantee = "80Mbit"
lease = "1s"
[class.images]
fixed = "40Mbit"
[[class.images.member]]
host = "base20"
cgroup = "{OUTER}"
to = "10.0.0.0/8"
ports = "{PORT}"
[class.background]
fixed = "10Mbit"
[[class.background.member]]
host = "base20"
cgroup = "{INNER}"
[class.late]
fixed = "5Mbit"
[[class.late.member]]
host = "base20"
cgroup = "{LATE}"
"""
SETTLE_S, SPAN_S = 1.0, 1.5


@pytest.fixture(scope="module")
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


@pytest.fixture(autouse=True)
def clean(kernel: None) -> Iterator[None]:
    yield
    take_all_away()


@pytest.fixture
def hierarchy(privilege: None) -> Iterator[Path]:
    """Where cgroup2 is mounted, with two cgroups of this test's."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    root = next(Path(place) for _, place, kind, *_ in mounts if kind == "cgroup2")
    for name in (OUTER, INNER):
        (root / name[1:]).mkdir()
    try:
        yield root
    finally:
        for name in (LATE, INNER, OUTER):
            with contextlib.suppress(FileNotFoundError):
                (root / name[1:]).rmdir()


@contextlib.contextmanager
def sending(wan: Lab, folder: Path, count: int) -> Iterator[list[int]]:
    """A process of a cgroup that sends on so many connections; its ports."""
    argv = [sys.executable, streams.__file__, "near", wan.far_address, str(PORT), str(count)]
    inside = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(folder), *argv]
    pipe = subprocess.PIPE
    with wan.popen("near", inside, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdin
            assert process.stdout
            ports = json.loads(process.stdout.readline())
            process.stdin.write(json.dumps([*range(count)]) + "\n")
            process.stdin.flush()
            yield ports
        finally:
            process.kill()


def controls(ports: list[int]) -> set[str]:
    """What the near ends of connections have."""
    found = programs.status().connections
    mine = [each for each in found if int(each.local.rpartition(":")[2]) in ports]
    return {each.control for each in mine}


def arrived_bytes() -> dict[str, int]:
    """By class, what the far end has acknowledged, as on the wire."""
    found = {each.name.partition("/")[0]: each.acked_bytes for each in everyones()}
    return {name: acked * WIRE_BYTES // PAYLOAD_BYTES for name, acked in found.items()}


def test_processes_of_two_cgroups_share_a_path_as_their_classes_say(hierarchy: Path) -> None:
    folders = {name: hierarchy / name[1:] for name in (OUTER, INNER, LATE)}
    told: list[str] = []
    seen: list[tuple[int, dict[str, int]]] = []
    with contextlib.ExitStack() as stack:
        wan = stack.enter_context(lab.started(lab.symmetric(100_000_000, 20_000_000)))
        far = [sys.executable, streams.__file__, "far", str(PORT), "60"]
        receiver = stack.enter_context(wan.popen("far", far, stdout=subprocess.PIPE, text=True))
        stack.callback(receiver.kill)
        assert receiver.stdout
        receiver.stdout.readline()
        outer = stack.enter_context(sending(wan, folders[OUTER], 2))
        inner = stack.enter_context(sending(wan, folders[INNER], 2))

        # The deeper cgroup's rule has what is in both.
        programs.load("scalable")
        assert good("attach", "--cc", "scalable", "--cgroup", OUTER)["moved"] == 4
        deeper = Place(to=f"{wan.far_address}/32", cgroup=INNER)
        assert programs.attach(deeper, "reno").moved == 2
        assert controls(outer) == {"hd_scalable"}
        assert controls(inner) == {"reno"}
        assert programs.detach(deeper).moved == 2
        assert controls(inner) == {"hd_scalable"}
        assert good("detach", "--cgroup", OUTER)["moved"] == 4

        async def attend(operations: Operations) -> None:
            async for status in operations.watch():
                if status.settled and [flow.connections for flow in status.flows] == [2, 2, 0]:
                    break
            for span_s in (SETTLE_S, SPAN_S):
                await asyncio.sleep(span_s)
                seen.append((time.monotonic_ns(), arrived_bytes()))
            folders[LATE].mkdir()
            stack.enter_context(sending(wan, folders[LATE], 1))
            async for status in operations.watch():
                if [flow.connections for flow in status.flows] == [2, 2, 1]:
                    break

        async def main() -> None:
            async with asyncio.timeout(20):
                await serve("test", loads(POLICY, "p"), LocalBus(), kernels, attend, told.append)

        stat = ["stat", "--dereference", "--format=%i", "/proc/self/ns/net"]
        namespace = wan.run("near", stat, capture_output=True, text=True, check=True).stdout
        kernels = {"base20": Host("base20", int(namespace))}
        asyncio.run(main())
        assert [line for line in told if "cgroup" in line] == [
            f"waiting for {LATE}: no such cgroup on this host"
        ]
        status = programs.status()
        assert not status.rules
        assert not status.shares
        assert "hd_hold" not in controls([*outer, *inner])

    (begin_ns, before), (end_ns, after) = seen
    rates_bps = {name: (after[name] - before[name]) * 8e9 / (end_ns - begin_ns) for name in before}
    assert rates_bps["images"] == pytest.approx(40_000_000, rel=0.05)
    assert rates_bps["background"] == pytest.approx(10_000_000, rel=0.05)
