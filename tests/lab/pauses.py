"""How long the machine itself was taken away: on a shared one the hypervisor lets others run in between.

python pauses.py CPU PATH PLACE     adds up, in a double of the file, for as long as its parent lives
"""

import ctypes
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

EVERY_S, LATE_S = 0.002, 0.001
"""Someone who goes before all others in user space wakes so often; later than this, nobody ran."""
PRIORITY = 2
"""Above whatever a test starts."""
MUCH = 0.01
"""Of the time; a bound of a test may not hold then."""
PR_SET_PDEATHSIG = 1
DOUBLE = struct.Struct("d")


class Pauses:
    """What each processor lost, from now on. Close it."""

    def __init__(self) -> None:
        self._cpus = sorted(os.sched_getaffinity(0))
        self._file = tempfile.NamedTemporaryFile()  # noqa: SIM115, closed with this
        self._file.truncate(DOUBLE.size * len(self._cpus))
        self._lost = mmap.mmap(self._file.fileno(), 0)
        self._watchers = [
            subprocess.Popen([sys.executable, __file__, str(cpu), self._file.name, str(place)])
            for place, cpu in enumerate(self._cpus)
        ]
        self.begin()

    def begin(self) -> None:
        """Counts anew."""
        self._begin_s, self._before_s = time.monotonic(), self._lost_s()

    def share(self) -> float:
        """Of the time since, lost by the processor that lost most."""
        lost_s = [now - before for now, before in zip(self._lost_s(), self._before_s, strict=True)]
        return max(lost_s) / max(time.monotonic() - self._begin_s, EVERY_S)

    def close(self) -> None:
        for watcher in self._watchers:
            watcher.kill()
            watcher.wait()
        self._lost.close()
        self._file.close()

    def _lost_s(self) -> list[float]:
        return [lost_s for (lost_s,) in DOUBLE.iter_unpack(self._lost)]


def _watch(cpu: int, path: str, place: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as lost:  # noqa: PTH123
        lost_s = 0.0
        due_s = time.monotonic()
        while True:
            due_s += EVERY_S
            time.sleep(max(0.0, due_s - time.monotonic()))
            late_s = time.monotonic() - due_s
            if late_s > LATE_S:
                lost_s += late_s
                due_s += late_s
                DOUBLE.pack_into(lost, DOUBLE.size * place, lost_s)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
