"""The two hosts: names, addresses, and how a namespace becomes one of them.

Every lab uses the same addresses; its namespaces are its own. A host has no route but the link.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from howdah._native import HowdahError
from howdah.lab.link import LinkSpec

Host = Literal["near", "far"]
HOSTS: tuple[Host, Host] = ("near", "far")

ADDRESSES: dict[Host, str] = {"near": "10.77.0.1", "far": "10.77.0.2"}
ADDRESSES6: dict[Host, str] = {"near": "fd77::1", "far": "fd77::2"}
IPV6_MTU_BYTES_MIN = 1280

CONGESTION_CONTROL = "cubic"
"""What a lab's sockets use unless they choose: Linux's own default, whatever the machine's is."""

BUFFER_BYTES_MIN = 64 * 2**20
BUFFER_BYTES_MAX = 2**31 - 1
"""The sysctls are ints."""
UNSHAPED_BPS = 40_000_000_000
"""More than one machine carries over an unshaped link."""


def buffer_bytes(link: LinkSpec) -> int:
    """The largest socket buffer in a lab: four BDP, so that no buffer but the one under test limits.

    Linux takes up to half of a receive buffer for its bookkeeping, and CUBIC overshoots the path by
    its queue, another BDP by default.
    """
    return min(max(4 * link.bdp_bytes_max(UNSHAPED_BPS), BUFFER_BYTES_MIN), BUFFER_BYTES_MAX)


def has_ipv6(link: LinkSpec) -> bool:
    """Whether the hosts get IPv6 addresses: the kernel has it and the link's MTU allows it."""
    return Path("/proc/sys/net/ipv6").is_dir() and link.mtu >= IPV6_MTU_BYTES_MIN


def configure(
    host: Host, namespace: str, device: str, link: LinkSpec, sysctls: Mapping[str, str]
) -> list[str]:
    """Makes ``host`` of the namespace at the path ``namespace``, whose ``device`` is up.

    Returns what it must do without, a line each. Raises HowdahError when it gets no addresses.
    """
    script = [f"printf %s '{value}' >{name} || echo {name}" for name, value in sysctls.items()]
    script.append("exec ip -batch -")
    result = subprocess.run(
        ["nsenter", f"--net={namespace}", "--", "sh", "-c", "\n".join(script)],
        cwd="/proc/sys/net",
        input="\n".join(_addresses(host, device, link)) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise HowdahError(f"cannot set up the {host} host: {_first_line(result.stderr)}")
    return [
        f"on the {host} host net.{name.replace('/', '.')} could not be set to {sysctls[name]}"
        for name in result.stdout.split()
    ]


def _addresses(host: Host, device: str, link: LinkSpec) -> list[str]:
    peer: Host = "near" if host == "far" else "far"
    lines = [
        f"link set {device} arp off",
        f"address add {ADDRESSES[host]} peer {ADDRESSES[peer]} dev {device}",
    ]
    if has_ipv6(link):
        lines.append(f"address add {ADDRESSES6[host]} peer {ADDRESSES6[peer]} dev {device} nodad")
    return lines


def sysctls(link: LinkSpec, congestion_control: str) -> dict[str, str]:
    """Settings of one namespace, by path below /proc/sys/net."""
    most = buffer_bytes(link)
    return {
        # Autotuning must reach what the link can carry; the first two numbers are the kernel's own.
        "ipv4/tcp_rmem": f"4096 131072 {most}",
        "ipv4/tcp_wmem": f"4096 16384 {most}",
        # Otherwise a connection starts with what the one before it learned, and runs depend on their order.
        "ipv4/tcp_no_metrics_save": "1",
        "ipv4/tcp_congestion_control": congestion_control,
        # Losses of the link must not be taken for a smaller MTU.
        "ipv4/tcp_mtu_probing": "0",
        # Without root, not even sshd on port 22 is root (sshd.py).
        "ipv4/ip_unprivileged_port_start": "0",
    }


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "no message"
