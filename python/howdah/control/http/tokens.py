"""Tokens: who may read, and who may operate. The file holds their digests only.

A token has 256 random bits, so one round of SHA-256 is enough: there is nothing to guess.
"""

import hmac
import re
import secrets
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

from howdah import HowdahError, tomlfile

Role = Literal["read", "operate"]
ROLES: tuple[Role, ...] = ("read", "operate")
"""Each may also do what those before it may."""

SEE = "see: howdah control token --help"
_MARK = "howdah_"
"""In front of every token, so that whoever searches for lost secrets finds it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who has it, and what that one may do."""

    name: str
    role: Role
    sha256: str
    """In hexadecimal."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    token: list[Token] = []


class Tokens:
    """All that are good."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens

    def find(self, secret: str) -> Token | None:
        """Whose token this is. All are compared, in a time that does not depend on how much of one fits."""
        digest = sha256(secret.encode()).hexdigest()
        found = None
        for each in self._tokens:
            if hmac.compare_digest(each.sha256, digest):
                found = each
        return found


def allows(role: Role, needed: Role) -> bool:
    """Whether who has the one role may do what takes the other."""
    return ROLES.index(role) >= ROLES.index(needed)


def make(name: str, role: Role) -> tuple[str, str]:
    """A new token, and its table for the file. Raises HowdahError for a name that cannot be one."""
    tomlfile.name(name, "the token's name")
    secret = _MARK + secrets.token_urlsafe(32)
    digest = sha256(secret.encode()).hexdigest()
    return secret, f'[[token]]\nname = "{name}"\nrole = "{role}"\nsha256 = "{digest}"\n'


def load(file: Path) -> Tokens:
    """Those of a file. Raises HowdahError naming the token that is wrong."""
    where = str(file)
    found = tomlfile.convert(tomlfile.table(tomlfile.read(file, SEE), where, SEE), _File, where, SEE).token
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
            raise HowdahError(f"{here} ({each.name}): an earlier one has its name or its sha256; remove one")
    return Tokens(found)
