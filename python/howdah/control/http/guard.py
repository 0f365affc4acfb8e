"""Who may do what: tokens and their roles, and browsers that other sites may have sent.

Without a token file whoever reaches the server may do everything, and only this host can reach it
(``listening.py``). A page of another site in a browser here can reach it too. So then the host asked for must
be this one by name or number, which a name that the site lets point here (DNS rebinding) is not; nothing is
done for another origin, and no change without a header that only our own page and programs send.

Sources: RFC 6454 (origins), RFC 6750 (bearer tokens), W3C Fetch Metadata Request Headers.
"""

from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers

from howdah.control.http.address import is_loopback
from howdah.control.http.endpoints import CLIENT_HEADER, Endpoint
from howdah.control.http.refusal import Refused
from howdah.control.http.tokens import Role, Tokens, allows

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="howdah"'}


class Guard:
    """Decides about each request before anything is done for it."""

    def __init__(self, tokens: Tokens | None) -> None:
        """``tokens``: null where none are asked for."""
        self._tokens = tokens

    def check(self, endpoint: Endpoint, headers: Headers) -> Role:
        """The role of who asks. Raises Refused for who may not."""
        if self._tokens is None:
            _check_host(headers)
        if endpoint.role is None:
            return "read"
        _check_site(headers)
        if endpoint.changes and not headers.get(CLIENT_HEADER):
            raise Refused(403, f"a change needs the header {CLIENT_HEADER}, with the name of the program")
        return "operate" if self._tokens is None else _role(self._tokens, endpoint.role, headers)


def _role(tokens: Tokens, needed: Role, headers: Headers) -> Role:
    scheme, _, secret = headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Refused(401, "a token is needed: Authorization: Bearer TOKEN", _CHALLENGE)
    token = tokens.find(secret.strip())
    if token is None:
        raise Refused(401, "the token is not known here", _CHALLENGE)
    if not allows(token.role, needed):
        raise Refused(403, f"the token {token.name} has the role {token.role}; this takes the role {needed}")
    return token.role


def _check_host(headers: Headers) -> None:
    host = _split(f"//{headers.get('Host', '')}").hostname or ""
    if not is_loopback(host):
        raise Refused(403, f"asked for as {host or 'no host'}; without tokens only as localhost or 127.0.0.1")


def _check_site(headers: Headers) -> None:
    origin = headers.get("Origin")
    other = origin is not None and _split(origin).netloc != headers.get("Host")
    if other or headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        raise Refused(403, "asked for by a page of another site")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise Refused(403, f"{url!r} is no origin and no host") from None
