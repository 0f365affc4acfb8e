"""Types that several threads use at once."""

import subprocess
import sys
from pathlib import Path

import samples

from howdah import Archive

RUNS = 6
"""Before, more than half of these processes crashed."""
THREADS = """
import sys, threading
sys.setswitchinterval(1e-6)
import howdah

def load():
    archive = howdah.Archive(sys.argv[1])
    together.wait()
    found.append(archive.load("last").id)

together, found = threading.Barrier(4), []
threads = [threading.Thread(target=load) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(*found)
"""


def test_threads_may_read_records_at_once(tmp_path: Path) -> None:
    kept = samples.record()
    for run in range(RUNS):
        root = tmp_path / str(run)
        Archive(root).save(kept)
        done = subprocess.run(
            [sys.executable, "-c", THREADS, str(root)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout.split()) == (0, [kept.id] * 4), done.stderr
