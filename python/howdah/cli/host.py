"""The tables of ``howdah doctor`` and ``cc``, which make a host ready, and what ``doctor`` does."""

from howdah._native import CC_PROGRAMS
from howdah.cli.table import FAR_HOWDAH, PORTS, Argument, Command, Option, as_json

_JSON = as_json()
_VERBOSE = Option("--verbose", "When the kernel refuses, print what it said as well.")
_NAME = Argument("NAME", f"One of {', '.join(CC_PROGRAMS)}.", key="name")
_RATE = Option("--rate RATE", "The rate on the wire of each connection, as 400Mbit.")
_WINDOW = Option("--window PACKETS", "The packets in flight of each connection.", kind=int)
_WHICH = (
    Option("--to PREFIX", "Those to far ends in a prefix, as 10.9.0.0/16 or 2001:db8::/32."),
    Option("--ports A-B", "Those with a port of either end in a range, as 5000-5100 or 5201. Default: all."),
    Option(
        "--cgroup PATH", "Those of processes in this cgroup or below it, as /system.slice/postgresql.service."
    ),
    Option("--namespace INODE", "Those in this network namespace, as lsns -t net lists it.", kind=int),
)

_LIST = Command(
    "list",
    "List the kernel's congestion controls and howdah's, loaded or not, with their connections.",
    text="Without root, connections of this network namespace alone are counted.",
    run="cc_command.list_controls",
    rows={"Output": [_JSON]},
    examples="""\
howdah cc list
howdah cc list --json""",
)

_LOAD = Command(
    "load",
    "Load a program into the kernel, until it is unloaded or the host restarts. Needs root.",
    text="One that is loaded is swapped in place: its connections go on under the new program. "
    "Parameters not given then stay as they are.",
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
howdah cc load hold --set guard_loss=5% --set headroom=2%""",
    notes="Parameters, their defaults and ranges are in: howdah cc list --json; in words in docs/cc.md.",
)

_UNLOAD = Command(
    "unload",
    "Take a program out of the kernel. Needs root.",
    text="Connections on it go on with the default control of their network namespace. One that cannot "
    "be reached keeps the program until it ends, but no new one gets it.",
    run="cc_command.unload",
    rows={"Which program": [_NAME], "Output": [_JSON, _VERBOSE]},
    examples="howdah cc unload scalable",
)

_SET = Command(
    "set",
    "Set what hold holds, for each connection or for those of --flow. Needs root.",
    text="Live connections follow with their next ACKs.",
    run="cc_command.set_target",
    rows={
        "What is held": [
            Argument("hold", "The program to tune.", key="name"),
            _RATE,
            _WINDOW,
            Option("--none", "Hold nothing: an ordinary control."),
        ],
        "Which connections": [
            Option("--flow [LOCAL-]REMOTE", "Only these, as 10.9.0.2:5201 or 10.9.0.1:40000-10.9.0.2:5201.")
        ],
        "Output": [_JSON, _VERBOSE],
    },
    examples="""\
howdah cc set hold --rate 400Mbit
howdah cc set hold --window 738 --flow 10.9.0.2:5201
howdah cc set hold --none""",
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
    "Give connections of any program on this host a congestion control, by whose they are and where they go.",
    text="Needs root. New connections get it when they are made, in either direction; those that live "
    "are moved. All others keep theirs. It lasts until it is detached or the host restarts. Give --to, "
    "--cgroup or both.",
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
    "Load congestion control as programs into the running kernel, for any application.",
    commands={
        "Programs": [_LIST, _LOAD, _UNLOAD, _SET, _STATUS],
        "Connections of other programs": [_ATTACH, _DETACH],
    },
)

_DOCTOR = Command(
    "doctor",
    "Say what this host can and cannot do, what each gap costs, and the lines that mend it.",
    text="Exits with 0 when nothing found holds a transfer below the rate, with 1 when something does (GAP).",
    run="host.doctor",
    rows={
        "What is judged": [
            Argument("HOST", "A far host to look at as well.", key="host", required=False),
            Option("--rate RATE", "The rate to judge for.", default="10Gbit"),
            Option("--rtt TIME", "The round trip to judge for. Default: measured to HOST, else 100ms."),
            FAR_HOWDAH,
            PORTS,
        ],
        "Output": [as_json("Print the report as JSON.")],
    },
)

COMMANDS = (_DOCTOR, _CC)


def doctor(
    *, host: str | None, rate: str, rtt: str | None, far_howdah: str | None, ports: str | None, json: bool
) -> int:
    """Prints the report and returns the exit code. Raises HowdahError."""
    from howdah import document, interrupt  # noqa: PLC0415
    from howdah._native import parse_duration, parse_rate  # noqa: PLC0415
    from howdah.cli.cp import ports_of  # noqa: PLC0415
    from howdah.library.doctor import examine  # noqa: PLC0415
    from howdah.words.doctor import in_words  # noqa: PLC0415

    interrupt.install()
    rtt_s = None if rtt is None else parse_duration(rtt) / 1e9
    report = examine(
        host, rate_bps=parse_rate(rate), rtt_s=rtt_s, far_howdah=far_howdah, ports=ports_of(ports)
    )
    if json:
        document.show(report)
    else:
        print(in_words(document.strange(report)))
    return 0 if report.ready else 1
