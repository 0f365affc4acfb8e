"""The options that describe a lab, of every command of ``howdah lab`` that makes one."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from howdah.lab import labfile

HELP = """
RATE, SIZE of the queue, SHARE and TIME of the jitter take one value for both ways, or two with a comma:
near to far, far to near.

FILE is TOML with the same keys, and what options cannot say:

\b
  rate = "10Gbit"
  rtt = "100ms"
  burst = { enter = "0.001%", leave = "20%" }
  topology = "dumbbell"
  left = ["base20", "base21"]
  [far_to_near]              # or near_to_far: wins over the above
  delay = "80ms"             # one way
  [[change]]                 # as many as you like, in the order of time
  at = "5s"
  direction = "near_to_far"  # without: both
  outage = true              # or rate, delay, loss, burst, drop = 1
"""

_LINK: dict[str, Any] = {
    "rate": (str, "RATE", "On the wire, as 10Gbit. Default: not shaped"),
    "rtt": (str, "TIME", "Round trip, half each way. Default: 0ms"),
    "queue": (str, "SIZE", "Drop-tail queue, in bytes on the wire. Default: one bandwidth-delay product"),
    "loss": (str, "SHARE", "Of wire segments, each for itself, as 0.01%"),
    "burst_loss": (
        str,
        "ENTER,LEAVE",
        "Bursts (Gilbert–Elliott), per wire segment, as 0.001%,20%[,BAD[,GOOD]]",
    ),
    "jitter": (str, "TIME", "On top of the delay; never reorders"),
    "mtu": (int, "BYTES", "Default: 1500"),
    "frame_overhead": (str, "SIZE", "Counted with each frame. Default: Ethernet's 38B"),
    "seed": (int, "N", "Of loss and jitter. Default: 1"),
}
_HOSTS: dict[str, Any] = {
    "topology": (
        str,
        "pair|dumbbell",
        "Two hosts on the link, or hosts on a LAN of either side. Default: pair",
    ),
    "left": (str, "HOSTS", "A number, or names with commas; the near side. Default: 1"),
    "right": (str, "HOSTS", "The far side; with one host a dumbbell is a star. Default: 1"),
    "lan_rate": (str, "RATE", "Of each host's cable, on the wire. Default: not shaped"),
}
_FILE: dict[str, Any] = {
    "schedule": (Path, "FILE", "The lab and its changes in time, as TOML; options win over it"),
}


def takes_lab(command: Callable[..., None]) -> Callable[..., None]:
    """Gives ``command`` a lab's options in place of its parameters ``link`` and ``topology``."""
    own = inspect.signature(command, eval_str=True)
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, typer.Option(metavar=metavar, help=text)],
        )
        for name, (kind, metavar, text) in (_LINK | _HOSTS | _FILE).items()
    ]

    @functools.wraps(command)
    def taking(**given: Any) -> None:  # noqa: ANN401, whatever the command takes
        typed = labfile.LabOptions(**{name: given.pop(name) for name in _LINK | _HOSTS})
        built, topology = labfile.build(typed, given.pop("schedule"))
        command(link=built, topology=topology, **given)

    others = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.parameters.values()]
    shown = [*(other for other in others if other.name not in {"link", "topology"}), *options]
    taking.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    taking.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return taking
