"""PostgreSQL with a physical standby across the link, kept busy by inserts."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.lsst.control import MEMORY
from bench.lsst.scenario import Scenario
from howdah import HowdahError
from howdah.lab import Lab
from howdah.lab.processes import DIES_WITH_PARENT

PORT = 5432
_USER = "postgres"
_START_S = 30.0
_SLOT = "archive"
_SETTINGS = """
listen_addresses = '{address}'
unix_socket_directories = '{folder}'
port = {port}
fsync = off
full_page_writes = off
shared_buffers = 64MB
max_wal_size = 8GB
wal_level = replica
hot_standby = on
autovacuum = off
"""
_LOAD = """
CREATE TABLE readings (id bigint, at timestamptz, value text);
ALTER TABLE readings ALTER value SET STORAGE EXTERNAL;
DO $$ BEGIN LOOP
  INSERT INTO readings
    SELECT g, clock_timestamp(), repeat(md5(random()::text), 32) FROM generate_series(1, 2000) g;
  COMMIT;
  PERFORM pg_sleep(0.2);
END LOOP; END $$;
"""
"""Some 8 MB of log a second, more than replication may send."""
_RECEIVED = """
SELECT extract(epoch FROM clock_timestamp()), pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0') \\watch 0.5
"""


class Replication:
    """A primary and its standby."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "received"

    def received(self) -> list[tuple[float, int]]:
        """Unix time, and bytes of the log that the standby had by then, as it tells itself."""
        lines = self._file.read_text(encoding="ascii").splitlines()
        rows = [line.split("|") for line in lines if line.count("|") == 1 and line[-1].isdigit()]
        return [(float(at_s), int(count)) for at_s, count in rows]


@contextlib.contextmanager
def replicating(scenario: Scenario, wan: Lab) -> Iterator[Replication]:
    """From when the standby follows the primary until the end of the block."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="howdah-lsst-", dir=MEMORY)))
        user = pwd.getpwnam(_USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
        primary, standby = folder / "primary", folder / "standby"
        subprocess.run(
            _as_user("initdb", "-D", primary, "-A", "trust", "--no-sync"), check=True, capture_output=True
        )
        _configure(primary, wan.addresses[scenario.replication], wan.addresses[scenario.receiver])
        stack.enter_context(_server(wan, scenario.replication, primary))
        base = ["-h", wan.addresses[scenario.replication], "-p", str(PORT)]
        copied = wan.run(
            scenario.receiver,
            _as_user(
                "pg_basebackup", *base, "-D", standby, "-R", "-C", "-S", _SLOT, "-X", "stream", "-c", "fast"
            ),
            capture_output=True,
            timeout=60,
        )
        if copied.returncode:
            raise HowdahError(f"pg_basebackup: {copied.stderr.decode().strip()}")
        with (standby / "postgresql.conf").open("a", encoding="ascii") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{standby}'\n")
        stack.enter_context(_server(wan, scenario.receiver, standby))
        stack.enter_context(_psql(folder, _LOAD, subprocess.DEVNULL))
        replication = Replication(folder)
        out = stack.enter_context((folder / "received").open("wb"))
        stack.enter_context(_psql(standby, _RECEIVED, out))
        yield replication


def _configure(data: Path, address: str, standby: str) -> None:
    with (data / "postgresql.conf").open("a", encoding="ascii") as file:
        file.write(_SETTINGS.format(address=address, folder=data.parent, port=PORT))
    with (data / "pg_hba.conf").open("a", encoding="ascii") as file:
        file.write(f"host replication all {standby}/32 trust\n")


@contextlib.contextmanager
def _server(wan: Lab, host: str, data: Path) -> Iterator[None]:
    """Runs while the block lasts; on entering it answers."""
    log = data.parent / f"{data.name}.log"
    with (
        log.open("wb") as out,
        wan.popen(host, _as_user("postgres", "-D", data), stdout=out, stderr=out) as process,
    ):
        folder = data if data.name == "standby" else data.parent
        try:
            deadline = time.monotonic() + _START_S
            while _sql(folder, "SELECT 1").returncode:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise HowdahError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-400:]}")
                time.sleep(0.1)
            yield
        finally:
            # At once, without waiting for what a standby still has to get.
            process.send_signal(signal.SIGQUIT)
            process.wait(_START_S)


def _sql(folder: Path, statement: str) -> "subprocess.CompletedProcess[bytes]":
    words = _as_user("psql", "-h", folder, "-p", PORT, "-At", "-c", statement, "postgres")
    return subprocess.run(words, capture_output=True, check=False)


@contextlib.contextmanager
def _psql(folder: Path, statements: str, out: object) -> Iterator[None]:
    words = [*DIES_WITH_PARENT, *_as_user("psql", "-h", folder, "-p", PORT, "-At", "postgres")]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL, text=True
    ) as process:  # type: ignore[call-overload]
        process.stdin.write(statements)
        process.stdin.flush()
        try:
            yield
        finally:
            process.kill()


def _as_user(program: str, *arguments: object) -> Sequence[str]:
    """PostgreSQL refuses to run as root."""
    found = shutil.which(program) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))), None
    )
    if found is None:
        raise HowdahError(f"no {program} here; apt-get install postgresql")
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups", found, *map(str, arguments)]
