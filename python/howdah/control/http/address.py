"""Addresses of controllers: how people write them, and how the server listens there and is safe."""

import os
import socket
import ssl
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import msgspec

from howdah import HowdahError
from howdah.arguments import BadArgument, NotHere, literal
from howdah.bounds import PORT_MAX

DEFAULT_PORT = 7310
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line that say where and how to listen."""

    address: str = DEFAULT_ADDRESS
    """HOST:PORT, [HOST]:PORT for IPv6, or a HOST; port 0 is a free one."""
    tokens: Path | None = None
    certificate: Path | None = None
    """The certificate in PEM, with those of its issuers behind it."""
    key: Path | None = None
    plain: bool = False
    """Whether tokens may come over a network in the clear, because something else encrypts."""


def parse(address: str) -> tuple[str, int]:
    """The host and the port, by default 7310. Raises HowdahError."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]") or isinstance(_number(address), IPv6Address):
        host, port = address, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise HowdahError(f"{address!r} is not an address: give HOST:PORT, as {DEFAULT_ADDRESS}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this host's own, by itself and not by any name service."""
    number = _number(host)
    return host == "localhost" or (number is not None and number.is_loopback)


def _number(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def open_socket(wanted: Listening) -> socket.socket:
    """A socket that listens there. Raises HowdahError where that is not possible, or not safe."""
    host, port = parse(wanted.address)
    _check_safe(wanted, host)
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise HowdahError(f"cannot listen on {wanted.address}: {error.strerror}") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise NotHere(
            f"cannot listen on {literal(wanted.address)}: {os.strerror(error.errno or 0)}; "
            "name another with {address}"
        ) from None
    return listener


def tls(wanted: Listening) -> ssl.SSLContext | None:
    """TLS by the server's certificate; null: no TLS. Raises HowdahError for files that cannot be used."""
    if wanted.certificate is None or wanted.key is None:
        return None
    for file in (wanted.certificate, wanted.key):
        try:
            file.open("rb").close()
        except OSError as error:
            raise HowdahError(f"cannot read {file}: {error.strerror}") from None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Without a password, a passphrase would be asked for on the terminal.
        context.load_cert_chain(wanted.certificate, wanted.key, password="")
        context.set_alpn_protocols(["http/1.1"])
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error)
        raise HowdahError(
            f"{wanted.certificate} and {wanted.key} must be a certificate and its key without a passphrase, "
            f"in PEM: {why}"
        ) from None
    return context


def _check_safe(wanted: Listening, host: str) -> None:
    if (wanted.certificate is None) != (wanted.key is None):
        raise BadArgument("TLS takes both a certificate and its key: give {certificate} and {key}, or none")
    tls(wanted)
    if is_loopback(host):
        return
    far = f"{literal(wanted.address)} can be reached from other hosts"
    if wanted.tokens is None:
        raise BadArgument(f"{far}: name a file of tokens with {{tokens}}, or listen on 127.0.0.1")
    if wanted.certificate is None and not wanted.plain:
        raise BadArgument(
            f"{far}, and tokens would travel in the clear: "
            "give {certificate} and {key}, or {plain} where something else encrypts"
        )
