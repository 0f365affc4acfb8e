"""What a user has said of far hosts: ``~/.config/howdah/config.toml`` (docs/firewall.md, docs/limits.md).

Read before a copy starts ssh, so a parser is loaded only where there is a file.
"""

import os

from howdah._native import host_fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from howdah.remote.hostfile import Host
    from howdah.values.limit import Limits

_SEE = "see docs/firewall.md"


def config_file() -> str:
    """The path of the file, which need not be there."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return f"{home}/howdah/config.toml"


def ports(*names: str) -> tuple[int, int] | None:
    """The range of data ports for a host that has these names; None: the file has none for it.

    The first table whose pattern fits one of the names counts. Raises HowdahError for a broken file.
    """
    table = _table(names)
    return None if table is None else table.range()


def limits(*names: str) -> "Limits":
    """The limits of copies from and to a host that has these names, as ``ports``. Raises HowdahError."""
    from howdah.values.limit import Limits  # noqa: PLC0415

    table = _table(names)
    return Limits() if table is None else table.limits()


def limited(*names: str) -> bool:
    """Whether there is a limit for a host that has these names. Raises HowdahError for a broken file."""
    table = _table(names)
    return table is not None and table.limit is not None


def _table(names: tuple[str, ...]) -> "Host | None":
    path = config_file()
    if not os.path.exists(path):  # noqa: PTH110
        return None
    from pathlib import Path  # noqa: PLC0415

    from howdah import tomlfile  # noqa: PLC0415
    from howdah.remote.hostfile import HostFile  # noqa: PLC0415

    for pattern, host in tomlfile.load(Path(path), HostFile, _SEE).host.items():
        if any(host_fits(pattern, name) for name in names):
            return host
    return None
