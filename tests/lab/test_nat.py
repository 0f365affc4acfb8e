"""Copies where the addresses of an end are translated on the way (NAT), by nftables on that end's host."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from copying import Copier, tree
from requirement import missing

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

PUBLIC = {"near": "10.99.0.1", "far": "10.99.0.2"}
"""The addresses by which the other end knows an end that is behind a translator."""
FORWARDED = "50000-50020"
"""The ports that the translator in front of the far end hands on, beside that of ssh."""
BEFORE_NEAR = f"""\
table ip nat {{
    chain out {{ type nat hook postrouting priority srcnat; ip daddr 10.77.0.2 snat to {PUBLIC["near"]}; }}
}}
"""
BEFORE_FAR = f"""\
table ip nat {{
    chain in {{
        type nat hook prerouting priority dstnat;
        ip daddr {PUBLIC["far"]} tcp dport {{ 22, {FORWARDED} }} dnat to 10.77.0.2
        ip daddr {PUBLIC["far"]} drop
    }}
}}
table ip6 wall {{
    chain in {{ type filter hook prerouting priority filter; iif lo accept; meta l4proto tcp drop; }}
}}
"""
"""By IPv6, which needs no translator, nothing comes in."""
CLOSED = """\
table inet wall {
    chain input { type filter hook input priority filter; iif lo accept; tcp dport 22 accept
        tcp flags & (syn | ack) == syn drop; }
}
"""
Translate = Callable[[str], None]


@pytest.fixture
def translated(cp: Copier) -> Iterator[Translate]:
    """Puts a translator in front of an end."""
    if shutil.which("nft") is None:
        missing("no nft; install nftables")
    routes = []

    def put(end: str) -> None:
        other = "far" if end == "near" else "near"
        routes.append((other, PUBLIC[end]))
        shown = cp.lab.run(other, ["ip", "-json", "route"], capture_output=True, text=True, check=True).stdout
        (device,) = {route["dev"] for route in json.loads(shown) if route["dst"].startswith("10.77.")}
        cp.lab.run(other, ["ip", "route", "add", PUBLIC[end], "dev", device], check=True)
        rules = BEFORE_NEAR if end == "near" else BEFORE_FAR
        cp.lab.run(end, ["nft", "-f", "-"], input=rules, text=True, check=True)

    yield put
    # While their connections can still end.
    cp.forget_logins()
    for host, address in routes:
        cp.lab.run(host, ["ip", "route", "delete", address], check=True)
    for host in PUBLIC:
        cp.lab.run(host, ["nft", "flush", "ruleset"], check=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    (top / "sub").mkdir(parents=True)
    (top / "sub/small").write_bytes(b"small")
    (top / "big").write_bytes(os.urandom(16 << 20))
    return top


@pytest.fixture
def ssh(cp: Copier, tmp_path: Path) -> str:
    """The ssh that knows the far host by its public address, as ``outside``."""
    of_lab = cp.lab.run("near", ["cat", "/etc/ssh/ssh_config"], capture_output=True, text=True, check=True)
    config = tmp_path / "ssh_config"
    outside = f"Host outside\n  HostName {PUBLIC['far']}\n  HostKeyAlias far\n"
    config.write_text(outside + of_lab.stdout.replace("Host far ", "Host outside far ", 1))
    return f"ssh -F {config}"


def way_of(cp: Copier, *arguments: str | Path, **environment: str) -> tuple[bool, bool]:
    """Makes a copy; whether it went through ssh, and whether the far end connected to this host."""
    done = cp("--json", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)["outcome"]
    return outcome["through_ssh"] is not None, outcome["by_far_end"] is not None


def test_behind_a_translator_the_near_end_copies_straight(
    cp: Copier, translated: Translate, source: Path, tmp_path: Path
) -> None:
    translated("near")
    assert way_of(cp, f"{source}/.", f"far:{tmp_path}/there") == (False, False)
    assert way_of(cp, f"far:{tmp_path}/there/.", tmp_path / "back") == (False, False)
    assert tree(source) == tree(tmp_path / "there") == tree(tmp_path / "back")


def test_behind_a_translator_the_near_end_goes_through_ssh_where_the_far_port_is_closed(
    cp: Copier, translated: Translate, source: Path, tmp_path: Path
) -> None:
    translated("near")
    cp.lab.run("far", ["nft", "-f", "-"], input=CLOSED, text=True, check=True)
    assert way_of(cp, f"{source}/.", f"far:{tmp_path}/there") == (True, False)
    assert tree(source) == tree(tmp_path / "there")


def test_behind_a_translator_the_far_end_is_reached_at_the_ports_that_are_handed_on(
    cp: Copier, translated: Translate, ssh: str, source: Path, tmp_path: Path
) -> None:
    translated("far")
    to = f"outside:{tmp_path}/there"
    assert way_of(cp, "--ports", FORWARDED, f"{source}/.", to, HOWDAH_SSH=ssh) == (False, False)
    assert tree(source) == tree(tmp_path / "there")


def test_behind_a_translator_that_hands_on_ssh_alone_the_far_end_connects(
    cp: Copier, translated: Translate, ssh: str, source: Path, tmp_path: Path
) -> None:
    translated("far")
    to = f"outside:{tmp_path}/there"
    assert way_of(cp, "--ports", "51000-51010", f"{source}/.", to, HOWDAH_SSH=ssh) == (False, True)
    assert tree(source) == tree(tmp_path / "there")
