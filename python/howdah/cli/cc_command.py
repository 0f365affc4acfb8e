"""What ``howdah cc`` does: list, load, unload, set, status, attach, detach."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from howdah import HowdahError, document
from howdah.cli.table import WrongLine
from howdah.library import congestion
from howdah.words import cc as report
from howdah.words.terminal import print_parts

T = TypeVar("T")


def list_controls(*, json: bool) -> None:
    """Prints the kernel's congestion controls and howdah's. Raises HowdahError."""
    found = congestion.controls()
    if json:
        document.show(found)
    else:
        print_parts(report.controls(found))


def load(*, name: str, parameters: list[str] | None, json: bool, verbose: bool) -> None:
    """Loads a program and says so. Raises HowdahError."""
    settings = dict(_pair(text) for text in parameters or ())
    _tell(lambda: congestion.load(name, settings), report.loading, json, verbose)
    if name.removeprefix("hd_") != "resume":
        return
    told = congestion.remember_paths()
    if not json:
        for line in report.remembering(told):
            print(line)


def unload(*, name: str, json: bool, verbose: bool) -> None:
    """Takes a program out of the kernel and says so. Raises HowdahError."""
    _tell(lambda: congestion.unload(name), report.unloading, json, verbose)


def set_target(
    *,
    name: str,
    rate: int | None,
    window_packets: int | None,
    none: bool,
    flow: str | None,
    to: str | None,
    port: int | None,
    namespace: int | None,
    rtt: float | None,
    streams: int | None,
    jump_part: float | None,
    valid: float | None,
    then: str | None,
    json: bool,
    verbose: bool,
) -> None:
    """Sets what ``hold`` holds or what ``resume`` knows, and says so. Raises HowdahError."""
    path = {"--rtt": rtt, "--streams": streams, "--jump-part": jump_part, "--for": valid, "--then": then}
    where = {"--to": to, "--port": port, "--namespace": namespace}
    if name.removeprefix("hd_") != "resume":
        _refuse(name, {**where, **path})
        _tell(
            lambda: congestion.set_target(
                name, rate_bps=rate, window_packets=window_packets, none=none, flow=flow
            ),
            report.targeted,
            json,
            verbose,
        )
        return
    _refuse(name, {"--window": window_packets, "--flow": flow})
    if to is None:
        raise WrongLine("say of which destination: --to 10.9.0.0/16")
    if none:
        _refuse("resume with --none", {"--rate": rate, **path})
        _tell(lambda: congestion.forget(to, port=port, namespace=namespace), report.forgotten, json, verbose)
        return
    if rate is None or rtt is None:
        raise WrongLine("give what the path carried: --rate RATE and --rtt TIME, or --none")
    _tell(
        lambda: congestion.remember(
            to,
            port=port,
            namespace=namespace,
            rate_bps=rate,
            rtt_s=rtt,
            streams=1 if streams is None else streams,
            jump_part=jump_part,
            valid_s=3600.0 if valid is None else valid,
            then=then or "cubic",
        ),
        report.remembered,
        json,
        verbose,
    )


def _refuse(name: str, given: dict[str, str | float | None]) -> None:
    for option, value in given.items():
        if value is not None:
            raise WrongLine(f"{name} takes no {option}; see: howdah cc set --help")


def status(*, json: bool, verbose: bool) -> None:
    """Prints what is loaded. Raises HowdahError."""
    found = _guarded(congestion.status, verbose)
    if json:
        document.show(found)
        return
    for number, part in enumerate(report.status(found)):
        if number and not isinstance(part, str):
            print()
        print_parts(part)


def attach(*, cc: str, json: bool, verbose: bool, **where: Any) -> None:  # noqa: ANN401, those of the library's
    """Gives connections a control and says which. Raises HowdahError."""
    _tell(
        lambda: congestion.attach(cc, **where),
        lambda done: report.attaching(done, ended=False),
        json,
        verbose,
    )


def detach(*, json: bool, verbose: bool, **where: Any) -> None:  # noqa: ANN401, those of the library's
    """Ends what ``attach`` began and says what that was. Raises HowdahError."""
    _tell(lambda: congestion.detach(**where), lambda done: report.attaching(done, ended=True), json, verbose)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise WrongLine(f"--set {text} has no value; give for example --set guard_loss=5%")
    return name.strip(), value.strip()


def _tell(act: Callable[[], T], words: Callable[[T], str], json: bool, verbose: bool) -> None:
    done = _guarded(act, verbose)
    if json:
        document.show(done)
    else:
        print(words(done))


def _guarded(act: Callable[[], T], verbose: bool) -> T:
    """What ``act`` gives. What the kernel said to a refused program is a note of the exception."""
    try:
        return act()
    except HowdahError as error:
        if verbose:
            print("\n".join(getattr(error, "__notes__", [])), file=sys.stderr)
        raise
