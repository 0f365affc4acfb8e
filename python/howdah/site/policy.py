"""What the administrator of a host has decided for all its users, in POLICY.

A user can be stricter and never looser. Read before a copy starts, so a parser is loaded only where the
file is there.
"""

import os
import stat

from howdah import HowdahError

POLICY = "/etc/howdah/policy.toml"
_SEE = "ask this host's administrator"


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
        raise HowdahError(f"cannot read {path}: {error.strerror}; {_SEE}") from None
    return _keeps_logins(path, text)


def _check_owner(path: str, found: os.stat_result) -> None:
    if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HowdahError(f"{path} binds all users, so it must be root's and nobody else's to write")


def _keeps_logins(path: str, text: bytes) -> bool:
    import msgspec  # noqa: PLC0415

    from howdah import tomlfile  # noqa: PLC0415

    class Ssh(msgspec.Struct, forbid_unknown_fields=True):
        keep_logins: bool = True

    class SitePolicy(msgspec.Struct, forbid_unknown_fields=True):
        ssh: Ssh = msgspec.field(default_factory=Ssh)

    return tomlfile.loads(tomlfile.decode(text, path, _SEE), path, SitePolicy, _SEE).ssh.keep_logins
