"""Where the server listens, and that nobody finds it open by mistake."""

import os
import socket
import ssl
from pathlib import Path

import msgspec

from howdah import HowdahError
from howdah.control.http import tokens
from howdah.control.http.address import DEFAULT_ADDRESS, is_loopback, parse
from howdah.control.http.tokens import Tokens


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """As the command line says it."""

    address: str = DEFAULT_ADDRESS
    """HOST:PORT, [HOST]:PORT for IPv6, or a HOST; port 0 is a free one."""
    tokens: Path | None = None
    certificate: Path | None = None
    """With those of its issuers behind it, in PEM."""
    key: Path | None = None
    plain: bool = False
    """Whether tokens may come over a network in the clear, because something else encrypts."""


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
        raise HowdahError(
            f"cannot listen on {wanted.address}: {os.strerror(error.errno or 0)}; "
            "name another address with --listen"
        ) from None
    return listener


def read_tokens(wanted: Listening) -> Tokens | None:
    """Those of the file, if one is named. Raises HowdahError."""
    return None if wanted.tokens is None else tokens.load(wanted.tokens)


def tls(wanted: Listening) -> ssl.SSLContext | None:
    """What the server shows; null: no TLS. Raises HowdahError for what it cannot be done with."""
    if wanted.certificate is None or wanted.key is None:
        return None
    return _tls(wanted.certificate, wanted.key)


def _tls(certificate: Path, key: Path) -> ssl.SSLContext:
    for file in (certificate, key):
        try:
            file.open("rb").close()
        except OSError as error:
            raise HowdahError(f"cannot read {file}: {error.strerror}") from None
    try:
        # A passphrase would be asked for on the terminal.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password="")
        context.set_alpn_protocols(["http/1.1"])
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error)
        raise HowdahError(
            f"{certificate} and {key} are no certificate and its key without a passphrase, in PEM: {why}"
        ) from None
    return context


def _check_safe(wanted: Listening, host: str) -> None:
    if (wanted.certificate is None) != (wanted.key is None):
        raise HowdahError("TLS takes both a certificate and its key: give --cert and --key, or none")
    tls(wanted)
    if is_loopback(host):
        return
    if wanted.tokens is None:
        raise HowdahError(
            f"{wanted.address} can be reached from other hosts: name a file of tokens with --tokens, "
            "or listen on 127.0.0.1"
        )
    if wanted.certificate is None and not wanted.plain:
        raise HowdahError(
            f"{wanted.address} can be reached from other hosts, and tokens would travel in the clear: "
            "give --cert and --key, or --plain where something else encrypts"
        )
