"""The privileges of each process of ``howdah control``.

A helper changes the kernel and has no network (``helper.py``), the other has the network and changes nothing
(``remote.py``). ``protocol.py`` is what they say to each other, and ``drop`` what the second gives up before
it reads anything that a network sends.
"""

import os
import pwd

from howdah import HowdahError
from howdah._native import drop_capabilities

USERS = ("howdah", "nobody")
"""The users that a process started by root becomes: the first that this host has."""
_NOBODY = 65534


def is_root() -> bool:
    """Whether there is a privilege to give up."""
    return os.geteuid() == 0


def drop() -> None:
    """Makes this process an unprivileged user without capabilities, for good.

    Only what it has open, read and loaded is left to it. Call it before any thread is started. Raises
    HowdahError where this host has no such user.
    """
    if is_root():
        name, uid, gid = _user()
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        except OSError as error:
            raise HowdahError(
                f"cannot become user {name} (number {uid}) to serve without privilege: {error.strerror}; "
                "if a container has no such user, start howdah as a user other than root"
            ) from None
    drop_capabilities()


def _user() -> tuple[str, int, int]:
    for name in USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if found.pw_uid == 0:
            raise HowdahError(f"user {name} is root on this host; give it a number of its own")
        return name, found.pw_uid, found.pw_gid
    return "nobody", _NOBODY, _NOBODY
