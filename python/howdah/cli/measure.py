"""The tables of ``howdah probe``, ``sweep`` and ``traffic``, and what ``probe`` does."""

from howdah.cli.table import FAR_HOWDAH, QUIET, Argument, Command, Option, as_json, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_RECORD = as_json("Print the record, and nothing else.")

COMMANDS = (
    Command(
        "probe",
        "Measure the round trip to a host: without a queue, how it spreads, how much of it is queueing.",
        run="measure.probe",
        rows={
            "What is measured": [
                Argument("HOST", "As ssh knows it, or an address.", key="host"),
                Option(
                    "--for TIME", "From 1s to 1h. Default: 10s, or as long as bursts take.", key="lasting"
                ),
                Option("--active", "Send bursts beside the probes."),
                Option("--bursts PATTERN.toml", "Other bursts than the default; see scenarios/.", kind=path),
                Option("--udp", "By UDP and not by ICMP echo."),
                FAR_HOWDAH,
            ],
            "Output": [_RECORD, QUIET],
        },
        examples="""\
howdah probe dtn2                base RTT, its spread, queueing and room, who is there: ten seconds
howdah probe --for 60s dtn2      for longer: a queue that is seldom empty, a route that changes
howdah probe --udp me@dtn2       by UDP, answered by howdah there, which ssh starts
howdah probe --active dtn2       with bursts of TCP beside the probes, 22 s: tells more, and costs
howdah probe 2001:db8::7 --json  the record, with the whole series""",
        notes="""\
ICMP echo needs nothing at the far end. Where it is not answered, UDP is tried over ssh. Either way some 110
probes a second of 64 bytes each go out, and as many come back. With --active, CUBIC, BBR, CUBIC and nothing
are sent to howdah there, 5 s each as fast as they can; the summary says how much that was.""",
    ),
    Command(
        "sweep",
        "Measure a path with many configurations: congestion controls, streams, buffers.",
        run="sweep_command.sweep_path",
        rows={
            "What is measured": [
                Argument("HOST|PLAN.toml", "A host as ssh knows it, or a plan.", key="what"),
                Option("--for TIME", "Of HOST: fit all runs into it, as 20min.", key="lasting"),
                Option("--dry-run", "Print the cells and the time they take; measure nothing."),
                Option("--beside-others", "Measure although another howdah is at work on this host."),
                FAR_HOWDAH,
            ],
            "Output": [
                as_json("Print what was done as JSON."),
                Option("-q, --quiet", "Print no line for each run."),
            ],
        },
        examples="""\
howdah sweep dtn2                         the path to a host: some minutes
howdah sweep dtn2 --for 20min             as much as fits in the time
howdah sweep dtn2 --dry-run               what would be measured, and how long it takes
howdah sweep scenarios/hpdc17-quick.toml  a plan, here in labs on this machine""",
        notes="""\
Each run goes from memory to memory and is a record in the archive, with its trace. A sweep that was stopped,
however that was, goes on when the same command is given again. A plan is TOML:

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
        run="traffic_command.traffic",
        rows={
            "What is sent": [
                Argument("PATTERN.toml", "What to send.", key="pattern"),
                Argument("HOST", "Where to, as ssh knows it.", key="host"),
                Option("--for TIME", "So long, whatever the pattern says.", key="lasting"),
                Option("--dry-run", "Print what would be sent; send nothing."),
                FAR_HOWDAH,
            ],
            "Output": [_RECORD, QUIET],
        },
        examples="""\
howdah traffic scenarios/traffic-bursty-udp-1-5.toml dtn2
howdah traffic scenarios/traffic-square-tcp.toml dtn2 --for 10min
howdah traffic pattern.toml dtn2 --dry-run  what it would send, and when""",
        notes="""\
A pattern is TOML, up to 8 loads side by side:

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

Traffic takes from whoever else is on the path, and UDP does not yield: send it where you may. docs/traffic.md
has every key. The far end needs howdah installed, and is started over ssh.""",
    ),
)


def probe(
    *,
    host: str,
    lasting: str | None,
    active: bool,
    bursts: "Path | None",
    udp: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Measures and returns the exit code. Raises HowdahError."""
    import sys  # noqa: PLC0415

    from howdah import HowdahError, document, interrupt  # noqa: PLC0415
    from howdah._native import parse_duration  # noqa: PLC0415
    from howdah.cli.ended import ended  # noqa: PLC0415
    from howdah.library.probe import ProbeRequest, carry_out  # noqa: PLC0415
    from howdah.words.probe import display, in_words  # noqa: PLC0415

    for_s = None if lasting is None else parse_duration(lasting) / 1e9
    request = ProbeRequest(host, for_s, udp, far_howdah, active or bursts is not None, bursts, sys.argv)
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
            print("warning: this machine was too slow for the link; part of the queueing is its own")
        if not unkept:
            print(f"Record: howdah archive show {record.id}")
    if unkept:
        raise HowdahError(unkept[0])
    return done.exit_code
