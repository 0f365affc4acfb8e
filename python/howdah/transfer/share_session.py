"""``howdah cp --path guaranteed --class NAME``: a share for one copy, and the check that it is held to it."""

import socket

from howdah import HowdahError
from howdah.control import held, own
from howdah.control.asking import Asking
from howdah.control.http.client import Client
from howdah.control.status import FlowStatus, Status
from howdah.remote.endpoints import Route
from howdah.remote.ssh import Login
from howdah.values.plan import PathKind


def asking(path: PathKind, name: str | None, route: Route, *, look_only: bool) -> Asking:
    """The share of what a copy sends; with ``look_only`` it is not asked for.

    Raises HowdahError for a class without its path, a path without its class, and a copy that another host
    sends.
    """
    if path != "guaranteed":
        raise HowdahError(f"--class {name} is of a guaranteed path; add: --path guaranteed")
    if name is None:
        raise HowdahError("--path guaranteed: whose share? give the class of the policy, as --class images")
    if route.direction == "pull":
        raise HowdahError(
            "--path guaranteed: the share is that of the host that sends; run the copy there: "
            f"ssh {route.host} howdah cp …"
        )
    addresses = _addresses(route.host)

    def find(status: Status) -> FlowStatus:
        return own.flow(status, name, addresses, held.here(addresses))

    return Asking(Client(), name, find, look_only=look_only)


def check_held(port: int) -> None:
    """Raises HowdahError when a data stream of this process to that port is not held to a share."""
    if free := held.unheld(port):
        raise HowdahError(
            f"the data streams are under {', '.join(sorted(free))} and held to no share: the agent's rules "
            "are not for them; see: howdah cc status"
        )


def _addresses(host: str) -> list[str]:
    """Of the far host, where the data goes."""
    name = Login(host).data_address
    if name is None:
        raise HowdahError(
            f"--path guaranteed: ssh reaches {host} through another host, so where its data goes is not "
            "known; give the host's own address"
        )
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise HowdahError(f"{name}: {error.strerror or error}; check the name of the host") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
