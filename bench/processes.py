"""Processes of a lab, by the words of their command lines."""

import subprocess
from typing import NamedTuple

from howdah.lab import Lab


class Words(NamedTuple):
    """The processes of one kind: what a command line of theirs has, and what it has not."""

    has: str
    has_not: str


# The ssh of the near end and the shell of the far one have the command of the far end, too.
NEAR, FAR = Words("howdah cp", "ssh "), Words("howdah serve", "ssh ")
"""The two ends of a copy."""


def running(wan: Lab, words: Words) -> list[tuple[int, str]]:
    """The process numbers and command lines of one kind. All hosts of a lab share its process numbers."""
    argv = ["ps", "-ww", "-eo", "pid=,args="]
    listed = wan.run("near", argv, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = (line.strip().partition(" ") for line in listed.splitlines())
    return [
        (int(pid), command)
        for pid, _, command in rows
        if words.has in command and words.has_not not in command and not command.startswith("ps ")
    ]
