"""iperf3 from memory to memory, windows by the kernel's own tuning."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from bench.ops.tool import TCP_HEADERS_BYTES, Sender, Stage, address, right
from bench.peers.tool import Command, listening

_PORT = 5201


@dataclasses.dataclass(frozen=True)
class Iperf3:
    streams: int
    congestion_control: str
    headers_bytes: int = TCP_HEADERS_BYTES

    @contextlib.contextmanager
    def serving(self, stage: Stage, pairs: Sequence[int]) -> Iterator[None]:
        (pair,) = pairs
        argv = ["iperf3", "--server", "--bind", address(stage, pair), "--port", str(_PORT)]
        log = stage.scratch / f"iperf3-{pair}.log"
        with listening(stage.lab, right(pair), Command(argv), f"tcp:{_PORT}", log):
            yield

    def senders(self, stage: Stage, pairs: Sequence[int]) -> Sequence[Sender]:
        (pair,) = pairs
        argv = ["iperf3", "--client", address(stage, pair), "--port", str(_PORT), "--json"]
        argv += ["--congestion", self.congestion_control, "--parallel", str(self.streams)]
        return [Sender(pair, Command([*argv, "--time", str(round(stage.send_s))]))]
