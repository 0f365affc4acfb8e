"""The table of ``howdah control``."""

from howdah.cli.table import Argument, Command, Option, as_json, path

_SERVERS = "nats://HOST:PORT[,…]"
_JSON = as_json()
_AT = Option("--at ADDRESS", "The address of the controller.")
_ADDRESSES = """\
ADDRESS is HOST:PORT, or a URL for TLS. Without it: HOWDAH_CONTROL, else 127.0.0.1:7310. A controller that
asks for a token finds it in HOWDAH_CONTROL_TOKEN."""
_CLASS = Argument("CLASS", "The class, as the policy calls it.", key="name")
_HOST = Argument("HOST", "The host, as the policy calls it.", key="host")
_WHOSE = (
    Option("--host HOST", "Only for this host. Default: all."),
    Option("--who NAME", "Who asks; each who does must stop. Default: user and host."),
)
_HOSTS = Option(
    "--host NAME[=NETNS]",
    "A host of the policy that this machine is, or that one of its network namespaces stands for. "
    "Default: this machine's name.",
    many=True,
)
_LOGIN = (
    Option("--nats-login FILE", "USER:PASSWORD, readable by its owner alone.", kind=path),
    Option("--creds FILE", "JWT and nkey, as nsc writes them.", kind=path),
    Option("--nkey FILE", "The seed of an nkey.", kind=path),
    Option("--nats-ca FILE", "Whom to trust for the servers' certificate, PEM.", kind=path),
    Option("--nats-cert FILE", "A client's certificate, PEM.", kind=path),
    Option("--nats-key FILE", "The private key of it, PEM.", kind=path),
)
_BUS = "The bus (NATS)"

_RUN = (
    Command(
        "serve",
        "Give the flows of a policy their shares, until stopped: then every host is as it was before.",
        text="Without --nats the agents of this machine run in the same process. Needs root for agents.",
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
                    "The bus to agents elsewhere and to other controllers, of which one leads.",
                    environment="HOWDAH_NATS",
                ),
                *_LOGIN,
            ],
            "The API and the page": [
                Option("--listen ADDRESS", "Where they are served.", default="127.0.0.1:7310"),
                Option("--tokens FILE", "Who may read and operate; needed beyond loopback.", kind=path),
                Option("--cert FILE", "The certificate for HTTPS, PEM.", kind=path),
                Option("--key FILE", "The private key of it, PEM.", kind=path),
                Option("--plain", "Tokens in the clear: something else encrypts."),
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
        "Hold this host's shares as its controller says, until stopped: then it is as before. Needs root.",
        text="When it is killed, what is in force stays so until the lease runs out.",
        run="control_command.agent",
        rows={
            "Whose agent": [_HOSTS],
            _BUS: [
                Option(
                    f"--controller {_SERVERS}",
                    "The bus that its controllers are on.",
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
        "Make a token, and its entry for the file of serve --tokens, which holds no secret.",
        run="control_command.token",
        rows={
            "The token": [
                Argument("NAME", "Whose it is.", key="name"),
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
        "Print who has what, and what each really sends.",
        run="control_command.status",
        rows={"The controller": [_AT], "Output": [_JSON]},
        examples="""\
howdah control status
howdah control status --at https://control.example:7310 --json""",
        notes=_ADDRESSES,
    ),
    Command(
        "watch",
        "Show the status as it changes, until stopped; with --json a line each.",
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
    "Ask for CLASS no longer; others may still.",
    run="control_command.stop",
    rows={"What is not asked for": [_CLASS, *_WHOSE], "The controller": [_AT], "Output": [_JSON]},
    examples="""\
howdah control urgent stop images
howdah control urgent stop images --host base20""",
    notes=_ADDRESSES,
)

_START = Command(
    "start",
    "Ask for CLASS: it gets what the policy gives it while it is asked for.",
    run="control_command.start",
    rows={
        "What is asked for": [
            _CLASS,
            Option("--for TIME", "How long, as 90s. Default: until stopped.", key="lasting"),
            *_WHOSE,
            Option("--wait", "Return when it is in force."),
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
    "Ask for a class, so that it gets its share, and stop asking.",
    commands={"Commands": [_START, _STOP]},
)

_ORDER = (
    _URGENT,
    Command(
        "set",
        "Give CLASS other terms than the policy file, in place of those set before.",
        run="control_command.set_terms",
        rows={
            "What is set": [
                _CLASS,
                Option("--fixed SHARE", "Minimum and maximum, as 5% or 50Mbit."),
                Option("--minimum SHARE", "The least that it has, as 5% or 50Mbit."),
                Option("--each SHARE", "The least that each of its flows has, as 5% or 50Mbit."),
                Option("--maximum SHARE", "The most that it has, as 5% or 50Mbit."),
                Option("--weight N", "Its part of what is left, beside the weights of others.", kind=int),
                Option("--priority N", "Before whom it is served.", kind=int),
                Option("--restore", "As in the policy file again."),
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
        "Leave HOST with its minimums, and give the rest to others.",
        run="control_command.drain",
        rows={"What is drained": [_HOST], "The controller": [_AT], "Output": [_JSON]},
        examples="howdah control drain base21",
        notes=_ADDRESSES,
    ),
    Command(
        "undrain",
        "Give HOST its shares again.",
        run="control_command.undrain",
        rows={"What is not drained": [_HOST], "The controller": [_AT], "Output": [_JSON]},
        examples="howdah control undrain base21",
        notes=_ADDRESSES,
    ),
)

COMMANDS = (
    Command(
        "control",
        "Guarantee the rates of a path: a controller gives every flow its share of it, live.",
        commands={"Run it": _RUN, "Look at it": _LOOK, "Give it orders": _ORDER},
    ),
)
