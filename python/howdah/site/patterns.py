"""Patterns of far ends: names with ``*`` and ``?``, addresses, and networks as ``10.9.0.0/16``."""

import fnmatch
import ipaddress


def check(pattern: str) -> None:
    """Raises ValueError, in words, for what is neither a name nor a network."""
    if not pattern or pattern != pattern.strip() or "@" in pattern:
        raise ValueError(f"{pattern!r} is no pattern of hosts; give for example *.example.org or 10.9.0.0/16")
    if "/" in pattern:
        try:
            ipaddress.ip_network(pattern)
        except ValueError as error:
            raise ValueError(f"{pattern!r} is no network ({error}); give for example 10.9.0.0/16") from None


def fits(pattern: str, host: str) -> bool:
    """Whether a name or an address fits a pattern. A network never fits a name: names are not resolved."""
    address = _address(host)
    if address is None:
        return "/" not in pattern and fnmatch.fnmatchcase(
            host.lower().rstrip("."), pattern.lower().rstrip(".")
        )
    if "/" in pattern:
        return address in ipaddress.ip_network(pattern)
    # An address has many spellings.
    return pattern == "*" or address == _address(pattern)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
