"""globus-url-copy from memory to memory: zeros into nothing, in the clear, socket buffers of one BDP."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from bench.ops.tool import TCP_HEADERS_BYTES, Sender, Stage, address, left, right
from bench.peers.globus import environment
from bench.peers.tool import UNPRIVILEGED, Command, listening

_PORT = 2811
_ENDLESS_BYTES = 10**13


@dataclasses.dataclass(frozen=True)
class GridFtp:
    streams: int
    headers_bytes: int = TCP_HEADERS_BYTES

    @contextlib.contextmanager
    def serving(self, stage: Stage, pairs: Sequence[int]) -> Iterator[None]:
        (pair,) = pairs
        own = address(stage, pair)
        argv = ["globus-gridftp-server", "-c", "/dev/null", "-aa", "-p", str(_PORT), "-hostname", own]
        log = stage.scratch / f"gridftp-{pair}.log"
        command = Command([*UNPRIVILEGED, *argv], environment(own))
        with listening(stage.lab, right(pair), command, f"tcp:{_PORT}", log):
            yield

    def senders(self, stage: Stage, pairs: Sequence[int]) -> Sequence[Sender]:
        (pair,) = pairs
        argv = ["globus-url-copy", "-tcp-bs", str(stage.bdp_bytes), "-p", str(self.streams)]
        argv += ["-len", str(_ENDLESS_BYTES), "file:///dev/zero"]
        argv += [f"ftp://{address(stage, pair)}:{_PORT}/dev/null"]
        return [Sender(pair, Command(argv, environment(stage.lab.addresses[left(pair)])))]
