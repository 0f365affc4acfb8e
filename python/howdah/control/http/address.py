"""Addresses of controllers, as people write them."""

from ipaddress import ip_address

from howdah import HowdahError

DEFAULT_PORT = 7310
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"
PORT_MAX = 65535


def parse(address: str) -> tuple[str, int]:
    """The host and the port, by default 7310. Raises HowdahError."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]") or _is_ipv6(address):
        host, port = address, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise HowdahError(f"{address!r} is no address: give HOST:PORT, as {DEFAULT_ADDRESS}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this host's own, by itself and not by any name service."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_ipv6(address: str) -> bool:
    try:
        return ip_address(address).version == 6
    except ValueError:
        return False
