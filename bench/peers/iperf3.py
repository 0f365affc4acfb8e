"""iperf3 as the ceiling: as many bytes from memory to memory, in the clear, no file at either end.

It stops when it has written the last byte, whatever is still in its socket buffers then: at a long round
trip that is much of the whole. All of it counts in its favour, so the ceiling is rather too high.
"""

import contextlib
import json
import os
from typing import Any

from bench.peers.tool import Command, Stage, server

NAME = "iperf3"
_PORT = 5201


def serving(stage: Stage) -> contextlib.AbstractContextManager[None]:
    argv = ["iperf3", "--server", "--bind", stage.lab.far_address, "--port", str(_PORT)]
    return server(stage, argv, _PORT, os.environ)


def command(stage: Stage, size_bytes: int, streams: int, congestion_control: str | None) -> Command:
    argv = ["iperf3", "--client", stage.lab.far_address, "--port", str(_PORT), "--json"]
    argv += ["--bytes", str(size_bytes), "--parallel", str(streams)]
    if congestion_control is not None:
        argv += ["--congestion", congestion_control]
    return Command(argv, os.environ)


def facts(output: bytes) -> dict[str, Any]:
    """What the bench keeps of its report; the rates are by its own clocks, once data flows."""
    end = json.loads(output)["end"]
    sent, received = end["sum_sent"], end["sum_received"]
    return {
        "sent_bytes": sent["bytes"],
        "own_bps": sent["bits_per_second"],
        "received_bytes": received["bytes"],
        "received_bps": received["bits_per_second"],
        "streams": len(end["streams"]),
        "congestion_control": end.get("sender_tcp_congestion"),
        "retransmissions": sent.get("retransmits"),
    }
