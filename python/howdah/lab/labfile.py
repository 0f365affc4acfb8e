"""A whole lab as a person writes it: a link (linkfile.py), and beside its keys and options the hosts'.

In a file::

    topology = "dumbbell"      # absent: a pair, near and far, at the ends of the link
    left = 4                   # left1 to left4; or names: ["base20", "base21"]; default 1
    right = ["arch"]
    lan_rate = "1Gbit"         # on the wire of each host's cable, each way; absent: not shaped
"""

from pathlib import Path
from typing import Any

import msgspec

from howdah import tomlfile
from howdah._native import HowdahError, parse_rate
from howdah.lab import linkfile
from howdah.lab.topology import PAIR, Topology, dumbbell
from howdah.values.link import LinkSpec

_LAN_KEYS = ("left", "right", "lan_rate")
_KEYS = ("topology", *_LAN_KEYS)
_TOPOLOGIES = ("pair", "dumbbell")

Values = dict[str, tuple[Any, str]]
"""By key: the value, and where it was given."""


class Options(msgspec.Struct, frozen=True):
    """The hosts' options as typed; null where not given. A side is a number, or names with commas."""

    topology: str | None = None
    left: str | None = None
    right: str | None = None
    lan_rate: str | None = None


def build(link: linkfile.Options, hosts: Options, file: Path | None = None) -> tuple[LinkSpec, Topology]:
    """The lab of ``file`` with options over it. Raises HowdahError: file, key, what to do."""
    return of_table(linkfile.read(file) if file else {}, str(file), link, hosts)


def of_table(
    table: dict[str, Any],
    where: str,
    link: linkfile.Options = linkfile.Options(),  # noqa: B008, frozen
    hosts: Options = Options(),  # noqa: B008, frozen
) -> tuple[LinkSpec, Topology]:
    """The lab of a table that is at ``where``. Raises HowdahError: where, key, what to do."""
    values: Values = {key: (table[key], f"{where}: {key}") for key in _KEYS if key in table}
    for key in _KEYS:
        typed = getattr(hosts, key)
        if typed is not None:
            values[key] = (typed, f"--{key.replace('_', '-')}")
    links = {key: value for key, value in table.items() if key not in _KEYS}
    return linkfile.of_table(link, links, where), _topology(values)


def _topology(values: Values) -> Topology:
    kind, where = values.get("topology", ("pair", ""))
    if kind not in _TOPOLOGIES:
        raise HowdahError(f"{where}: {kind!r} is unknown; give {' or '.join(_TOPOLOGIES)}")
    if kind == "pair":
        for key in _LAN_KEYS:
            if key in values:
                raise HowdahError(f"{values[key][1]}: a pair of hosts has no LAN; give the topology dumbbell")
        return PAIR
    left, right = (_side(*values.get(key, (1, ""))) for key in ("left", "right"))
    rate, where = values.get("lan_rate", (None, ""))
    rate_bps = None if rate is None else tomlfile.value(parse_rate, str(rate), where)
    return dumbbell(left, right, lan_rate_bps=rate_bps)


def _side(value: Any, where: str) -> int | list[str]:  # noqa: ANN401, whatever TOML has
    if isinstance(value, str):
        words = [word.strip() for word in value.split(",")]
        return int(value) if value.isascii() and value.isdecimal() else words
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise HowdahError(f'{where} is neither a number of hosts nor names, as 4 or ["base20", "base21"]')
