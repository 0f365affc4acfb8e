"""``howdah probe``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from howdah import HowdahError, document, interrupt
from howdah._native import parse_duration
from howdah.library import probed
from howdah.measure.probe import ProbeDisplay, ProbeRequest
from howdah.words.probe import ProbeLines, ProbeTerminal, in_words

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """\b
Examples
  howdah probe dtn2                        base RTT, its spread, queueing and room, who is there: ten seconds
  howdah probe --for 60s dtn2              for longer: a queue that is seldom empty, a route that changes
  howdah probe --udp me@dtn2               by UDP, answered by howdah there, which ssh starts
  howdah probe --active dtn2               with bursts of TCP beside the probes, 22 s: tells more, and costs
  howdah probe 2001:db8::7 --json          the record, with the whole series

ICMP echo needs nothing at the far end. Where it is not answered, UDP is tried over ssh. Either way some
110 probes a second of 64 bytes each go out, and as many come back. With --active, CUBIC, BBR, CUBIC and
nothing are sent to howdah there, 5 s each as fast as they can; the summary says how much that was.
"""


@app.command("probe", epilog=_EPILOG)
def probe(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="As ssh knows it, or an address.", show_default=False)
    ],
    *,
    lasting: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="From 1s to 1h.  [default: 10s, or what bursts take]"),
    ] = None,
    active: Annotated[bool, typer.Option("--active", help="Send bursts beside the probes.")] = False,
    bursts: Annotated[
        Path | None,
        typer.Option(metavar="PATTERN.toml", help="Other bursts than the default; see scenarios/."),
    ] = None,
    udp: Annotated[bool, typer.Option("--udp", help="By UDP and not by ICMP echo.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    far_howdah: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where howdah is on the far host, if not in its PATH.")
    ] = None,
) -> None:
    """Measure the round trip to a host: without a queue, how it spreads, how much of it is queueing."""
    for_s = None if lasting is None else parse_duration(lasting) / 1e9
    request = ProbeRequest(host, for_s, udp, far_howdah, active or bursts is not None, bursts, sys.argv)
    interrupt.install()
    exit_code, unkept = 0, None
    try:
        record = probed(request, _display(json=json, quiet=quiet))
    except (HowdahError, interrupt.Interrupted) as problem:
        if problem.record is None:
            raise
        record = problem.record
        if isinstance(problem, interrupt.Interrupted):
            exit_code, unkept = 128 + problem.number, next(iter(getattr(problem, "__notes__", [])), None)
        else:
            unkept = str(problem)
    if json:
        document.show(record)
    elif not quiet and record.probe is not None:
        print(in_words(record.probe, record.host or host))
        if "lateness" in record.flags:
            print("warning: this machine was too slow for the link; part of the queueing is its own")
        if unkept is None:
            print(f"Record: howdah archive show {record.id}")
    if unkept is not None:
        raise HowdahError(unkept)
    raise typer.Exit(exit_code)


def _display(*, json: bool, quiet: bool) -> ProbeDisplay:
    if quiet:
        return ProbeDisplay()
    return ProbeTerminal() if sys.stderr.isatty() and not json else ProbeLines()
