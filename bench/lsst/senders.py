"""Who sends beside the replication: a background of files, and images by nuttcp or by ``howdah cp``."""

import contextlib
import json
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.lsst.control import HOWDAH, MEMORY
from bench.lsst.scenario import BUFFER_BYTES, Scenario
from howdah import HowdahError
from howdah.lab import Lab

WINDOW_SEGMENTS = 99_999
"""The receiver's first window, as the paper sets it."""
_BACKGROUND_S = 150.0
"""There is so much of it at the rate of the link."""
_SWEEP_S = 0.3
_CONTROL_PORT, _DATA_PORT = 5100, 5101
_APART = 100
_TIMEOUT_S = 120.0
_NUTTCP = re.compile(r"([\d.]+) MB /\s+([\d.]+) sec =\s+([\d.]+) Mbps .*?(\d+) retrans")
Done = dict[str, Any]


def open_window(scenario: Scenario, wan: Lab) -> None:
    """The receiver offers a large window from the first segment on."""
    words = ["ip", "route", "change", "0.0.0.0/0", "dev", "eth0", "initrwnd", str(WINDOW_SEGMENTS)]
    wan.run(scenario.receiver, words, check=True)


@contextlib.contextmanager
def background(scenario: Scenario, wan: Lab) -> Iterator[None]:
    """A copy of files that goes on as long as the block; what has arrived is removed, as from a spool."""
    count = round(_BACKGROUND_S * _link_bps(scenario) / 8 / scenario.background_file_bytes)
    with contextlib.ExitStack() as stack:
        source, target = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="howdah-lsst-", dir=MEMORY)))
            for _ in range(2)
        )
        for number in range(count):
            with (source / f"raw-{number:03}").open("wb") as file:
                file.truncate(scenario.background_file_bytes)
        ended = threading.Event()
        removing = threading.Thread(target=_remove, args=(target, ended))
        words = [*HOWDAH, "cp", "--path", "guaranteed", "--class", "background", "-q"]
        words += [f"{source}/.", f"{scenario.receiver}:{target}/"]
        copy = stack.enter_context(wan.popen(scenario.background, words, stderr=subprocess.PIPE, text=True))
        removing.start()
        try:
            yield
        finally:
            ended_early = copy.poll() is not None
            copy.terminate()
            _, errors = copy.communicate()
            ended.set()
            removing.join()
            if ended_early:
                raise HowdahError(f"the background ended: {errors.strip() or 'all is copied'}")


def _remove(folder: Path, ended: threading.Event) -> None:
    while not ended.wait(_SWEEP_S):
        for file in folder.glob("raw-*"):
            file.unlink(missing_ok=True)


def _link_bps(scenario: Scenario) -> int:
    return scenario.link.near_to_far.rate_bps or 0


@contextlib.contextmanager
def nuttcp(scenario: Scenario, wan: Lab) -> Iterator[Callable[[str], list[str]]]:
    """Servers of nuttcp, one for each host; what a host runs to send its part."""
    to = wan.addresses[scenario.receiver]
    ports = {host: _APART * place for place, host in enumerate(scenario.images)}
    with contextlib.ExitStack() as stack:
        for port in ports.values():
            words = ["nuttcp", "-S", "--nofork", f"-P{_CONTROL_PORT + port}"]
            server = stack.enter_context(
                wan.popen(scenario.receiver, words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            stack.callback(server.kill)
        yield lambda host: [
            *("nuttcp", f"-I{host}", "-w128m", "-n", str(scenario.buffers)),
            *(f"-P{_CONTROL_PORT + ports[host]}", f"-p{_DATA_PORT + ports[host]}", to),
        ]


def copy(scenario: Scenario) -> list[str]:
    """What a host runs to send its part with ``howdah cp``."""
    words = ["cp", "--path", "guaranteed", "--class", "images", "--json"]
    return [*HOWDAH, *words, "--memory", f"{scenario.image_bytes}B", f"{scenario.receiver}:"]


def warm(scenario: Scenario, wan: Lab) -> None:
    """Each host of images has logged in and has a far end ready, as after any copy."""
    words = [*HOWDAH, "cp", "--memory", f"{BUFFER_BYTES}B", f"{scenario.receiver}:", "-q"]
    for host in scenario.images:
        wan.run(host, words, check=True, timeout=_TIMEOUT_S)


def start(wan: Lab, host: str, words: list[str]) -> "subprocess.Popen[str]":
    return wan.popen(host, words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    """What it printed. Raises HowdahError with its own words when it failed."""
    out, errors = process.communicate(timeout=_TIMEOUT_S)
    if process.returncode:
        raise HowdahError(f"{process.args!r}: {errors.strip() or out.strip()}")
    return str(out)


def said_by_nuttcp(text: str) -> Done:
    """Bytes, seconds and retransmissions, as nuttcp reports them."""
    found = _NUTTCP.search(text)
    if found is None:
        raise HowdahError(f"nuttcp said {text.strip()!r}")
    return {
        "bytes": round(float(found[1]) * 2**20),
        "s": float(found[2]),
        "retransmissions": int(found[4]),
    }


def said_by_cp(text: str) -> Done:
    """The same of a record, and what it says of its share."""
    record = json.loads(text)
    outcome = record["outcome"]
    return {
        "bytes": outcome["bytes"],
        "s": outcome["elapsed_s"],
        "setup_s": outcome["setup_s"],
        "connect_s": record["connect_s"],
        "congestion_control": outcome["congestion_control"],
        "retransmissions": sum(stream["retransmissions"] for stream in outcome["streams"]),
        "share": record["share"],
        "plan": {key: record["plan"][key] for key in ("streams", "buffer_bytes", "encrypt")},
    }
