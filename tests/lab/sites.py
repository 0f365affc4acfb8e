"""Hosts of a lab with a policy and a log of their own, which howdah there sees in its own mount namespace.

Nothing of howdah names another place for its policy, so a test covers the real one, as root can.
"""

import json
import os
import shlex
import socket
import sys
from pathlib import Path

_ENTER = """\
set -e
cp --parents /etc/hosts /etc/ssh/ssh_config "$site"
mount --make-rprivate /
mount -t overlay -o "lowerdir=$site/etc:/etc" overlay /etc
mkdir -p /run/systemd
mount -t tmpfs none /run/systemd
mkdir /run/systemd/journal
mount --bind "$site/journal" /run/systemd/journal
exec "$@"
"""


class Site:
    """One host's /etc/howdah, and a journal that keeps its lines."""

    def __init__(self, folder: Path) -> None:
        """``folder`` has to have a short name: the name of a socket is at most 107 bytes long."""
        self._folder = folder
        self._log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for each in (folder / "etc" / "howdah", folder / "journal"):
            each.mkdir(parents=True)
        self._enter = folder / "enter"
        self._enter.write_text(f"site={shlex.quote(str(folder))}\n{_ENTER}")

    @property
    def prefix(self) -> tuple[str, ...]:
        """What runs a command on this site."""
        return ("unshare", "--mount", "sh", str(self._enter))

    @property
    def howdah(self) -> str:
        """The program that a far end of this site is."""
        program = self._folder / "howdah"
        words = shlex.join([*self.prefix, sys.executable, "-m", "howdah"])
        modules = shlex.quote(os.environ.get("PYTHONPATH", ""))
        program.write_text(f'#!/bin/sh\nexport PYTHONPATH={modules}\nexec {words} "$@"\n')
        program.chmod(0o755)
        return str(program)

    def says(self, policy: str) -> None:
        """Has the administrator say this."""
        file = self._folder / "etc" / "howdah" / "policy.toml"
        file.write_text(policy)
        file.chmod(0o644)

    def logs(self) -> None:
        """Starts the journal."""
        self._log.bind(str(self._folder / "journal" / "socket"))
        self._log.settimeout(10)

    def logged(self) -> dict[str, object]:
        """The next line."""
        fields = self._log.recv(2**20).decode().splitlines()
        (line,) = (each.removeprefix("MESSAGE=copy ") for each in fields if each.startswith("MESSAGE="))
        found: dict[str, object] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends the journal."""
        self._log.close()
