"""What the administrator of a host has decided for all its users, in POLICY.

A user can be stricter and never looser. Read before a copy starts, so a parser is loaded only where the
file is there.
"""

import os
import stat

from howdah import HowdahError

POLICY = "/etc/howdah/policy.toml"
_KNOWN = {"ssh": {"keep_logins": bool}}


def keeps_logins(path: str = POLICY) -> bool:
    """Whether an ssh login, and a far end behind it, may be kept after a copy.

    Raises HowdahError for a file that is no policy, or that others than root can write to.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            _check_owner(path, os.fstat(file.fileno()))
            text = file.read()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise HowdahError(f"cannot read {path}: {error.strerror}; ask this host's administrator") from None
    return bool(_parsed(path, text).get("ssh", {}).get("keep_logins", True))


def _check_owner(path: str, found: os.stat_result) -> None:
    if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HowdahError(f"{path} binds all users, so it must be root's and nobody else's to write")


def _parsed(path: str, text: bytes) -> dict[str, dict[str, object]]:
    import tomllib  # noqa: PLC0415

    try:
        document = tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HowdahError(f"{path}: {error}") from None
    for table, entries in document.items():
        if table not in _KNOWN or not isinstance(entries, dict):
            raise HowdahError(f"{path}: unknown table [{table}]; it has [ssh]")
        for key, value in entries.items():
            kind = _KNOWN[table].get(key)
            if kind is None:
                raise HowdahError(
                    f"{path}: unknown key {key} in [{table}]; it has {', '.join(_KNOWN[table])}"
                )
            if not isinstance(value, kind):
                raise HowdahError(f"{path}: {key} in [{table}] is true or false, not {value!r}")
    return document
