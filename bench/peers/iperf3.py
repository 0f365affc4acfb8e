"""iperf3 as the ceiling: as many bytes from memory to memory, in the clear, no file at either end."""

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
    """What the bench keeps of its report; ``own_bps`` is by its own clock, once data flows."""
    end = json.loads(output)["end"]
    received = end["sum_received"]
    return {
        "received_bytes": received["bytes"],
        "own_bps": received["bits_per_second"],
        "own_s": received["seconds"],
        "streams": len(end["streams"]),
        "congestion_control": end.get("sender_tcp_congestion"),
        "retransmissions": end["sum_sent"].get("retransmits"),
    }
