"""The tables of ``howdah doctor`` and ``cc``, which make a host ready, and what ``doctor`` does."""

from howdah._native import CC_PROGRAMS, HowdahError
from howdah.bounds import HELD_BPS, Bounds
from howdah.cli.table import FAR_HOWDAH, PORTS, Argument, Command, Option, as_json, duration, rate, share

_JSON = as_json()
_VERBOSE = Option("--verbose", "If the kernel refuses, also print its message.")


def _program(text: str) -> str:
    """The name of a program, with the kernel's prefix or without. Raises HowdahError."""
    if text.removeprefix("hd_") not in CC_PROGRAMS:
        raise HowdahError(f"{text} is not one of {', '.join(CC_PROGRAMS)}")
    return text


_NAME = Argument("NAME", f"One of {', '.join(CC_PROGRAMS)}.", key="name", kind=_program)
_RATE = Option(
    "--rate RATE",
    "The rate on the wire of each connection, as 400Mbit.",
    kind=rate,
    within=HELD_BPS,
    key="rate_bps",
)
_WINDOW = Option(
    "--window PACKETS",
    "The congestion window of each connection, in packets.",
    kind=int,
    within=Bounds(2, 2**28),
    key="window_packets",
)
_WHICH = (
    Option("--to PREFIX", "Connections to addresses in a prefix, as 10.9.0.0/16 or 2001:db8::/32."),
    Option("--ports A-B", "Connections with either port in a range, as 5000-5100 or 5201. Default: all."),
    Option(
        "--cgroup PATH",
        "Connections of processes in this cgroup or below it, as /system.slice/postgresql.service.",
    ),
    Option("--namespace INODE", "Connections in this network namespace, as lsns -t net lists it.", kind=int),
)

_LIST = Command(
    "list",
    "List the kernel's congestion controls and howdah's, loaded or not, with their connections.",
    text="Without root, only connections of this network namespace are counted.",
    run="cc_command.list_controls",
    rows={"Output": [_JSON]},
    examples="""\
howdah cc list
howdah cc list --json""",
)

_LOAD = Command(
    "load",
    "Load a program into the kernel, until it is unloaded or the host restarts. Needs root.",
    text="A program that is already loaded is replaced in place. Its connections go on under the new one. "
    "Parameters that you do not give then stay as they are. resume also gets what copies to each "
    "destination carried, from your archive (howdah archive paths).",
    run="cc_command.load",
    rows={
        "Which program": [
            _NAME,
            Option("--set PARAMETER=VALUE", "A parameter, as guard_loss=5%.", key="parameters", many=True),
        ],
        "Output": [_JSON, _VERBOSE],
    },
    examples="""\
howdah cc load scalable
howdah cc load resume
howdah cc load hold --set guard_loss=5% --set headroom=2%""",
    notes="Parameters with their defaults and ranges: howdah cc list --json, or docs/cc.md.",
)

_UNLOAD = Command(
    "unload",
    "Take a program out of the kernel. Needs root.",
    text="Its connections go on with the default control of their network namespace. A connection that "
    "cannot be reached keeps the program until it ends. No new connection gets it.",
    run="cc_command.unload",
    rows={"Which program": [_NAME], "Output": [_JSON, _VERBOSE]},
    examples="howdah cc unload scalable",
)

_SET = Command(
    "set",
    "Set the target of hold, or what resume uses for a destination. Needs root.",
    text="hold: open connections follow with their next ACKs. resume: new connections begin with what "
    "earlier ones carried. All streams that share it jump together, to half of it.",
    run="cc_command.set_target",
    rows={
        "What is set": [
            Argument("NAME", "The program to tune: hold or resume.", key="name", kind=_program),
            Option(
                "--rate RATE",
                "The rate of each connection on the wire (hold), or of payload in all (resume).",
                kind=rate,
                within=HELD_BPS,
                sets=["rate_bps"],
            ),
            _WINDOW,
            Option("--none", "No target any more (hold), or nothing for the destination any more (resume)."),
        ],
        "hold: which connections": [
            Option(
                "--flow [LOCAL-]REMOTE",
                "Only these connections, as 10.9.0.2:5201 or 10.9.0.1:40000-10.9.0.2:5201.",
            )
        ],
        "resume: the destination and its path": [
            Option("--to PREFIX", "Connections to this address, or to addresses in this prefix."),
            Option("--port PORT", "Connections with this port at either end. Default: all.", kind=int),
            Option("--namespace INODE", "Connections in this network namespace.", kind=int),
            Option("--rtt TIME", "The round-trip time without a queue, as 100ms.", kind=duration),
            Option("--streams N", "How many streams share the jump. Default: 1.", kind=int),
            Option(
                "--jump-part PART",
                "How much of it they jump to, as 50%. Default: as the parameter says.",
                kind=share,
            ),
            Option("--for TIME", "How long this is used, as 1h. Default: 1h.", key="valid", kind=duration),
            Option("--then CC", "The congestion control that goes on. Default: cubic."),
        ],
        "Output": [_JSON, _VERBOSE],
    },
    examples="""\
howdah cc set hold --rate 400Mbit
howdah cc set hold --window 738 --flow 10.9.0.2:5201
howdah cc set hold --none
howdah cc set resume --to 10.9.0.0/16 --rate 1Gbit --rtt 100ms
howdah cc set resume --to 10.9.0.0/16 --none""",
)

_STATUS = Command(
    "status",
    "Show what is loaded, with its parameters, targets, rules and connections. Needs root.",
    run="cc_command.status",
    rows={"Output": [_JSON, _VERBOSE]},
    examples="""\
howdah cc status
howdah cc status --json""",
)

_ATTACH = Command(
    "attach",
    "Give connections of any program on this host a congestion control, by process and by address.",
    text="Needs root. Open connections that match get it at once, and new ones when they are made, in "
    "either direction. All others keep theirs. It lasts until it is detached or the host restarts. Give "
    "--to, --cgroup or both.",
    run="cc_command.attach",
    rows={
        "Which connections": _WHICH,
        "What they get": [Option("--cc NAME", "The congestion control.", required=True), _RATE, _WINDOW],
        "Output": [_JSON, _VERBOSE],
    },
    examples="""\
howdah cc attach --to 10.9.0.0/16 --ports 5000-5100 --cc hold --rate 400Mbit
howdah cc attach --to 2001:db8::/32 --ports 22 --cc scalable
howdah cc attach --cgroup /system.slice/postgresql.service --cc hold --rate 50Mbit""",
)

_DETACH = Command(
    "detach",
    "End what attach began: connections get back the control they had. Needs root.",
    run="cc_command.detach",
    rows={"Which connections": _WHICH, "Output": [_JSON, _VERBOSE]},
    examples="howdah cc detach --to 10.9.0.0/16 --ports 5000-5100",
)

_CC = Command(
    "cc",
    "Load congestion controls into the running kernel, for any application.",
    commands={
        "Programs": [_LIST, _LOAD, _UNLOAD, _SET, _STATUS],
        "Connections of other programs": [_ATTACH, _DETACH],
    },
)

_DOCTOR = Command(
    "doctor",
    "Find what limits this host, say what each gap costs, and print the commands that close it.",
    text="The exit code is 1 if something limits a transfer to less than the rate (GAP), and else 0.",
    run="host.doctor",
    rows={
        "What is checked": [
            Argument("HOST", "A far host to check as well.", key="host", required=False),
            Option(
                "--rate RATE",
                "The rate that transfers should reach.",
                kind=rate,
                default="10Gbit",
                sets=["rate_bps"],
            ),
            Option(
                "--rtt TIME",
                "The round trip of the path. Default: measured to HOST, or else 100ms.",
                kind=duration,
                sets=["rtt_s"],
            ),
            FAR_HOWDAH,
            PORTS,
        ],
        "Output": [as_json("Print the report as JSON.")],
    },
)

COMMANDS = (_DOCTOR, _CC)


def doctor(
    *,
    host: str | None,
    rate: int,
    rtt: float | None,
    far_howdah: str | None,
    ports: tuple[int, int] | None,
    json: bool,
) -> int:
    """Prints the report and returns the exit code. Raises HowdahError."""
    from howdah import document, interrupt  # noqa: PLC0415
    from howdah.library.doctor import examine  # noqa: PLC0415
    from howdah.words.doctor import in_words  # noqa: PLC0415

    interrupt.install()
    report = examine(host, rate_bps=rate, rtt_s=rtt, far_howdah=far_howdah, ports=ports)
    if json:
        document.show(report)
    else:
        print(in_words(document.strange(report)))
    return 0 if report.ready else 1
