"""What a user has said of far hosts: ``~/.config/howdah/config.toml`` (docs/firewall.md, docs/limits.md).

Read before a copy starts ssh, so a parser is loaded only where there is a file.
"""

import os

from howdah._native import host_fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from howdah.remote.hostfile import Host
    from howdah.values.limit import Limits

    T = TypeVar("T")

_SEE = "see docs/firewall.md"


def config_file() -> str:
    """The path of the file, which need not be there."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return f"{home}/howdah/config.toml"


def ports(*names: str) -> tuple[int, int] | None:
    """The range of data ports for a host that has these names; None: the file has none for it.

    The first table counts whose pattern fits one of the names and which has a range. Raises HowdahError for a
    broken file.
    """
    found = _tables(names, lambda host: host.range())
    return next(found, None)


def limits(*names: str) -> "Limits":
    """The limits of copies from and to a host that has these names, as ``ports``. Raises HowdahError."""
    from howdah.values.limit import Limits  # noqa: PLC0415

    return next(_tables(names, lambda host: host.limits()), Limits())


def _tables(names: tuple[str, ...], has: "Callable[[Host], T | None]") -> "Iterator[T]":
    """What the tables that fit have, where they have it, in the order of the file."""
    if not os.path.exists(config_file()):  # noqa: PTH110
        return
    from pathlib import Path  # noqa: PLC0415

    from howdah import tomlfile  # noqa: PLC0415
    from howdah.remote.hostfile import HostFile  # noqa: PLC0415

    for pattern, host in tomlfile.load(Path(config_file()), HostFile, _SEE).host.items():
        if any(host_fits(pattern, name) for name in names) and (found := has(host)) is not None:
            yield found
