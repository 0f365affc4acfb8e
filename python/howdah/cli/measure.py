"""The tables of ``howdah probe``, ``sweep`` and ``traffic``, and what ``probe`` and ``traffic`` do."""

import sys

from howdah.bounds import PROBED_S, TRAFFIC_S
from howdah.cli.table import FAR_HOWDAH, QUIET, Argument, Command, Option, as_json, duration, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_RECORD = as_json("Print only the record, as JSON.")

COMMANDS = (
    Command(
        "probe",
        "Measure the round trip to a host: its base, its spread, and how much of it is queueing.",
        run="measure.probe",
        rows={
            "What is measured": [
                Argument("HOST", "A host's name in ssh, or an address.", key="host"),
                Option(
                    "--for TIME",
                    "How long. Default: 10s, or as long as the bursts.",
                    key="lasting",
                    kind=duration,
                    within=PROBED_S,
                    sets=["for_s"],
                ),
                Option("--active", "Also send bursts of TCP."),
                Option(
                    "--bursts PATTERN.toml",
                    "Bursts of your own: a pattern as howdah traffic takes it.",
                    kind=path,
                ),
                Option("--udp", "Probe by UDP instead of ICMP echo."),
                FAR_HOWDAH,
            ],
            "Output": [_RECORD, QUIET],
        },
        examples="""\
howdah probe dtn2                base RTT, its spread, queueing, room, other traffic: ten seconds
howdah probe --for 60s dtn2      for longer, if the queue is seldom empty or the route changes
howdah probe --udp me@dtn2       by UDP; ssh starts howdah there, which answers
howdah probe --active dtn2       also sends bursts of TCP, for 22 s
howdah probe 2001:db8::7 --json  the record, with the whole series""",
        notes="""\
ICMP echo needs nothing at the far end. If nothing answers it, the probe tries UDP over ssh. Either way, some
110 probes of 64 bytes go out each second, and as many come back. --active sends bursts of CUBIC, BBR, CUBIC
and nothing to howdah there, 5 s each at 1 Mb/s. The summary says how many bytes that was.""",
    ),
    Command(
        "sweep",
        "Measure a path with many configurations: congestion controls, streams, buffers.",
        run="sweep_command.sweep_path",
        rows={
            "What is measured": [
                Argument("HOST|PLAN.toml", "A host's name in ssh, or a plan.", key="what"),
                Option(
                    "--for TIME",
                    "With HOST: fit all runs into this time, as 20min.",
                    key="lasting",
                    kind=duration,
                    sets=["for_s"],
                ),
                Option("--dry-run", "Print the cells and how long they take; measure nothing."),
                Option("--beside-others", "Measure even while another howdah works on this host."),
                FAR_HOWDAH,
            ],
            "Output": [
                as_json("Print the result as JSON."),
                Option("-q, --quiet", "Print no line for each run."),
            ],
        },
        examples="""\
howdah sweep dtn2                         the path to a host: some minutes
howdah sweep dtn2 --for 20min             as much as fits in the time
howdah sweep dtn2 --dry-run               what would be measured, and how long it takes
howdah sweep plan.toml                    a plan, which may measure in labs on this machine""",
        notes="""\
Each run goes from memory to memory. The archive keeps its record, with a trace. If a sweep is stopped, the
same command goes on with it. A plan is TOML:

  name = "dtn2-streams"
  host = "dtn2"                            # or a table [lab] with rate and rtt
  repeats = 3
  [[runs]]                                 # all combinations
  congestion_control = ["cubic", "htcp"]
  streams = [1, 4, 10]
  buffer = ["auto", "256MB"]
  time = "10s"                             # or size = "20GB"

docs/sweep.md has every key.""",
    ),
    Command(
        "traffic",
        "Send background traffic to another host, by a pattern: TCP, UDP, bursts, reliable blasts.",
        run="measure.traffic",
        rows={
            "What is sent": [
                Argument("PATTERN.toml", "What to send.", key="pattern"),
                Argument("HOST", "The target host's name in ssh.", key="host"),
                Option(
                    "--for TIME",
                    "How long, in place of the pattern's duration.",
                    key="lasting",
                    kind=duration,
                    within=TRAFFIC_S,
                    sets=["for_s"],
                ),
                Option("--dry-run", "Print what would be sent; send nothing."),
                FAR_HOWDAH,
            ],
            "Output": [_RECORD, QUIET],
        },
        examples="""\
howdah traffic pattern.toml dtn2
howdah traffic pattern.toml dtn2 --for 10min
howdah traffic pattern.toml dtn2 --dry-run  what it would send, and when""",
        notes="""\
A pattern is TOML, up to 8 loads side by side:

  name = "mixed"
  duration = "60s"              # default 60s
  [[load]]
  kind = "udp"                  # at a rate; on and every make bursts: 1 s every 5 s
  rate = "300Mbit"
  on = "1s"
  every = "5s"
  [[load]]
  kind = "tcp"                  # as fast as congestion control lets it
  congestion_control = "bbr"
  streams = 2
  [[load]]
  kind = "rbudp"                # an object at a rate; what was lost is sent again
  rate = "400Mbit"
  size = "50MB"
  every = "20s"

This traffic competes with all other traffic on the path, and UDP does not yield. Send it only where you may.
docs/traffic.md has every key. The far host needs howdah installed; ssh starts it.""",
    ),
)


def probe(
    *,
    host: str,
    lasting: float | None,
    active: bool,
    bursts: "Path | None",
    udp: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Measures and returns the exit code. Raises HowdahError."""
    from howdah import HowdahError, document, interrupt  # noqa: PLC0415
    from howdah.library.ended import ended  # noqa: PLC0415
    from howdah.library.probe import ProbeRequest, carry_out  # noqa: PLC0415
    from howdah.words.probe import display, in_words  # noqa: PLC0415

    request = ProbeRequest(host, lasting, udp, far_howdah, active or bursts is not None, bursts, sys.argv)
    shown = display(quiet=quiet, json=json)
    interrupt.install()
    done = ended(lambda: carry_out(request, shown))
    # That a signal ended it is no problem: what was seen until then is whole.
    record, unkept = done.record, done.problems[done.exit_code > 1 :]
    if json:
        document.show(record)
    elif not quiet and record.probe is not None:
        print(in_words(record.probe, record.host or host))
        if "lateness" in record.flags:
            print("warning: this machine was too slow for the link; some of the queueing is its own")
        if not unkept:
            print(f"Record: howdah archive show {record.id}")
    if unkept:
        raise HowdahError(unkept[0])
    return done.exit_code


def traffic(
    *,
    pattern: str,
    host: str,
    lasting: float | None,
    dry_run: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Sends, and returns the exit code; what went wrong is one line on standard error."""
    from howdah import document, interrupt  # noqa: PLC0415
    from howdah.library.ended import ended  # noqa: PLC0415
    from howdah.library.traffic import carry_out, traffic_request  # noqa: PLC0415
    from howdah.text import printable  # noqa: PLC0415
    from howdah.words.traffic import display, summary  # noqa: PLC0415

    interrupt.install()
    request = traffic_request(pattern, host, sys.argv, for_s=lasting, far_howdah=far_howdah)
    if dry_run:
        if json:
            document.show(request.pattern)
        else:
            print(request.pattern.in_words())
        return 0
    done = ended(lambda: carry_out(request, display(request.pattern, silent=json or quiet)))
    if json:
        document.show(done.record)
    elif not quiet and done.record.traffic is not None:
        print(summary(done.record, kept=done.problems in ([], [done.record.error])))
    for problem in done.problems:
        print(f"howdah: {printable(problem)}", file=sys.stderr)
    return done.exit_code
