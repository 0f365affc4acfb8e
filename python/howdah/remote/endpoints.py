"""The ends that ``howdah cp SRC… DST`` names: which one is remote, and the paths as raw bytes.

The grammar is scp's: ``[user@]host:path``, a colon before the first slash makes it remote, and
``./a:b`` stays local. IPv6 literals stand in brackets: ``[2001:db8::1]:path``. A URL, a module of rsync and
an IPv6 address without brackets are refused: ssh would look for a host of that name.

Imported before everything else when a copy starts, so only from modules the interpreter has anyway.
"""

import os
from collections import namedtuple

from howdah import HowdahError
from howdah.text import printable

_LOCAL_HINT = "write a local name with a colon as ./NAME"
_SCHEMES = ("ssh", "scp", "sftp", "rsync", "ftp", "gsiftp", "http", "https", "file")

Endpoint = namedtuple("Endpoint", ["host", "path"])
Endpoint.__doc__ = "``host``: what ssh is given, or None for this host; ``path``: raw bytes."

Route = namedtuple(
    "Route",
    ["direction", "host", "sources", "destination", "destination_is_folder", "origin", "pipe"],
    defaults=[None, False],
)
Route.__doc__ = """``direction``: push or pull; the rest as in Job (messages.py).

``origin``: the host that sends, in a push from one far host to another; None: this one.
``pipe``: whether standard input is the only source of a push, or standard output the target of a pull."""

PIPE = "-"
"""Standard input as SRC, standard output as DST; a file of that name is ``./-``."""


def parse(argument: str) -> Endpoint:
    """The end that one SRC or DST of a command line names (bytes that are no UTF-8 come as surrogates).

    Raises HowdahError for what names none.
    """
    head = argument.partition("/")[0]
    before, bracket, after = head.partition("[")
    if bracket and (not before or before.endswith("@")):
        literal, closed, _ = after.partition("]:")
        if closed:
            path = argument[len(before) + len(literal) + 3 :]
            return Endpoint(_host(before + literal, argument), _remote_path(path, argument))
        if ":" in after:
            raise HowdahError(
                f"the address in {_shown(argument)} is not closed by ]: before the path; "
                f"write [ADDRESS]:PATH, or {_LOCAL_HINT}"
            )
    host, colon, after = head.partition(":")
    if not colon:
        return Endpoint(None, os.fsencode(argument))
    path = argument[len(host) + 1 :]
    if ":" in after:
        _refuse_address(head, argument)
    if after.startswith(":") and "[" not in host:
        raise HowdahError(
            f"{_shown(argument)} names a module of an rsync daemon, which howdah does not use; "
            "write host:path to go over ssh"
        )
    if path.startswith("//") and host in _SCHEMES:
        # Paths of scp and sftp begin in the home folder, those of other schemes at the root.
        root = "" if host in {"scp", "sftp"} else "/"
        raise HowdahError(f"{_shown(argument)} is a URL; write {_without_scheme(path, root)}")
    return Endpoint(_host(host, argument), _remote_path(path, argument))


def bare(host: str) -> str:
    """What ssh is given for ``[user@]host``: an IPv6 address stands in no brackets there."""
    user, at, name = host.rpartition("@")
    return f"{user}{at}{name[1:-1]}" if name.startswith("[") and name.endswith("]") else host


def written(host: str) -> str:
    """The host as it stands before the colon of ``[user@]host:path``."""
    user, at, name = host.rpartition("@")
    return f"{user}{at}[{name}]" if ":" in name else host


def route(arguments: list[str], *, memory: bool) -> Route:
    """Direction, host and paths of a whole command line. Raises HowdahError when it makes no copy."""
    if memory:
        return _memory_route(arguments)
    if len(arguments) < 2:
        raise HowdahError("a copy needs a source and a destination")
    *sources, destination = [parse(argument) for argument in arguments]
    if "" in arguments:
        raise HowdahError("a name is empty; write . for the folder you are in")
    hosts, origin = {source.host for source in sources}, None
    if len(hosts) > 1:
        raise HowdahError("the sources are on more than one host; copy from each host in a separate command")
    if destination.host is not None:
        direction, host, origin = "push", destination.host, sources[0].host
        if host == origin:
            raise HowdahError(
                f"both source and destination are on {host}; copy there: ssh {host} cp -a SRC… DST"
            )
    elif arguments == [PIPE, PIPE]:
        raise HowdahError("- and - are both pipes of this host; write HOST:PATH in place of one of them")
    elif hosts == {None}:
        raise HowdahError("both source and destination are on this host; use: cp -a")
    else:
        direction, host = "pull", sources[0].host
    is_folder = len(sources) > 1 or destination.path.endswith(b"/")
    paths = [source.path for source in sources]
    pipe = _pipe(arguments, destination) if PIPE in arguments else False
    return Route(direction, host, paths, destination.path, is_folder, origin, pipe)


def _pipe(arguments: list[str], destination: Endpoint) -> bool:
    """True. Raises HowdahError for what a pipe cannot give or take."""
    if len(arguments) != 2:
        raise HowdahError(
            "- is a pipe, which carries one file; write - and one name (write a file called - as ./-)"
        )
    if arguments[0] == PIPE and (destination.path == b"." or destination.path.endswith(b"/")):
        folder = printable(destination.path.removesuffix(b"/").removesuffix(b"."))
        path = f"{folder}/" if folder or destination.path == b"/" else ""
        raise HowdahError(
            f"{_shown(arguments[1])} is a folder, and data from a pipe has no name; "
            f"write {written(destination.host)}:{path}NAME"
        )
    return True


def _memory_route(arguments: list[str]) -> Route:
    ends = [parse(argument) for argument in arguments]
    if len(ends) != 1 or ends[0].host is None or not arguments[0].endswith(":"):
        from howdah.arguments import BadArgument  # noqa: PLC0415, a copy reads its line before it loads this

        raise BadArgument("{memory} takes a far host and no files; write it as HOST:")
    return Route("push", ends[0].host, [], b"", False)


def _refuse_address(head: str, argument: str) -> None:
    """Raises HowdahError where an IPv6 address stands without brackets."""
    import socket  # noqa: PLC0415, of all names only these need it

    user, at, whole = head.rpartition("@")
    for literal in (whole, whole.rpartition(":")[0]):
        address, _, zone = literal.partition("%")
        try:
            socket.inet_pton(socket.AF_INET6, f"{address}:" if ":" in zone else address)
        except (OSError, ValueError):
            continue
        path = argument[len(user + at + literal) + 1 :] or "PATH"
        raise HowdahError(
            f"{_shown(argument)}: an IPv6 address needs brackets; "
            f"write {_shown(f'{user}{at}[{literal}]:{path}')}, or {_LOCAL_HINT}"
        )


def _without_scheme(url: str, root: str) -> str:
    """What to write in place of a URL without its scheme, ``//user@host:22/path``, a path from ``root``."""
    host, _, path = url.removeprefix("//").partition("/")
    name, _, port = host.rpartition(":")
    if name and port.isdecimal():
        return f"{_shown(f'{name}:{root}{path}')}, and give the port with -e 'ssh -p {port}'"
    return _shown(f"{host}:{root}{path}")


def _host(host: str, argument: str) -> str:
    name = host.rpartition("@")[2]
    if not name or host.startswith(("-", "@")) or not host.isprintable() or any(c in host for c in " []"):
        raise HowdahError(
            f"{_shown(argument)} does not name a host; write [user@]host:path, or {_LOCAL_HINT}"
        )
    return host


def _remote_path(path: str, argument: str) -> bytes:
    """The path at the far end, which starts in the home folder: ``~/x`` is ``x`` there, nothing is ``.``."""
    if path.startswith("~"):
        home, _, rest = path.partition("/")
        if home != "~":
            raise HowdahError(f"{_shown(argument)}: {home} is not expanded; write the whole path after host:")
        path = rest.lstrip("/")
        if not path:
            return b"./" if argument.endswith("/") else b"."
    return os.fsencode(path) or b"."


def _shown(argument: str) -> str:
    return printable(os.fsencode(argument))
