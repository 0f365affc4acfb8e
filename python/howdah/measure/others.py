"""Other measurements and copies on this host: two at once would measure each other."""

import os
from pathlib import Path
from typing import NamedTuple

_BUSY = {"cp", "sweep", "traffic"}


class Other(NamedTuple):
    """A howdah that is at work."""

    pid: int
    command: str


def others(proc: Path = Path("/proc")) -> list[Other]:
    """Every process that runs ``howdah cp``, ``sweep`` or ``traffic``, but for this one and its ancestors."""
    own = _ancestry(proc)
    found = []
    for folder in proc.iterdir():
        if folder.name.isdecimal() and int(folder.name) not in own:
            command = _command(folder)
            if command is not None:
                found.append(Other(int(folder.name), f"howdah {command}"))
    return sorted(found)


def _command(folder: Path) -> str | None:
    """The command when it is one of these, as ``howdah cp`` or ``python -m howdah cp``."""
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    interpreter = Path(words[0]).name.startswith("python")
    for place, word in enumerate(words[:-1]):
        own = Path(word).name == "howdah" and (place == 0 or (interpreter and _is_program(words[1:place])))
        if own and words[place + 1] in _BUSY:
            return words[place + 1]
    return None


def _is_program(before: list[str]) -> bool:
    """Whether what follows the interpreter's own options is the program that it runs."""
    return all(word.startswith("-") for word in before)


def _ancestry(proc: Path) -> set[int]:
    pid, found = os.getpid(), set[int]()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            # proc_pid_stat(5): the parent is the second field after the name, which may hold anything.
            pid = int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found
