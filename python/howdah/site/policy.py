"""The policy of this host: what its administrator has decided for all users, in SITE, and what a user adds.

A user's own file has the same keys, and of two values the stricter one holds: a user can tighten and never
loosen. A file that is broken, or that others than its owner can write to, stops everything that a policy
governs. docs/policy.md has the keys.

Read before a copy starts ssh, so a parser is loaded only where there is a file.
"""

import os
import stat

from howdah import HowdahError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from howdah.site.policyfile import Audit

SITE = "/etc/howdah/policy.toml"
_ROOT = 0
SEE = "ask this host's administrator, or see docs/policy.md"
_BYTES_MAX = 2**20
_OVERFLOW = "/proc/sys/kernel/overflowuid"


class Refused(HowdahError):
    """A policy does not allow what was asked for."""


class Policy:
    """What binds this user on this host. Without any file, the defaults below."""

    audit: "Audit" = "on"
    """Whether a copy needs a log that takes its lines."""
    keep_logins: bool = True
    """Whether an ssh login, and a far end behind it, may be kept after a copy."""
    far_ends: "tuple[tuple[str, ...], ...]" = ()
    """Patterns of hosts. Each list has to have one that fits a far end."""
    plaintext: bool = True
    """Whether data streams may be plaintext."""
    delete: bool = True
    """Whether a copy to this host may remove what its source has not."""
    ports: "tuple[int, int] | None" = None
    """The ports of which this host, as a far end, opens one for data streams; null: the kernel chooses."""
    load_programs: bool = True
    """Whether howdah may load programs into this kernel."""
    copy_bytes: "int | None" = None
    """The most that one copy moves."""
    day_bytes: "int | None" = None
    """The most that the copies of a user move in a day."""

    def __init__(self) -> None:
        self.set_by: dict[str, str] = {}
        """By key, as ``data.plaintext``, the file that set what holds."""

    def by(self, key: str) -> str:
        """The words that say whose policy it is that sets this key."""
        path = self.set_by[key]
        if path == SITE:
            return f"the policy of host {os.uname().nodename} ({path}, {key})"
        return f"your own policy on host {os.uname().nodename} ({path}, {key})"

    def check_plaintext(self, *, encrypt: bool) -> None:
        """Raises Refused for data streams that may not be plaintext."""
        if not encrypt and not self.plaintext:
            by = self.by("data.plaintext")
            raise Refused(f"plaintext data streams are forbidden by {by}; leave out --plaintext")

    def check_delete(self, *, delete: bool) -> None:
        """Raises Refused for a copy to this host that may remove nothing here."""
        if delete and not self.delete:
            by = self.by("data.delete")
            raise Refused(f"removing what is not at the source is forbidden by {by}; leave out --delete")

    def check_programs(self) -> None:
        """Raises Refused where howdah may load no program into this kernel."""
        if not self.load_programs:
            by = self.by("programs.load")
            raise Refused(f"loading programs into the kernel is forbidden by {by}; {SEE}")

    def ports_of(self, asked: "tuple[int, int] | None") -> "tuple[int, int] | None":
        """The ports for data streams that a near end gets, which has asked for a range or not.

        Raises Refused where that has no port of the range in force.
        """
        if asked is None or self.ports is None:
            return asked or self.ports
        from howdah import ports  # noqa: PLC0415

        both = ports.common(asked, self.ports)
        if both is None:
            allowed, by = ports.in_words(self.ports), self.by("data.ports")
            raise Refused(
                f"ports {ports.in_words(asked)} have none of {allowed}, which is the range of {by}; "
                f"give --ports {allowed}"
            )
        return both

    def check_far_end(self, host: str) -> None:
        """Raises Refused for a far end, by the name or address that ssh connects to, that no pattern fits."""
        if not self.far_ends:
            return
        # Only a host with a policy needs it.
        from howdah.site.patterns import fits  # noqa: PLC0415

        for patterns in self.far_ends:
            if not any(fits(pattern, host) for pattern in patterns):
                by = self.by("ssh.far_ends")
                raise Refused(f"{host} is no far end that is allowed by {by}; {SEE}")


def in_force() -> Policy:
    """What binds this user on this host now.

    Raises HowdahError for a file that is no policy, or that others than its owner can write to.
    """
    files = [(SITE, _ROOT), (own_file(), os.geteuid())]
    found = [(path, text) for path, owner in files if (text := _text(path, owner)) is not None]
    policy = Policy()
    if found:
        from howdah.site import policyfile  # noqa: PLC0415

        for path, text in found:
            policyfile.tighten(policy, path, text)
    return policy


def own_file() -> str:
    """The user's own policy, which need not be there."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return f"{home}/howdah/policy.toml"


def _text(path: str, owner: int) -> bytes | None:
    """The file's content; null: there is no file. Raises HowdahError."""
    try:
        # Not to wait for the writer of a pipe.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HowdahError(f"cannot read {path}: {error.strerror}; {SEE}") from None
    try:
        _check(path, os.fstat(file), owner)
        _check_folder(path, owner)
        text = os.read(file, _BYTES_MAX + 1)
    except OSError as error:
        raise HowdahError(f"cannot read {path}: {error.strerror}; {SEE}") from None
    finally:
        os.close(file)
    if len(text) > _BYTES_MAX:
        raise HowdahError(f"{path} is no policy: it has more than {_BYTES_MAX} bytes; {SEE}")
    return text


def _check(path: str, found: os.stat_result, owner: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise HowdahError(f"{path} is no policy: it is no file; {SEE}")
    if not _is_of(found, owner):
        whose = "root's" if owner == _ROOT else "yours"
        mend = "chown root, chmod 644" if owner == _ROOT else "chmod 644"
        raise HowdahError(f"{path} must be {whose} and nobody else's to write; {mend}")


def _check_folder(path: str, owner: int) -> None:
    folder = os.path.dirname(path)  # noqa: PTH120
    if not _is_of(os.stat(folder), owner):  # noqa: PTH116
        whose = "root's" if owner == _ROOT else "yours"
        raise HowdahError(
            f"{folder}, which has a policy in it, must be {whose} and nobody else's to write; chmod 755"
        )


def _is_of(found: os.stat_result, owner: int) -> bool:
    """Whether only ``owner`` and root can write to it. Where a user namespace shows no root, as in a lab, the
    host's root is shown as the overflow user, who owns nothing else in /etc.
    """
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    return found.st_uid in {0, owner} or (found.st_uid == _unmapped() is not None)


def _unmapped() -> int | None:
    """The number by which this user namespace shows the users it has not; null: it has all."""
    with open("/proc/self/uid_map", encoding="ascii") as users:  # noqa: PTH123
        if users.read().split() == ["0", "0", str(2**32 - 1)]:
            return None
    with open(_OVERFLOW, encoding="ascii") as number:  # noqa: PTH123
        return int(number.read())
