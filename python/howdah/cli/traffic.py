"""``howdah traffic``."""

from typing import Annotated

import typer

from howdah.cli import traffic_command as command

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_EPILOG = """\b
Examples
  howdah traffic scenarios/traffic-bursty-udp-1-5.toml dtn2
  howdah traffic scenarios/traffic-square-tcp.toml dtn2 --for 10min
  howdah traffic pattern.toml dtn2 --dry-run     what it would send, and when

A pattern is TOML, up to 8 loads side by side:

\b
  name = "mixed"
  duration = "60s"              # default 60s, at most 24h
  [[load]]
  kind = "udp"                  # at a rate; with on and every in bursts, 1 s every 5 s
  rate = "300Mbit"
  on = "1s"
  every = "5s"
  [[load]]
  kind = "tcp"                  # as fast as congestion control lets it
  congestion_control = "bbr"
  streams = 2
  [[load]]
  kind = "rbudp"                # an object at a rate, then what was lost, until it is whole
  rate = "400Mbit"
  size = "50MB"
  every = "20s"

Traffic takes from whoever else is on the path, and UDP does not yield: send it where you may.
docs/traffic.md has every key. The far end needs howdah installed, and is started over ssh.
"""


@app.command("traffic", epilog=_EPILOG)
def traffic(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN.toml", help="What to send.", show_default=False)],
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="To a host as ssh knows it.", show_default=False)
    ],
    *,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="So long, whatever the pattern says.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent; send nothing.")
    ] = False,
    far_howdah: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where howdah is on the far host, if not in its PATH.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the record, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
) -> None:
    """Send background traffic to another host, by a pattern: TCP, UDP, bursts, reliable blasts."""
    raise typer.Exit(command.traffic(command.Asked(pattern, host, lasting, far_howdah, dry_run, json, quiet)))
