"""``howdah control``: guaranteed paths, their controller, their agents, and what people do with them."""

import getpass
import re
import socket
import sys
from math import ceil
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from howdah import HowdahError, document, interrupt
from howdah._native import parse_duration
from howdah.cli import control_command as command
from howdah.cli.control_command import Here
from howdah.control.bus import Access
from howdah.control.bus.access import login
from howdah.control.http import tokens
from howdah.control.http.address import DEFAULT_ADDRESS, Listening
from howdah.control.http.client import Client
from howdah.words import control as shown

app = typer.Typer(
    help="Paths whose rate is guaranteed: a controller gives every flow its share of it, live.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
urgent = typer.Typer(
    help="Ask for a class, so that it gets its share, and stop asking.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(urgent, name="urgent")

_SERVERS = "nats://HOST:PORT[,…]"
_ADDRESSES = """
\b
ADDRESS is HOST:PORT, or a URL for TLS. Without it: HOWDAH_CONTROL, else 127.0.0.1:7310.
A controller that asks for a token finds it in HOWDAH_CONTROL_TOKEN.
"""

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Address = Annotated[
    str | None, typer.Option("--at", metavar="ADDRESS", help="Of the controller", show_default=False)
]
ClassName = Annotated[str, typer.Argument(metavar="CLASS", help="As the policy calls it", show_default=False)]
HostName = Annotated[str, typer.Argument(metavar="HOST", help="As the policy calls it", show_default=False)]
Who = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Who asks; each who does must stop. Default: user and host", show_default=False
    ),
]
OnlyHost = Annotated[
    str | None,
    typer.Option("--host", metavar="HOST", help="Only for this one. Default: all", show_default=False),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME[=NETNS]",
        help="A host of the policy that this machine is, or that one of its network namespaces stands for. "
        "Default: this machine's name",
        show_default=False,
    ),
]
Credentials = Annotated[
    Path | None, typer.Option("--creds", metavar="FILE", help="For NATS: JWT and nkey, as nsc writes them")
]
Login = Annotated[
    Path | None,
    typer.Option("--nats-login", metavar="FILE", help="For NATS: USER:PASSWORD, readable by its owner alone"),
]
Nkey = Annotated[Path | None, typer.Option(metavar="FILE", help="For NATS: the seed of an nkey")]
Authority = Annotated[
    Path | None,
    typer.Option("--nats-ca", metavar="FILE", help="For NATS: whom to trust for its certificate, PEM"),
]
Certificate = Annotated[
    Path | None, typer.Option("--nats-cert", metavar="FILE", help="For NATS: a client's certificate, PEM")
]
CertificateKey = Annotated[
    Path | None, typer.Option("--nats-key", metavar="FILE", help="For NATS: the private key of it, PEM")
]


@app.command()
def serve(
    policy: Annotated[
        Path, typer.Argument(metavar="POLICY.toml", help="docs/control.md has every key", show_default=False)
    ],
    *,
    host: Hosts = None,
    nats: Annotated[
        str | None,
        typer.Option(
            metavar=_SERVERS,
            help="The bus to agents elsewhere and to other controllers, of which one leads",
            envvar="HOWDAH_NATS",
            show_default=False,
        ),
    ] = None,
    nats_login: Login = None,
    creds: Credentials = None,
    nkey: Nkey = None,
    nats_ca: Authority = None,
    nats_cert: Certificate = None,
    nats_key: CertificateKey = None,
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="Of the API and the page")] = DEFAULT_ADDRESS,
    token_file: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="Who may read and operate; needed beyond loopback"),
    ] = None,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="For HTTPS, PEM")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of it, PEM")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Tokens in the clear: something else encrypts")
    ] = False,
    json: Json = False,
) -> None:
    """Give the flows of a policy their shares, until stopped: then every host is as it was before.

    Without --nats the agents of this machine run in the same process. Needs root for agents.

    \b
    Examples:
      howdah control serve shares.toml
      howdah control serve shares.toml --host base20=/run/netns/base20 --host base21=/run/netns/base21
      howdah control serve shares.toml --nats nats://bus:4222
    """
    listening = Listening(address=listen, tokens=token_file, certificate=cert, key=key, plain=plain)
    user, password = login(nats_login) if nats_login else (None, None)
    access = Access(
        user=user,
        password=password,
        nkey=nkey,
        credentials=creds,
        ca=nats_ca,
        certificate=nats_cert,
        key=nats_key,
    )
    command.run_controller(policy, listening, Here(hosts=host or [], servers=nats, access=access, json=json))


@app.command()
def agent(
    *,
    controller: Annotated[
        str,
        typer.Option(
            metavar=_SERVERS, help="The bus its controllers are on", envvar="HOWDAH_NATS", show_default=False
        ),
    ],
    host: Hosts = None,
    nats_login: Login = None,
    creds: Credentials = None,
    nkey: Nkey = None,
    nats_ca: Authority = None,
    nats_cert: Certificate = None,
    nats_key: CertificateKey = None,
    json: Json = False,
) -> None:
    """Hold this host's shares as its controller says, until stopped: then it is as before. Needs root.

    When it is killed, what is in force stays so until the lease runs out.

    \b
    Examples:
      howdah control agent --controller nats://bus:4222
      howdah control agent --controller tls://bus:4222 --creds base20.creds --host base20
    """
    user, password = login(nats_login) if nats_login else (None, None)
    access = Access(
        user=user,
        password=password,
        nkey=nkey,
        credentials=creds,
        ca=nats_ca,
        certificate=nats_cert,
        key=nats_key,
    )
    command.run_agents(Here(hosts=host or [], servers=controller, access=access, json=json))


@app.command(epilog=_ADDRESSES)
def status(at: Address = None, json: Json = False) -> None:
    """Print who has what, and what each really sends.

    \b
    Examples:
      howdah control status
      howdah control status --at https://control.example:7310 --json
    """
    found = Client(at).status()
    if json:
        document.show(found)
    else:
        Console(soft_wrap=True).print(shown.shown(document.strange(found)), highlight=False)


@app.command(epilog=_ADDRESSES)
def watch(at: Address = None, json: Json = False) -> None:
    """Show the status as it changes, until stopped; with --json a line each.

    \b
    Examples:
      howdah control watch
      howdah control watch --json | jq '.flows[] | [.flow, .sent_bps]'
    """
    interrupt.install()
    statuses = Client(at).watch()
    if json:
        for each in statuses:
            sys.stdout.buffer.write(document.line(each))
            sys.stdout.flush()
        return
    with Live(auto_refresh=False, console=Console(highlight=False)) as live:
        for each in statuses:
            live.update(shown.shown(document.strange(each)), refresh=True)


@urgent.command(epilog=_ADDRESSES)
def start(
    name: ClassName,
    *,
    lasting: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="As 90s. Default: until stopped", show_default=False),
    ] = None,
    host: OnlyHost = None,
    who: Who = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it is in force")] = False,
    at: Address = None,
    json: Json = False,
) -> None:
    """Ask for CLASS: it gets what the policy gives it while it is asked for.

    \b
    Examples:
      howdah control urgent start images
      howdah control urgent start images --for 60s --wait
      howdah control urgent start images --host base20
    """
    for_s = None if lasting is None else ceil(parse_duration(lasting) / 1e9)
    client, asking = Client(at), who or _myself(host)
    revision = client.ask(name, asking, for_s, host)
    if wait and revision is not None:
        _await(client, revision)
    _done(json, revision, f"{name}{f' on {host}' if host else ''} is asked for by {asking}")


@urgent.command(epilog=_ADDRESSES)
def stop(
    name: ClassName, *, host: OnlyHost = None, who: Who = None, at: Address = None, json: Json = False
) -> None:
    """Ask for CLASS no longer; others may still.

    \b
    Examples:
      howdah control urgent stop images
      howdah control urgent stop images --host base20
    """
    asking = who or _myself(host)
    _done(json, Client(at).release(name, asking), f"{name} is not asked for by {asking} any more")


@app.command("set", epilog=_ADDRESSES)
def set_terms(
    name: ClassName,
    *,
    fixed: Annotated[
        str | None, typer.Option(metavar="SHARE", help="5% or 50Mbit: minimum and maximum")
    ] = None,
    minimum: Annotated[str | None, typer.Option(metavar="SHARE")] = None,
    maximum: Annotated[str | None, typer.Option(metavar="SHARE")] = None,
    weight: Annotated[int | None, typer.Option(metavar="N")] = None,
    priority: Annotated[int | None, typer.Option(metavar="N")] = None,
    restore: Annotated[bool, typer.Option("--restore", help="As in the policy file again")] = False,
    at: Address = None,
    json: Json = False,
) -> None:
    """Give CLASS other terms than the policy file, in place of those set before.

    \b
    Examples:
      howdah control set background --maximum 50%
      howdah control set background --restore
    """
    given = {"fixed": fixed, "minimum": minimum, "maximum": maximum, "weight": weight, "priority": priority}
    terms = {key: value for key, value in given.items() if value is not None}
    if bool(terms) == restore:
        raise HowdahError(f"say what to set for {name}, as --maximum 50%, or --restore")
    if restore:
        _done(json, Client(at).restore(name), f"{name} is as in the policy file again")
    else:
        words = ", ".join(f"{key} {value}" for key, value in terms.items())
        _done(json, Client(at).change(name, terms), f"{name} has {words}")


@app.command(epilog=_ADDRESSES)
def drain(host: HostName, *, at: Address = None, json: Json = False) -> None:
    """Leave HOST with its minimums, and give the rest to others.

    \b
    Example:
      howdah control drain base21
    """
    _done(json, Client(at).drain(host), f"{host} is drained")


@app.command(epilog=_ADDRESSES)
def undrain(host: HostName, *, at: Address = None, json: Json = False) -> None:
    """Give HOST its shares again.

    \b
    Example:
      howdah control undrain base21
    """
    _done(json, Client(at).undrain(host), f"{host} has its shares again")


@app.command()
def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is", show_default=False)],
    *,
    role: Annotated[Literal["read", "operate"], typer.Option(help="What it allows")] = "read",
    json: Json = False,
) -> None:
    """Make a token, and its entry for the file of ``serve --tokens``, which holds no secret.

    \b
    Example:
      howdah control token scheduler --role operate
    """
    secret, table = tokens.make(name, role)
    if json:
        document.show({"token": secret, "entry": table})
    else:
        typer.echo(f"{secret}\n\nFor the file of tokens:\n\n{table}", nl=False)


class _Ordered(msgspec.Struct):
    """What orders print with ``--json``."""

    revision: int | None


def _done(json: bool, revision: int | None, words: str) -> None:
    if json:
        document.show(_Ordered(revision))
    else:
        typer.echo(words)


def _await(client: Client, revision: int) -> None:
    for each in client.watch():
        if each.settled and each.revision >= revision:
            return


def _myself(host: str | None) -> str:
    """Who asks, apart for each host that is asked for."""
    me = f"{getpass.getuser()}-{socket.gethostname()}" + (f"={host}" if host else "")
    return re.sub(r"[^-_=A-Za-z0-9]", "-", me)[:64]
