"""The table of ``howdah control``."""

from howdah.bounds import ASKED_S, PRIORITY, WEIGHT
from howdah.cli.table import Argument, Command, Option, as_json, duration, path

_SERVERS = "nats://HOST:PORT[,…]"
_JSON = as_json()
_AT = Option("--at ADDRESS", "The address of the controller.")
_ADDRESSES = """\
ADDRESS is HOST:PORT, or a URL for TLS. Default: HOWDAH_CONTROL, or else 127.0.0.1:7310. If the
controller needs a token, put it into HOWDAH_CONTROL_TOKEN."""
_CLASS = Argument("CLASS", "The name of the class in the policy.", key="name")
_HOST = Argument("HOST", "The name of the host in the policy.", key="host")
_WHOSE = (
    Option("--host HOST", "Only for this host. Default: all."),
    Option("--who NAME", "A name for the request; stop needs the same. Default: user and host."),
)
_HOSTS = Option(
    "--host NAME[=NETNS]",
    "The host of the policy that this machine, or its network namespace NETNS, stands for. "
    "Default: this machine's name.",
    many=True,
    sets=["hosts"],
)
_LOGIN = (
    Option("--nats-login FILE", "USER:PASSWORD. Only its owner may read the file.", kind=path),
    Option("--creds FILE", "JWT and nkey, as nsc writes them.", kind=path),
    Option("--nkey FILE", "The seed of an nkey.", kind=path),
    Option("--nats-ca FILE", "The CA that signed the servers' certificate, PEM.", kind=path),
    Option("--nats-cert FILE", "A client's certificate, PEM.", kind=path),
    Option("--nats-key FILE", "Its private key, PEM.", kind=path),
)
_BUS = "The bus (NATS)"

_RUN = (
    Command(
        "serve",
        "Give each flow of a policy its share until stopped, then put every host back as it was.",
        text="Without --nats, the agents of this machine run in the same process. Agents need root.",
        run="control_command.serve_policy",
        rows={
            "What is served": [
                Argument(
                    "POLICY.toml", "The policy; docs/control.md has every key.", key="policy", kind=path
                ),
                _HOSTS,
            ],
            _BUS: [
                Option(
                    f"--nats {_SERVERS}",
                    "The bus to agents on other hosts and to other controllers. One controller leads.",
                    environment="HOWDAH_NATS",
                    sets=["servers"],
                ),
                *_LOGIN,
            ],
            "The API and the page": [
                Option(
                    "--listen ADDRESS", "The address of both.", default="127.0.0.1:7310", sets=["address"]
                ),
                Option(
                    "--tokens FILE",
                    "Tokens that allow reading or operating. Required beyond loopback.",
                    kind=path,
                ),
                Option("--cert FILE", "The certificate for HTTPS, PEM.", kind=path, sets=["certificate"]),
                Option("--key FILE", "Its private key, PEM.", kind=path),
                Option("--plain", "Accept tokens without TLS. Only where something else encrypts."),
            ],
            "Output": [_JSON],
        },
        examples="""\
howdah control serve shares.toml
howdah control serve shares.toml --host base20=/run/netns/base20 --host base21=/run/netns/base21
howdah control serve shares.toml --nats nats://bus:4222""",
    ),
    Command(
        "agent",
        "Keep this host's flows to their shares until stopped, then put the host back as it was. Needs root.",
        text="If it is killed, its shares stay in force until the lease runs out.",
        run="control_command.agent",
        rows={
            "Whose agent": [_HOSTS],
            _BUS: [
                Option(
                    f"--controller {_SERVERS}",
                    "The bus of its controllers.",
                    environment="HOWDAH_NATS",
                    required=True,
                ),
                *_LOGIN,
            ],
            "Output": [_JSON],
        },
        examples="""\
howdah control agent --controller nats://bus:4222
howdah control agent --controller tls://bus:4222 --creds base20.creds --host base20""",
    ),
    Command(
        "token",
        "Make a token, and its entry for the file of serve --tokens. The entry has no secret in it.",
        run="control_command.token",
        rows={
            "The token": [
                Argument("NAME", "The name of its owner.", key="name"),
                Option("--role ROLE", "What it allows.", choices=("read", "operate"), default="read"),
            ],
            "Output": [_JSON],
        },
        examples="howdah control token scheduler --role operate",
    ),
)

_LOOK = (
    Command(
        "status",
        "Print each flow's share, and the rate that it really sends.",
        run="control_command.status",
        rows={"The controller": [_AT], "Output": [_JSON]},
        examples="""\
howdah control status
howdah control status --at https://control.example:7310 --json""",
        notes=_ADDRESSES,
    ),
    Command(
        "watch",
        "Show the status as it changes, until stopped. --json prints a line for each change.",
        run="control_command.watch",
        rows={"The controller": [_AT], "Output": [_JSON]},
        examples="""\
howdah control watch
howdah control watch --json | jq '.flows[] | [.flow, .sent_bps]'""",
        notes=_ADDRESSES,
    ),
)

_STOP = Command(
    "stop",
    "Stop asking for CLASS. Requests of others stay.",
    run="control_command.stop",
    rows={"What is no longer asked for": [_CLASS, *_WHOSE], "The controller": [_AT], "Output": [_JSON]},
    examples="""\
howdah control urgent stop images
howdah control urgent stop images --host base20""",
    notes=_ADDRESSES,
)

_START = Command(
    "start",
    "Ask for CLASS. While it is asked for, the policy gives it its full share.",
    run="control_command.start",
    rows={
        "What is asked for": [
            _CLASS,
            Option(
                "--for TIME",
                "How long, as 90s. Default: until stopped.",
                key="lasting",
                kind=duration,
                within=ASKED_S,
            ),
            *_WHOSE,
            Option(
                "--wait",
                "Wait until it is in force, at most until the request ends. Only at the leader.",
            ),
        ],
        "The controller": [_AT],
        "Output": [_JSON],
    },
    examples="""\
howdah control urgent start images
howdah control urgent start images --for 60s --wait
howdah control urgent start images --host base20""",
    notes=_ADDRESSES,
)

_URGENT = Command(
    "urgent",
    "Ask for a class so that it gets its share, or stop asking.",
    commands={"Commands": [_START, _STOP]},
)

_ORDER = (
    _URGENT,
    Command(
        "set",
        "Give CLASS other terms than the policy file's. They replace terms set before.",
        run="control_command.set_terms",
        rows={
            "What is set": [
                _CLASS,
                Option("--fixed SHARE", "Minimum and maximum in one, as 5% or 50Mbit."),
                Option("--minimum SHARE", "The rate that it may always send, as 5% or 50Mbit."),
                Option("--maximum SHARE", "The most that it gets, as 5% or 50Mbit."),
                Option(
                    "--weight N",
                    "Its part beside classes of the same priority: twice the weight, twice the share.",
                    kind=int,
                    within=WEIGHT,
                ),
                Option(
                    "--priority N",
                    "Classes of higher priority get their shares first.",
                    kind=int,
                    within=PRIORITY,
                ),
                Option("--restore", "Go back to the terms of the policy file."),
            ],
            "The controller": [_AT],
            "Output": [_JSON],
        },
        examples="""\
howdah control set background --maximum 50%
howdah control set background --restore""",
        notes=_ADDRESSES,
    ),
    Command(
        "drain",
        "Reduce HOST to its minimums, and give the rest to others.",
        run="control_command.drain",
        rows={"What is drained": [_HOST], "The controller": [_AT], "Output": [_JSON]},
        examples="howdah control drain base21",
        notes=_ADDRESSES,
    ),
    Command(
        "undrain",
        "Give HOST its shares again.",
        run="control_command.undrain",
        rows={"What is no longer drained": [_HOST], "The controller": [_AT], "Output": [_JSON]},
        examples="howdah control undrain base21",
        notes=_ADDRESSES,
    ),
)

COMMANDS = (
    Command(
        "control",
        "Guarantee rates on a path: a controller gives each flow its share while it runs.",
        commands={"Run it": _RUN, "Look at it": _LOOK, "Give it orders": _ORDER},
    ),
)
