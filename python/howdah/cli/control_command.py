"""``howdah control`` from the arguments of its commands to their end."""

import asyncio
import getpass
import os
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, Literal

import msgspec

from howdah import HowdahError, document, interrupt
from howdah._native import parse_duration
from howdah.control.bus import Access, opened, prepare
from howdah.control.bus.access import login
from howdah.control.http import prepared, tokens
from howdah.control.http.address import Listening
from howdah.control.http.client import Client
from howdah.control.leases.agent import Kernel
from howdah.control.policy import Policy, members
from howdah.control.policy.policyfile import load
from howdah.control.privilege import drop, remote
from howdah.control.running.operations import Operations
from howdah.control.running.serving import follow, serve
from howdah.control.running.tasks import signalled
from howdah.text import printable

MakeKernel = Callable[[str, int | None], Kernel]
"""What makes the kernel of a host, by its name and the inode of the network namespace that stands for it."""


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says about this machine and its bus."""

    hosts: Sequence[str]
    """Each NAME, or NAME=NAMESPACE with the file of a network namespace."""
    servers: str | None
    """The NATS servers; null: the bus is this process."""
    access: Access
    json: bool


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What ``serve --json`` and ``agent --json`` print when they are ready."""

    hosts: list[str]
    """Whose agents are in this process."""
    policy: str | None = None
    controller: str | None = None
    url: str | None = None
    """The address of the API and the page."""


class Ordered(msgspec.Struct):
    """What orders print with ``--json``."""

    revision: int | None


def serve_policy(
    *,
    policy: Path,
    host: list[str] | None,
    nats: str | None,
    listen: str,
    tokens: Path | None,
    cert: Path | None,
    key: Path | None,
    plain: bool,
    json: bool,
    **bus: Any,  # noqa: ANN401, the options of ``_access``
) -> None:
    """Serves a policy until a signal comes. Raises HowdahError."""
    listening = Listening(address=listen, tokens=tokens, certificate=cert, key=key, plain=plain)
    run_controller(policy, listening, Here(hosts=host or [], servers=nats, access=_access(**bus), json=json))


def agent(
    *,
    controller: str,
    host: list[str] | None,
    json: bool,
    **bus: Any,  # noqa: ANN401, as above
) -> None:
    """Runs the agents of this machine's hosts until a signal comes. Raises HowdahError."""
    run_agents(Here(hosts=host or [], servers=controller, access=_access(**bus), json=json))


def _access(
    *,
    nats_login: Path | None,
    creds: Path | None,
    nkey: Path | None,
    nats_ca: Path | None,
    nats_cert: Path | None,
    nats_key: Path | None,
) -> Access:
    user, password = login(nats_login) if nats_login else (None, None)
    return Access(
        user=user,
        password=password,
        nkey=nkey,
        credentials=creds,
        ca=nats_ca,
        certificate=nats_cert,
        key=nats_key,
    )


def run_controller(
    file: Path, listening: Listening, here: Here, make_kernel: MakeKernel | None = None
) -> None:
    """Serves a policy until a signal comes. Raises HowdahError when it cannot begin, or not go on."""
    _check_no_password(here.servers)
    policy = load(file)
    wanted = _namespaces(here.hosts) if here.hosts or here.servers else _this_machine(policy)
    _check_known(wanted, policy)
    name = f"{_hostname()}-{os.getpid()}"

    access = _reached_at(here.access, "controller")

    async def main(kernels: Mapping[str, Kernel]) -> None:
        async def attend(operations: Operations) -> None:
            async with api.serving(operations) as url:
                _ready(
                    Serving(hosts=[*kernels], policy=policy.name, controller=name, url=url),
                    f"{policy.name} is served at {url}" + _agents_words(kernels),
                    here.json,
                )
                await asyncio.Event().wait()

        async with watched, opened(here.servers, access) as bus:
            await serve(name, policy, bus, kernels, attend, _say)

    with prepared(listening) as api, _kernels(wanted, make_kernel) as (kernels, watched):
        if make_kernel is None:
            _lose_privilege(here.servers, access)
        signalled(main(kernels))


def run_agents(here: Here, make_kernel: MakeKernel | None = None) -> None:
    """Runs the agents of this machine's hosts until a signal comes. Raises HowdahError as above."""
    _check_no_password(here.servers)
    wanted = _namespaces(here.hosts or [_hostname()])
    access = _reached_at(here.access, next(iter(wanted)))

    async def main(kernels: Mapping[str, Kernel]) -> None:
        async with watched, opened(here.servers, access) as bus:
            _ready(
                Serving(hosts=[*kernels]), f"listening to {here.servers}" + _agents_words(kernels), here.json
            )
            await follow(bus, kernels, _say)

    with _kernels(wanted, make_kernel) as (kernels, watched):
        if make_kernel is None:
            _lose_privilege(here.servers, access)
        signalled(main(kernels))


def _check_no_password(servers: str | None) -> None:
    """Raises HowdahError for a password among the arguments of this process, which every user can read."""
    if servers is None or not re.search(r"//[^/@]+@", servers):
        return
    if any(servers in argument for argument in sys.argv[1:]):
        raise HowdahError(
            "a password in an argument can be read by every user of this host: write USER:PASSWORD into a "
            "file with mode 600 and name it with --nats-login"
        )


def _reached_at(access: Access, name: str) -> Access:
    """The same access with an inbox of its own, which the server's permissions can keep others from."""
    return replace(access, inbox=f"_INBOX_{name}")


def _namespaces(texts: Iterable[str]) -> dict[str, int | None]:
    """By host, the inode of its network namespace; null: that of this process and all others."""
    found: dict[str, int | None] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        members.name(name, "--host")
        if name in found:
            raise HowdahError(f"--host {name} is given twice; each host has one agent")
        found[name] = _inode(name, file) if equals else None
    return found


def _inode(name: str, file: str) -> int:
    try:
        return Path(file).stat().st_ino
    except OSError as error:
        raise HowdahError(
            f"--host {name}={file}: {error.strerror}; give the file of a network namespace, "
            f"as /run/netns/{name}"
        ) from None


def _this_machine(policy: Policy) -> dict[str, int | None]:
    name, hosts = _hostname(), _hosts(policy)
    if name not in hosts:
        raise HowdahError(
            f"this machine is called {name}, which {policy.name} does not have: say with --host which "
            f"of its hosts it is ({', '.join(hosts)}), or reach the agents of others with --nats"
        )
    return {name: None}


def _check_known(wanted: Iterable[str], policy: Policy) -> None:
    hosts = _hosts(policy)
    for name in wanted:
        if name not in hosts:
            raise HowdahError(f"--host {name}: {policy.name} has no such host; it has {', '.join(hosts)}")


def _hosts(policy: Policy) -> list[str]:
    return sorted({flow.member.agent for flow in policy.flows})


@contextmanager
def _kernels(
    wanted: Mapping[str, int | None], make: MakeKernel | None
) -> Iterator[tuple[dict[str, Kernel], AbstractAsyncContextManager[None]]]:
    """The kernels of the hosts, and what to be in while they are needed: it is left when they are gone."""
    if make is not None:
        yield {name: make(name, namespace) for name, namespace in wanted.items()}, nullcontext()
    elif not wanted:
        yield {}, nullcontext()
    else:
        with remote.started(wanted) as helper:
            yield {**helper.kernels}, helper.watched()


def _lose_privilege(servers: str | None, access: Access) -> None:
    """Reads what takes root to read; from then on a helper alone has privilege."""
    prepare(servers, access)
    drop()


def _hostname() -> str:
    return socket.gethostname().partition(".")[0]


def _agents_words(kernels: Iterable[str]) -> str:
    names = ", ".join(kernels)
    return f", with agents of {names}" if names else ""


def _ready(what: Serving, words: str, json: bool) -> None:
    if json:
        document.show(what)
        sys.stdout.flush()
    else:
        _say(words)


def _say(line: str) -> None:
    print(f"howdah: {printable(line)}", file=sys.stderr, flush=True)


def status(*, at: str | None, json: bool) -> None:
    """Prints who has what. Raises HowdahError."""
    found = Client(at).status()
    if json:
        document.show(found)
        return
    # Here and below, since agents and controllers need no display.
    from rich.console import Console  # noqa: PLC0415

    from howdah.words.control import shown  # noqa: PLC0415

    Console(soft_wrap=True).print(shown(document.strange(found)), highlight=False)


def watch(*, at: str | None, json: bool) -> None:
    """Shows the status as it changes, until stopped. Raises HowdahError."""
    interrupt.install()
    statuses = Client(at).watch()
    if json:
        for each in statuses:
            sys.stdout.buffer.write(document.line(each))
            sys.stdout.flush()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    from howdah.words.control import shown  # noqa: PLC0415

    with Live(auto_refresh=False, console=Console(highlight=False)) as live:
        for each in statuses:
            live.update(shown(document.strange(each)), refresh=True)


def start(
    *,
    name: str,
    lasting: str | None,
    host: str | None,
    who: str | None,
    wait: bool,
    at: str | None,
    json: bool,
) -> None:
    """Asks for a class and says so. Raises HowdahError."""
    for_s = None if lasting is None else ceil(parse_duration(lasting) / 1e9)
    client, asking = Client(at), who or _myself(host)
    revision = client.ask(name, asking, for_s, host)
    if wait and revision is not None:
        _await(client, revision)
    _done(json, revision, f"{name}{f' on {host}' if host else ''} is asked for by {asking}")


def stop(*, name: str, host: str | None, who: str | None, at: str | None, json: bool) -> None:
    """Asks for a class no longer and says so. Raises HowdahError."""
    asking = who or _myself(host)
    _done(json, Client(at).release(name, asking), f"{name} is not asked for by {asking} any more")


def set_terms(*, name: str, restore: bool, at: str | None, json: bool, **given: str | int | None) -> None:
    """Gives a class other terms than the policy file and says which. Raises HowdahError."""
    terms = {key: value for key, value in given.items() if value is not None}
    if bool(terms) == restore:
        raise HowdahError(f"say what to set for {name}, as --maximum 50%, or --restore")
    if restore:
        _done(json, Client(at).restore(name), f"{name} is as in the policy file again")
    else:
        words = ", ".join(f"{key} {value}" for key, value in terms.items())
        _done(json, Client(at).change(name, terms), f"{name} has {words}")


def drain(*, host: str, at: str | None, json: bool) -> None:
    """Leaves a host with its minimums and says so. Raises HowdahError."""
    _done(json, Client(at).drain(host), f"{host} is drained")


def undrain(*, host: str, at: str | None, json: bool) -> None:
    """Gives a host its shares again and says so. Raises HowdahError."""
    _done(json, Client(at).undrain(host), f"{host} has its shares again")


def token(*, name: str, role: Literal["read", "operate"], json: bool) -> None:
    """Prints a new token and its entry. Raises HowdahError."""
    secret, table = tokens.make(name, role)
    if json:
        document.show({"token": secret, "entry": table})
    else:
        print(f"{secret}\n\nFor the file of tokens:\n\n{table}", end="")


def _done(json: bool, revision: int | None, words: str) -> None:
    if json:
        document.show(Ordered(revision))
    else:
        print(words)


def _await(client: Client, revision: int) -> None:
    for each in client.watch():
        if each.settled and each.revision >= revision:
            return


def _myself(host: str | None) -> str:
    """Who asks, apart for each host that is asked for."""
    me = f"{getpass.getuser()}-{socket.gethostname()}" + (f"={host}" if host else "")
    return re.sub(r"[^-_=A-Za-z0-9]", "-", me)[:64]
