"""What ``howdah lab`` does: emulated WANs on this machine."""

import os
import shutil
import signal
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from howdah import HowdahError, document
from howdah._native import format_duration
from howdah.library import lab
from howdah.library.lab import LabEntry, LabReady
from howdah.values.link import LinkStats
from howdah.words.lab import in_short, tables
from howdah.words.terminal import print_parts


def run(
    *,
    command: list[str],
    host: str | None,
    sshd: bool,
    cc: str | None,
    schedule: Path | None,
    stats: bool,
    json_stats: str | None,
    **options: Any,  # noqa: ANN401, those of a lab
) -> int:
    """Runs a command in a lab of its own and returns its exit code. Raises HowdahError.

    ``options`` are the fields of ``LabOptions``.
    """
    asked = lab.LabOptions(**options)
    setup = lab.lab_setup(asked, schedule, sshd=sshd, congestion_control=cc, command=command, host=host)
    _require(command[0])
    with _output(json_stats) as file:
        exit_code, done = lab.run(setup, _tell_notes)
        if file:
            file.write(document.encode(done).decode())
    if stats:
        Console(stderr=True).print(*tables(done), sep="\n")
    _warn(done)
    return exit_code


def up(
    *,
    name: str,
    sshd: bool,
    cc: str | None,
    schedule: Path | None,
    json: bool,
    **options: Any,  # noqa: ANN401, as above
) -> None:
    """Brings up a lab that stays, and says how to enter it. Raises HowdahError."""
    setup = lab.lab_setup(lab.LabOptions(**options), schedule, sshd=sshd, congestion_control=cc)
    ready = lab.up(name, setup)
    _tell_notes(ready)
    if json:
        document.show(
            {
                "name": name,
                "pid": ready.pid,
                "hosts": {host.name: host.address for host in setup.topology.hosts},
                "environment": ready.environment,
                "notes": ready.notes,
            }
        )
    else:
        enter = f"howdah lab exec {name} {setup.topology.left[0]} -- sh"
        print(f"{name} is up: {in_short(setup.link, setup.topology)}; enter with: {enter}")


def execute(*, name: str, host: str, command: list[str]) -> int:
    """Runs a command on one of a lab's hosts and returns its exit code. Raises HowdahError."""
    entry = lab.find(name)
    # Options are looked for up to NAME only, so the -- that may follow HOST is still here.
    command = command[1:] if command[0] == "--" else command
    if not command:
        raise HowdahError(f"no command; write: howdah lab exec {name} {host} -- COMMAND")
    _require(command[0])
    # A Ctrl-C is the command's; it decides what comes of it.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    process = lab.start(entry, host, command)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda taken, _: process.send_signal(taken))
    code = process.wait()
    return code if code >= 0 else 128 - code


def show_stats(*, name: str, json: bool) -> None:
    """Prints what a lab's link did. Raises HowdahError."""
    found = lab.stats(lab.find(name))
    if json:
        document.show(found)
    else:
        print_parts(*tables(found))
    _warn(found)


def list_labs(*, json: bool) -> None:
    """Prints the labs that are up."""
    labs = lab.living()
    if json:
        document.show(
            [
                {
                    "name": entry.name,
                    "made_at": entry.made_at,
                    "pid": entry.lab.pid,
                    "link": entry.link,
                    "topology": entry.topology,
                }
                for entry in labs
            ]
        )
        return
    if not labs:
        print("no lab is up; bring one up with: howdah lab up NAME --rate 10Gbit --rtt 100ms")
        return
    table = Table("name", "link", "up for", "machine", box=None, pad_edge=False)
    for entry in labs:
        age_s = (datetime.now(UTC) - entry.made_at).total_seconds()
        link = in_short(entry.link, entry.topology)
        table.add_row(entry.name, link, format_duration(age_s), _machine_words(entry))
    print_parts(table)


def down(*, name: str, json: bool) -> None:
    """Ends a lab and says so. Raises HowdahError."""
    last = lab.down(name)
    if json:
        document.show({"name": name, "stats": last})
    else:
        print(f"{name} is down")
    if last:
        _warn(last)


def _require(program: str) -> None:
    """Exits as a shell does when ``program`` cannot be run."""
    if shutil.which(program) is None:
        exists = os.sep in program and Path(program).exists()
        why = "is not executable" if exists else "was not found"
        print(f"howdah: command {program} {why}; check its name, or PATH", file=sys.stderr)
        raise SystemExit(126 if exists else 127)


def _output(name: str | None) -> Any:  # noqa: ANN401, a context with a text file or nothing
    """Where the statistics go; opened first, so that a long run is not lost to a bad name."""
    if name is None:
        return nullcontext()
    if name == "-":
        return nullcontext(sys.stdout)
    try:
        return Path(name).open("w", encoding="utf-8")
    except OSError as error:
        raise HowdahError(f"cannot write {name}: {error.strerror}") from None


def _tell_notes(ready: LabReady) -> None:
    for note in ready.notes:
        print(f"howdah: note: {note}", file=sys.stderr)


def _warn(stats: LinkStats) -> None:
    warning = stats.warning()
    if warning:
        red, plain = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
        print(f"{red}howdah: warning: {warning}{plain}", file=sys.stderr)


def _machine_words(entry: LabEntry) -> str:
    words = {True: "kept up", False: "[red]too slow[/red]", None: "[red]does not answer[/red]"}
    return words[lab.kept_up(entry)]
