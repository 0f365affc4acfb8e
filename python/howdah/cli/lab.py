"""The table of ``howdah lab``."""

from howdah.cli.table import Argument, Command, Option, as_json, path

_LINK = (
    Option("--rate RATE", "The rate on the wire, as 10Gbit. Default: not shaped."),
    Option("--rtt TIME", "The round trip, half each way. Default: 0ms."),
    Option(
        "--queue SIZE",
        "The drop-tail queue, as 6MB on the wire or as 0.5BDP (rate × RTT). Default: 1BDP.",
    ),
    Option("--loss SHARE", "The share of wire segments lost, each independently, as 0.01% or 1e-4."),
    Option(
        "--burst-loss ENTER,LEAVE",
        "Bursts of loss (Gilbert–Elliott), per wire segment, as 0.001%,20%[,BAD[,GOOD]].",
    ),
    Option("--jitter TIME", "Jitter on top of the delay; it never reorders."),
    Option("--mtu BYTES", "The largest packet. Default: 1500.", kind=int),
    Option(
        "--frame-overhead SIZE", "Bytes on the wire for each packet beside itself. Default: Ethernet's 38B."
    ),
    Option("--seed N", "The seed of loss and jitter. Default: 1.", kind=int),
)
_HOSTS = (
    Option(
        "--topology pair|dumbbell", "Two hosts on the link, or a LAN of hosts on each side. Default: pair."
    ),
    Option("--left HOSTS", "Hosts of the near side: a number, or names with commas. Default: 1."),
    Option("--right HOSTS", "Hosts of the far side. With one host, a dumbbell is a star. Default: 1."),
    Option("--lan-rate RATE", "The rate of each host's cable, on the wire. Default: not shaped."),
    Option("--sshd", "Run OpenSSH on the far host, or on all hosts of a dumbbell; `ssh far` just works."),
    Option(
        "--cc NAME",
        "The congestion control of sockets that choose none. Load howdah's own first. Default: cubic.",
        sets=["congestion_control"],
    ),
    Option("--schedule FILE", "The lab and its changes over time, as TOML. Options override it.", kind=path),
)
_NOTES = """\
Rate, queue, loss and jitter take one value for both directions, or two with a comma: near to far, then far to
near.

FILE is TOML with the same keys. It can also say what options cannot:

  rate = "10Gbit"
  rtt = "100ms"
  burst = { enter = "0.001%", leave = "20%" }
  topology = "dumbbell"
  left = ["base20", "base21"]
  [far_to_near]              # or near_to_far: overrides the above
  delay = "80ms"             # one way
  [[change]]                 # any number, in the order of time
  at = "5s"
  direction = "near_to_far"  # without: both
  outage = true              # or rate, delay, loss, burst, drop = 1"""
_NAME = Argument("NAME", "The lab's name.", key="name")
_COMMAND = Argument("COMMAND", "A program and its arguments.", key="command", many=True)
_JSON = as_json()

_RUN = Command(
    "run",
    "Make a lab, run COMMAND on its near host, and remove the lab.",
    text="The far host is called far, and HOWDAH_FAR is its address. In a dumbbell it is the first host on "
    "the right. The exit code is COMMAND's. Nothing is left behind. A signal is passed on to COMMAND; a "
    "second one, or 5 s after the first, kills it.",
    run="lab_command.run",
    runs_another=True,
    rows={
        "What runs": [_COMMAND, Option("--host NAME", "Where COMMAND runs. Default: the first on the left.")],
        "The link": _LINK,
        "The hosts": _HOSTS,
        "Output": [
            Option("--stats", "At the end, print the link's statistics to stderr."),
            Option("--json-stats FILE", "At the end, write them as JSON; - is stdout."),
        ],
    },
    examples="""\
howdah lab run --rate 10Gbit --rtt 100ms -- sh -c 'ping -c 3 $HOWDAH_FAR'
howdah lab run --rate 1Gbit --rtt 20ms --sshd -- scp -r data far:/tmp
howdah lab run --rate 1Gbit,100Mbit --loss 0.01% --stats -- ./experiment
howdah lab run --rate 1Gbit --rtt 183ms --cc scalable -- ./experiment
howdah lab run --topology dumbbell --left 4 --rate 1Gbit --rtt 20ms --host left2 -- ping -c 3 right1""",
    notes=_NOTES,
)

_UP = Command(
    "up",
    "Make a lab that stays until howdah lab down NAME.",
    run="lab_command.up",
    rows={"Which lab": [_NAME], "The link": _LINK, "The hosts": _HOSTS, "Output": [_JSON]},
    examples="""\
howdah lab up wan --rate 10Gbit --rtt 100ms --sshd
howdah lab up star --topology dumbbell --left base20,base21 --right arch --rate 1Gbit --rtt 180ms --sshd""",
    notes=_NOTES,
)

_EXEC = Command(
    "exec",
    "Run COMMAND on one of a lab's hosts or routers; the exit code is COMMAND's.",
    run="lab_command.execute",
    runs_another=True,
    rows={
        "What runs": [_NAME, Argument("HOST", "near, far, left1, … or left-router.", key="host"), _COMMAND]
    },
    examples="howdah lab exec wan far -- iperf3 -s",
)

_STATS = Command(
    "stats",
    "Show what a lab's link has carried, dropped and queued.",
    run="lab_command.show_stats",
    rows={"Which lab": [_NAME], "Output": [_JSON]},
)

_LIST = Command("list", "List the labs that are up.", run="lab_command.list_labs", rows={"Output": [_JSON]})

_DOWN = Command(
    "down",
    "End a lab and everything that runs in it.",
    run="lab_command.down",
    rows={"Which lab": [_NAME], "Output": [_JSON]},
)

COMMANDS = (
    Command(
        "lab",
        "Emulate hosts and a long link between them on this machine, over real TCP.",
        commands={"For one command": [_RUN], "For several commands": [_UP, _EXEC, _STATS, _LIST, _DOWN]},
    ),
)
