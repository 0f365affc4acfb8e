"""The bus over NATS when connections break, servers restart or forget, and leaders are killed."""

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from buses import served, wired

from bench.nats_server import NatsServer
from howdah import HowdahError
from howdah.control.bus import Bus, KeyChange, Unreachable, Watch
from howdah.control.bus.jetstream import Bucket, JetStreamBus
from howdah.control.bus.leadership import Leadership, boottime_ns, stand

TTL_S = 1.0
TAKEOVER_S = 2.0
"""What the issue allows."""


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with served() as server:
        yield server


async def soon(watch: Watch, within_s: float = 10.0) -> KeyChange:
    async with asyncio.timeout(within_s):
        return await anext(watch)


async def put_in_the_end(bus: Bus, key: str, value: bytes) -> int:
    async with asyncio.timeout(10):
        while True:
            try:
                return await bus.put(key, value)
            except Unreachable:
                await asyncio.sleep(0.05)


def test_a_watch_cut_off_tells_what_became_different_and_nothing_else(server: NatsServer) -> None:
    async def main() -> None:
        async with wired(server) as wire, await JetStreamBus.connect(server.url) as writer:
            for key in ("kept", "changed", "deleted"):
                await writer.put(key, b"before")
            async with await JetStreamBus.connect(wire.url) as bus, bus.watch() as changes:
                assert {(await soon(changes)).key for _ in range(3)} == {"kept", "changed", "deleted"}
                before = bus.connection
                await wire.cut()
                with pytest.raises(Unreachable):
                    await bus.get("kept")
                await writer.put("changed", b"after")
                await writer.delete("deleted")
                await writer.put("new", b"after")
                await wire.join()
                found = {change.key: change.value for change in [await soon(changes) for _ in range(3)]}
                assert found == {"changed": b"after", "new": b"after", "deleted": None}
                assert bus.connection > before
                await writer.put("kept", b"at last")
                assert (await soon(changes)).value == b"at last"

    asyncio.run(main())


def test_an_error_that_nobody_thought_of_ends_a_watch(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_: object) -> None:
        raise KeyError("nobody thought of it")

    async def main() -> None:
        async with wired(server) as wire, await JetStreamBus.connect(wire.url) as bus, bus.watch() as changes:
            await bus.put("kept", b"before")
            assert (await soon(changes)).key == "kept"
            monkeypatch.setattr(Bucket, "ensure", breaks)
            await wire.cut()
            await wire.join()
            with pytest.raises(KeyError):
                await soon(changes)

    asyncio.run(main())


def test_a_line_gone_dead_is_noticed_and_used_again_when_it_is_back(server: NatsServer) -> None:
    async def main() -> None:
        async with (
            wired(server) as wire,
            await JetStreamBus.connect(server.url) as writer,
            await JetStreamBus.connect(wire.url) as bus,
            bus.watch() as changes,
        ):
            before = bus.connection
            wire.go_dead()
            with pytest.raises(Unreachable):
                await bus.put("lost", b"")
            assert bus.connection > before
            await writer.put("meanwhile", b"1")
            wire.come_back()
            while (change := await soon(changes)).key != "meanwhile":
                assert change.key == "lost"

    asyncio.run(main())


def test_a_server_killed_and_started_again_has_lost_nothing(server: NatsServer) -> None:
    async def main() -> None:
        async with await JetStreamBus.connect(server.url) as bus, bus.watch() as changes:
            revision = await bus.put("kept", b"1")
            await soon(changes)
            server.kill()
            with pytest.raises(Unreachable):
                await bus.put("kept", b"2")
            server.start()
            assert await put_in_the_end(bus, "new", b"") > revision
            assert (await soon(changes)).key == "new"
            assert await bus.get("kept") == (b"1", revision)

    asyncio.run(main())


def test_a_server_that_lost_everything_is_used_as_it_is(server: NatsServer) -> None:
    async def main() -> None:
        async with await JetStreamBus.connect(server.url) as bus, bus.watch() as changes:
            await bus.put("lost", b"")
            await bus.put("again", b"before")
            assert {(await soon(changes)).key for _ in range(2)} == {"lost", "again"}
            lose_everything(server)
            await put_in_the_end(bus, "again", b"after")
            found: dict[str, bytes | None] = {}
            while found != {"lost": None, "again": b"after"}:
                change = await soon(changes)
                found[change.key] = change.value

    asyncio.run(main())


def lose_everything(server: NatsServer) -> None:
    server.kill()
    shutil.rmtree(server.folder)
    server.start()


def test_a_leader_forgotten_by_the_server_is_waited_for(server: NatsServer) -> None:
    async def main() -> None:
        async with (
            await JetStreamBus.connect(server.url) as one,
            await JetStreamBus.connect(server.url) as other,
            stand(one, "control", ttl_s=TTL_S) as first,
        ):
            epoch = await first.won()
            async with stand(other, "control", ttl_s=TTL_S) as second:
                watching = asyncio.create_task(never_together(first, second))
                lose_everything(server)
                await first.lost(epoch)
                await asyncio.wait(
                    [asyncio.create_task(each.won()) for each in (first, second)],
                    timeout=10,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                latest = max(first.epoch or 0, second.epoch or 0)
                assert latest > epoch
                watching.cancel()

    asyncio.run(main())


async def never_together(one: Leadership, other: Leadership) -> None:
    while True:
        assert one.epoch is None or other.epoch is None
        await asyncio.sleep(0.001)


_LEADER = """
import asyncio, sys
from howdah.control.bus import opened
from howdah.control.bus.leadership import stand

async def main():
    async with opened(sys.argv[1]) as bus, stand(bus, "control", ttl_s=float(sys.argv[2])) as leadership:
        epoch = await leadership.won()
        while True:
            print(epoch, leadership.until_ns, flush=True)
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_a_leader_killed_is_followed_in_time_and_not_before_its_term_is_over(server: NatsServer) -> None:
    async def main() -> None:
        async with await JetStreamBus.connect(server.url) as bus:
            leader = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _LEADER, server.url, str(TTL_S), stdout=asyncio.subprocess.PIPE
            )
            assert leader.stdout
            await leader.stdout.readline()
            async with stand(bus, "control", ttl_s=TTL_S) as follower:
                await asyncio.sleep(TTL_S / 2)
                leader.send_signal(signal.SIGKILL)
                killed_ns = boottime_ns()
                epoch = await follower.won()
                took_ns = boottime_ns()
                said = (await leader.stdout.read()).decode().splitlines()
                last_epoch, until_ns = map(int, said[-2].split())
                assert epoch > last_epoch
                assert took_ns > until_ns
                assert (took_ns - killed_ns) / 1e9 < TAKEOVER_S
            await leader.wait()

    asyncio.run(main())


def test_the_bus_of_one_process_does_not_load_nats() -> None:
    code = "import sys, howdah.control.bus; sys.exit('nats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_nats_py_the_way_to_install_it_is_said() -> None:
    code = """
import asyncio, sys
sys.modules["nats"] = None
from howdah.control.bus import opened

async def main():
    async with opened("nats://127.0.0.1:1"):
        pass

try:
    asyncio.run(main())
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("HowdahError: NATS needs nats-py; install it with: pip install 'WHEEL[control]', ")


def test_a_server_ends_with_its_maker_and_its_folder_is_private(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from bench.nats_server import NatsServer
server = NatsServer(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(60)
"""
    folder = tmp_path / "nats"
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as maker:
        assert maker.stdout
        pid = int(maker.stdout.readline())
        maker.kill()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "nats.conf").stat().st_mode & 0o777 == 0o600


def test_a_server_runs_within_the_command_given(tmp_path: Path) -> None:
    with NatsServer(tmp_path, within=["env", "WITHIN=1"]) as server:
        assert b"WITHIN=1" in Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
        assert b"nats-server" in Path(f"/proc/{server.pid}/cmdline").read_bytes()


def test_a_server_that_cannot_start_says_why(tmp_path: Path, server: NatsServer) -> None:
    with pytest.raises(HowdahError, match=r"nats-server did not start: .*address already in use"):
        NatsServer(tmp_path, port=server.port).start()
