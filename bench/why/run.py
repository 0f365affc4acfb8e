"""The copies: each case with its bottleneck, and, where its physics do not tell, the same copy without it."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.parts import Run
from bench.why import hold
from bench.why.kinds import MIB, Case
from howdah import HowdahError, lab
from howdah.lab import Lab
from howdah.values.record import Record

PROGRAM = Path(sys.executable).parent / "howdah"
DISK_BYTES = 1200 * MIB
_LONGEST_S = 180
_BLOCK_BYTES = 4 * MIB


def measure(cases: list[Case]) -> Iterator[Run]:
    """The runs of all cases. Needs root; raises HowdahError where a copy fails."""
    with hold.disk(DISK_BYTES) as disk:
        for case in cases:
            yield one(case, disk)


def one(case: Case, disk: hold.Disk) -> Run:
    """A case: where its time went by the copy itself, and by what is known of the bottleneck."""
    source, target = disk.folder / "source", disk.folder / "target"
    _make(case, source)
    if case.disk == "source" and case.files == 1:
        disk.forget(source)
    try:
        control_s = None
        if case.control is not None:
            easy = dataclasses.replace(
                case, link=case.control, options=case.control_options, neighbour=False, files=1
            )
            if case.files > 1:
                _make(
                    dataclasses.replace(case, files=1, size_bytes=case.files * case.size_bytes),
                    disk.folder / "one",
                )
            of = disk.folder / "one" if case.files > 1 else source
            control_s = _moving_s(_copy(easy, disk, of, target)[0])
        record, held_s = _copy(case, disk, source, target)
    finally:
        for path in (source, target, disk.folder / "one"):
            _remove(path)
    found = record.bottleneck
    if found is None:
        raise HowdahError("the record does not say where the time went")
    main = found.shares[0]
    share = sum(each.share for each in found.shares if each.cause in case.causes)
    return {
        "kind": case.kind,
        "seed": case.seed,
        "for_the_test": case.for_the_test,
        "expected": [cause.value for cause in case.causes],
        "named": main.cause.value,
        "right": main.cause in case.causes,
        "share": share,
        "true_share": _truth(case, record, control_s, held_s),
        "total_s": found.total_s,
        "control_s": control_s,
        "faster": found.faster,
        "flags": record.flags,
        "shares": msgspec.to_builtins(found.shares),
        "case": json.loads(json.dumps(dataclasses.asdict(case), default=msgspec.to_builtins)),
    }


def _truth(case: Case, record: Record, control_s: float | None, held_s: float | None) -> float:
    """The part of the time that the bottleneck took, by what is known of it."""
    total_s, moving_s = _total_s(record), _moving_s(record)
    if case.takes_s is not None:
        alone_s = case.takes_s if case.takes_s > 0 else total_s + case.takes_s
    elif control_s is not None:
        alone_s = moving_s - control_s
    elif held_s is not None:
        alone_s = held_s
    else:
        raise AssertionError(case.kind)
    return min(1.0, max(0.0, alone_s / total_s))


def _copy(case: Case, disk: hold.Disk, source: Path, target: Path) -> tuple[Record, float | None]:
    """One copy; its record, and how long a limited processor held it."""
    _remove(target)
    with contextlib.ExitStack() as stack:
        wan = stack.enter_context(lab.started(case.link, sshd=True))
        data = disk.folder / "archive"
        env = {**os.environ, "XDG_DATA_HOME": str(data)}
        # The login and the far end that it leaves are those of the copy.
        _run(wan, [str(PROGRAM), "cp", "--quiet", "--memory", "1MB", "far:"], env)
        if case.neighbour:
            stack.enter_context(hold.neighbour(wan))
        argv = [str(PROGRAM), "cp", "--json", *_arguments(case, disk, source, target)]
        processor = None
        if case.processor is not None:
            processor = stack.enter_context(hold.Processor(case.processor))
        stack.enter_context(disk.at(case.disk_bps))
        made = _run(wan, argv, env, processor, case)
        held_s = None if processor is None else processor.held_s()
        shutil.rmtree(data, ignore_errors=True)
        return msgspec.json.decode(made, type=Record), held_s


def _run(
    wan: Lab,
    argv: list[str],
    env: dict[str, str],
    processor: hold.Processor | None = None,
    case: Case | None = None,
) -> bytes:
    with contextlib.ExitStack() as stack:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = stack.enter_context(wan.popen("near", argv, env=env, **pipes))
        if processor is not None and case is not None:
            end = b"cp" if case.limited == "near" else b"serve"
            stack.enter_context(processor.taking(end, process.inner_pid))
        try:
            output, errors = process.communicate(timeout=_LONGEST_S)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise HowdahError(f"{' '.join(argv)}: {errors.decode(errors='replace')}")
    return bytes(output)


def _arguments(case: Case, disk: hold.Disk, source: Path, target: Path) -> list[str]:
    options = list(case.options)
    if case.pacing_bps is not None:
        plan = {"streams": 2, "block_bytes": _BLOCK_BYTES, "pacing_bps": case.pacing_bps // 2}
        file = disk.folder / "plan.json"
        file.write_text(json.dumps({"schema": 1, **plan}))
        options += ["--plan", str(file)]
    if case.memory:
        return ["--memory", f"{case.size_bytes}B", *options, "far:"]
    recursive = ["-r"] if case.files > 1 else []
    ends = [str(source), f"far:{target}"] if case.push else [f"far:{source}", str(target)]
    return [*recursive, *options, *ends]


def _make(case: Case, path: Path) -> None:
    """The source: one file, or a tree of small ones."""
    if case.memory:
        return
    if case.files == 1:
        with path.open("wb") as stream:
            left = case.size_bytes
            while left > 0:
                left -= stream.write(os.urandom(min(left, MIB)))
            stream.flush()
            os.fsync(stream.fileno())
        return
    content = os.urandom(case.size_bytes)
    for number in range(case.files):
        if number % 1000 == 0:
            folder = path / f"{number // 1000:04}"
            folder.mkdir(parents=True)
        (folder / f"{number}").write_bytes(content)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _total_s(record: Record) -> float:
    if record.bottleneck is None:
        raise HowdahError("the record does not say where the time went")
    return record.bottleneck.total_s


def _moving_s(record: Record) -> float:
    if record.outcome is None or record.outcome.moving_s is None:
        raise HowdahError("the copy has moved nothing")
    return record.outcome.moving_s
