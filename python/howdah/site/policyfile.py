"""A file of policy: its keys, and how it tightens what is in force."""

from collections.abc import Iterator
from typing import Literal, cast, get_args

import msgspec

from howdah import HowdahError, tomlfile
from howdah import ports as ranges
from howdah.site import patterns
from howdah.site.policy import SEE, Policy
from howdah.tomlfile import Size

Audit = Literal["on", "required"]
"""Whether copies need a log; the least strict first."""


class Ssh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[ssh]``: logins and far ends."""

    keep_logins: bool = True
    far_ends: list[str] | None = None

    def __post_init__(self) -> None:
        if self.far_ends is not None:
            if not self.far_ends:
                raise ValueError("far_ends is empty: no far end would be allowed; leave the key out for all")
            for pattern in self.far_ends:
                patterns.check(pattern)


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[data]``: the data streams."""

    plaintext: bool = True
    delete: bool = True
    ports: str | None = None

    def __post_init__(self) -> None:
        self.range()

    def range(self) -> tuple[int, int] | None:
        """The ports, both included. Raises ValueError, in words."""
        return None if self.ports is None else ranges.parse(self.ports)


class Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[programs]``: programs in the kernel."""

    load: bool = True


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[quota]``: bytes that copies may move."""

    copy: Size | None = None
    day: Size | None = None


class PolicyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    audit: Audit = "on"
    ssh: Ssh = Ssh()
    data: Data = Data()
    programs: Programs = Programs()
    quota: Quota = Quota()


def tighten(policy: Policy, path: str, text: bytes) -> None:
    """Has the file at ``path`` bind beside what binds already. Raises HowdahError for what is no policy."""
    file = tomlfile.loads(tomlfile.decode(text, path, SEE), path, PolicyFile, SEE)
    for key, name, value in _stricter(policy, file, path):
        setattr(policy, name, value)
        policy.set_by[key] = path


def rules(policy: Policy) -> dict[str, str]:
    """What is in force as lines of a file, and the file that set each. Defaults have none."""
    shown: dict[str, object] = {
        "audit": policy.audit,
        "ssh.keep_logins": policy.keep_logins,
        "ssh.far_ends": [" and ".join(map(str, map(list, policy.far_ends)))],
        "data.plaintext": policy.plaintext,
        "data.delete": policy.delete,
        "data.ports": "-".join(map(str, policy.ports or ())),
        "programs.load": policy.load_programs,
        "quota.copy": f"{policy.copy_bytes}B",
        "quota.day": f"{policy.day_bytes}B",
    }
    return {f"{key} = {_toml(shown[key])}": path for key, path in policy.set_by.items()}


def _toml(value: object) -> str:
    if isinstance(value, list):
        return str(value[0])
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def _stricter(policy: Policy, file: PolicyFile, path: str) -> Iterator[tuple[str, str, object]]:
    """The key, the attribute and the value of each rule of the file that is stricter than those in force."""
    strictness = get_args(Audit).index
    if strictness(file.audit) > strictness(policy.audit):
        yield "audit", "audit", file.audit
    if policy.keep_logins and not file.ssh.keep_logins:
        yield "ssh.keep_logins", "keep_logins", False
    if file.ssh.far_ends is not None:
        yield "ssh.far_ends", "far_ends", (*policy.far_ends, tuple(file.ssh.far_ends))
    if policy.plaintext and not file.data.plaintext:
        yield "data.plaintext", "plaintext", False
    if policy.delete and not file.data.delete:
        yield "data.delete", "delete", False
    if (ports := file.data.range()) is not None and ports != policy.ports:
        yield "data.ports", "ports", _both(policy, ports, path)
    if policy.load_programs and not file.programs.load:
        yield "programs.load", "load_programs", False
    for key, name, limit in (
        ("quota.copy", "copy_bytes", file.quota.copy),
        ("quota.day", "day_bytes", file.quota.day),
    ):
        most = cast("int | None", getattr(policy, name))
        if limit is not None and (most is None or limit < most):
            yield key, name, int(limit)


def _both(policy: Policy, ports: tuple[int, int], path: str) -> tuple[int, int]:
    """The ports that both ranges have. Raises HowdahError where there is none."""
    if policy.ports is None:
        return ports
    both = ranges.common(ports, policy.ports)
    if both is None:
        raise HowdahError(
            f"{path}: data.ports: {ranges.in_words(ports)} has no port of {ranges.in_words(policy.ports)}, "
            f"which {policy.set_by['data.ports']} allows; give ports of that range"
        )
    return both
