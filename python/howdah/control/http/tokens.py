"""Permissions: tokens and their roles, and browsers that other sites may have sent.

A token has 256 random bits, so one round of SHA-256 is enough: there is nothing to guess. The file of tokens
holds their digests only.

Without that file whoever reaches the server may do everything, and only this host can reach it
(``address.py``). A page of another site in a browser here can reach it too. So then the host asked for must
be this one by name or number, which a name that the site lets point here (DNS rebinding) is not; nothing is
done for another origin, and no change without a header that only our own page and programs send.

Sources: RFC 6454 (origins), RFC 6750 (bearer tokens), W3C Fetch Metadata Request Headers.
"""

import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from howdah import HowdahError, tomlfile
from howdah.control.http.address import is_loopback
from howdah.control.http.endpoints import CLIENT_HEADER, Endpoint, Refused, Role

ROLES: tuple[Role, ...] = ("read", "operate")
"""The roles in order; each may also do what those before it may."""

SEE = "see: howdah control token --help"
_MARK = "howdah_"
"""Every token begins with this, so that a search for lost secrets finds it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="howdah"'}


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token of the file: whose it is, and what its owner may do."""

    name: str
    role: Role
    sha256: str
    """The digest in hexadecimal."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    token: list[Token] = []


class Tokens:
    """All tokens that are valid."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens

    def find(self, secret: str) -> Token | None:
        """The token with this secret. All are compared, in a time that does not depend on how much fits."""
        digest = sha256(secret.encode()).hexdigest()
        fitting = [each for each in self._tokens if hmac.compare_digest(each.sha256, digest)]
        return fitting[-1] if fitting else None


def make(name: str, role: Role) -> tuple[str, str]:
    """A new token, and its table for the file. Raises HowdahError for a name that cannot be one."""
    tomlfile.name(name, "the token's name")
    secret = _MARK + secrets.token_urlsafe(32)
    digest = sha256(secret.encode()).hexdigest()
    return secret, f'[[token]]\nname = "{name}"\nrole = "{role}"\nsha256 = "{digest}"\n'


def load(file: Path) -> Tokens:
    """The tokens of a file. Raises HowdahError naming the token that is wrong."""
    where = str(file)
    found = tomlfile.load(file, _File, SEE).token
    if not found:
        raise HowdahError(f"{where}: no token; {SEE}")
    for number, each in enumerate(found, start=1):
        here = f"{where}: token {number}"
        tomlfile.name(each.name, f"{here}: name")
        if not _DIGEST.fullmatch(each.sha256):
            raise HowdahError(
                f"{here} ({each.name}): sha256 is not 64 hexadecimal digits, in lower case; {SEE}"
            )
        if any(each.name == other.name or each.sha256 == other.sha256 for other in found[: number - 1]):
            raise HowdahError(
                f"{here} ({each.name}): an earlier token has the same name or sha256; remove one"
            )
    return Tokens(found)


class Guard:
    """Decides about each request before anything is done for it."""

    def __init__(self, tokens: Tokens | None) -> None:
        """``tokens`` is null where none are needed."""
        self._tokens = tokens

    def check(self, endpoint: Endpoint, headers: Mapping[str, str]) -> Role:
        """The role of the caller; ``headers`` takes names in any case. Raises Refused for who may not."""
        if self._tokens is None:
            _check_host(headers)
        if endpoint.role is None:
            return "read"
        _check_site(headers)
        if endpoint.changes and not headers.get(CLIENT_HEADER):
            raise Refused(403, f"a change needs the header {CLIENT_HEADER}, with the name of the program")
        return "operate" if self._tokens is None else _role(self._tokens, endpoint.role, headers)


def _role(tokens: Tokens, needed: Role, headers: Mapping[str, str]) -> Role:
    scheme, _, secret = headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Refused(401, "a token is needed: Authorization: Bearer TOKEN", _CHALLENGE)
    token = tokens.find(secret.strip())
    if token is None:
        raise Refused(401, "the token is not known here", _CHALLENGE)
    if ROLES.index(token.role) < ROLES.index(needed):
        raise Refused(403, f"the token {token.name} has the role {token.role}; this takes the role {needed}")
    return token.role


def _check_host(headers: Mapping[str, str]) -> None:
    host = _split(f"//{headers.get('Host', '')}").hostname or ""
    if not is_loopback(host):
        raise Refused(403, f"asked for as {host or 'no host'}; without tokens only as localhost or 127.0.0.1")


def _check_site(headers: Mapping[str, str]) -> None:
    origin = headers.get("Origin")
    other = origin is not None and _split(origin).netloc != headers.get("Host")
    if other or headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        raise Refused(403, "asked for by a page of another site")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise Refused(403, f"{url!r} is no origin and no host") from None
