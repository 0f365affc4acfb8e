"""``howdah control`` from the arguments of its commands to their end."""

import asyncio
import re
import signal
import sys
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, Literal

import msgspec

from howdah import HowdahError, document, interrupt
from howdah.cli.table import WrongLine
from howdah.interrupt import SIGNALS, Interrupted
from howdah.library import control
from howdah.library.control import Access, Client, Listening, Serving, Site, login
from howdah.text import printable


def signalled(work: Coroutine[Any, Any, None]) -> None:
    """Runs the work; the first signal cancels it, and is raised as Interrupted once it has ended.

    Later ones do nothing, so what the work puts back at its end is put back whole.
    """
    numbers: list[int] = []

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def received(number: int) -> None:
            numbers.append(number)
            if len(numbers) == 1:
                task.cancel()

        for number in SIGNALS:
            # nohup and background shells start us with a signal ignored: it stays so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, received, number)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    if numbers:
        raise Interrupted(numbers[0])


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
    _check_no_password(nats)
    site = Site(host or [], nats, _access(**bus))

    def ready(now: Serving) -> None:
        _ready(now, f"{now.policy} is served at {now.url}" + _agents_words(now.hosts), json)

    with control.controlling(policy, listening, site, on_ready=ready, tell=_say) as work:
        signalled(work())


def agent(
    *,
    controller: str,
    host: list[str] | None,
    json: bool,
    **bus: Any,  # noqa: ANN401, as above
) -> None:
    """Runs the agents of this machine's hosts until a signal comes. Raises HowdahError."""
    _check_no_password(controller)

    def ready(now: Serving) -> None:
        _ready(now, f"connected to {controller}" + _agents_words(now.hosts), json)

    with control.agents(Site(host or [], controller, _access(**bus)), on_ready=ready, tell=_say) as work:
        signalled(work())


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


def _check_no_password(servers: str | None) -> None:
    """Raises HowdahError for a password among the arguments of this process, which every user can read."""
    if servers is None or not re.search(r"//[^/@]+@", servers):
        return
    if any(servers in argument for argument in sys.argv[1:]):
        raise HowdahError(
            "every user of this host can read a password in an argument: write USER:PASSWORD into a "
            "file with mode 600 and name it with --nats-login"
        )


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
    from howdah.words.control import shown  # noqa: PLC0415
    from howdah.words.terminal import print_parts  # noqa: PLC0415

    print_parts(shown(document.strange(found)))


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
    lasting: float | None,
    host: str | None,
    who: str | None,
    wait: bool,
    at: str | None,
    json: bool,
) -> None:
    """Asks for a class and says so. Raises HowdahError."""
    for_s = None if lasting is None else ceil(lasting)
    asking = who or control.myself(host)
    revision = control.ask(name, host=host, who=asking, for_s=for_s, wait=wait, at=at, tell=_say)
    _done(json, revision, f"{name}{f' on {host}' if host else ''} is asked for by {asking}")


def stop(*, name: str, host: str | None, who: str | None, at: str | None, json: bool) -> None:
    """Asks for a class no longer and says so. Raises HowdahError."""
    asking = who or control.myself(host)
    _done(json, control.release(name, who=asking, at=at), f"{name} is no longer asked for by {asking}")


def set_terms(*, name: str, restore: bool, at: str | None, json: bool, **given: str | int | None) -> None:
    """Gives a class other terms than the policy file and says which. Raises HowdahError."""
    terms = {key: value for key, value in given.items() if value is not None}
    if terms and restore:
        option = next(iter(terms)).replace("_", "-")
        raise WrongLine(f"--restore gives {name} the terms of the file, so it goes without --{option}")
    if not terms and not restore:
        raise WrongLine(f"say what to set for {name}, as --maximum 50%, or --restore")
    if restore:
        _done(json, Client(at).restore(name), f"{name} has the terms of the policy file again")
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
    secret, table = control.new_token(name, role)
    if json:
        document.show({"token": secret, "entry": table})
    else:
        print(f"{secret}\n\nFor the file of tokens:\n\n{table}", end="")


def _done(json: bool, revision: int | None, words: str) -> None:
    if json:
        document.show(Ordered(revision))
    else:
        print(words)
