"""The Python interface without a network: what it loads, its types, what it refuses, how it is stopped."""

import ast
import asyncio
import importlib
import inspect
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import examples
import pytest

import howdah
from howdah.library.copy import copy_request
from howdah.library.profile import profile
from howdah.remote import process, standby
from howdah.remote.ssh import Login

STUB = Path(howdah.__file__).with_suffix(".pyi")
PROGRAMS = {name: text for name, text in examples.programs().items() if not examples.needs_a_network(text)}


def run(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_importing_it_loads_the_native_module_and_nothing_else() -> None:
    done = run(
        "import sys; before = set(sys.modules)\nimport howdah\n"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('_')))"
    )
    assert done.stdout == "['howdah', 'howdah._native']\n", done.stderr


def test_a_copy_loads_neither_asyncio_nor_numbers() -> None:
    unneeded = {"asyncio", "logging", "numpy", "sqlite3", "howdah.steering", "howdah.probing"}
    done = run(f"import howdah, sys; howdah.copy\nprint({unneeded} & set(sys.modules))")
    assert done.stdout == "set()\n", done.stderr


def test_each_call_that_waits_has_a_twin_for_asyncio() -> None:
    names = set(howdah.__all__)
    calls = {name for name in names if inspect.isfunction(getattr(howdah, name))}
    waits = {name for name in calls if f"a{name}" in calls}
    assert calls == waits | {f"a{name}" for name in waits}


def test_the_types_name_what_there_is() -> None:
    (names,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert sorted(names) == sorted(howdah.__all__)
    for name in names:
        assert getattr(howdah, name) is not None
    assert set(names) <= set(dir(howdah))
    with pytest.raises(AttributeError, match="no attribute 'cp'"):
        howdah.cp  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("call", [howdah.copy, howdah.plan_for, howdah.probe, howdah.select, howdah.verify])
def test_each_argument_is_told_and_the_twin_takes_it(call: object) -> None:
    assert callable(call)
    twin = getattr(howdah, f"a{call.__name__}")
    assert inspect.signature(twin) == inspect.signature(call)
    assert inspect.iscoroutinefunction(twin)
    told = inspect.getdoc(call) or ""
    if "Args:" in told:
        assert [name for name in inspect.signature(call).parameters if f"    {name}: " not in told] == []


def test_a_copy_and_its_request_take_the_same() -> None:
    def taken(function: object) -> dict[str, inspect.Parameter]:
        assert callable(function)
        return dict(inspect.signature(function).parameters)

    asked, request = taken(howdah.copy), taken(copy_request)
    alone = {"src", "dst", "pilot", "on_progress", "bring", "archive"}
    assert asked.keys() - request.keys() == alone
    assert request.keys() - asked.keys() == {"names", "command", "memory", "agree", "before_s"}
    assert all(asked[name] == request[name] for name in asked.keys() - alone)


def rows(heading: str) -> list[tuple[str, set[str]]]:
    """The table below this heading of docs/library.md: each row's first cell, and names in its second."""
    document = (examples.ROOT / "docs/library.md").read_text(encoding="utf-8")
    section = document.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")][1:]
    return [(first, set(re.findall(r"`(\w+)`", second))) for first, second in cells if "---" not in first]


def test_the_page_names_each_argument_of_a_copy() -> None:
    told = [name for _, names in rows("Copy") for name in names]
    assert sorted(told) == sorted(inspect.signature(howdah.copy).parameters.keys() - {"src", "dst"})


def test_the_page_names_each_call_of_the_other_subjects() -> None:
    """All of those modules that are written for programs alone; of others what a program begins with."""
    told, whole = rows("The other subjects"), {"`archive`", "`jobs`", "`recognition`", "`congestion`"}
    for first, names in told:
        modules = [
            importlib.import_module(f"howdah.library.{name}") for name in re.findall(r"`(\w+)`", first)
        ]
        calls = {name for module in modules for name in getattr(module, "__all__", ())}
        assert names <= {name for module in modules for name in dir(module)}
        if first.strip() in whole:
            assert names == {name for name in calls if name[0].islower()}
    assert whole < {first.strip() for first, _ in told}


@pytest.mark.parametrize("call", [howdah.sweep, howdah.send_traffic, howdah.examine, profile])
def test_each_argument_is_told(call: object) -> None:
    told = inspect.getdoc(call) or ""
    assert callable(call)
    assert [name for name in inspect.signature(call).parameters if f"    {name}: " not in told] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_run(name: str, tmp_path: Path) -> None:
    done = run(PROGRAMS[name], XDG_DATA_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of mypy, so that it reads the library once."""
    return tmp_path_factory.mktemp("types")


def typed_strictly(cache: Path, *programs: Path) -> subprocess.CompletedProcess[str]:
    strict = ["--strict", "--no-strict-optional", "--cache-dir", str(cache)]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *strict, *map(str, programs)],
        cwd=programs[0].parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_examples_have_the_types_that_they_say(tmp_path: Path, types: Path) -> None:
    files = []
    for number, (name, text) in enumerate(examples.programs().items()):
        files.append(tmp_path / f"example{number}.py")
        files[-1].write_text(f"# {name}\n{text}")
    done = typed_strictly(types, *files)
    assert done.returncode == 0, done.stdout


def test_a_wrong_argument_of_a_twin_is_found_by_types(tmp_path: Path, types: Path) -> None:
    """A twin has the types of its call: of each line here, they refuse the one that is wrong."""
    wrong = [
        f"howdah.a{call.__name__}(no_such_argument=1)"
        for call in (howdah.copy, howdah.plan_for, howdah.probe, howdah.select, howdah.verify)
    ]
    right = "async def right() -> howdah.Record: return await howdah.acopy('a', 'far:', streams=2)"
    (tmp_path / "twins.py").write_text("\n".join(["import howdah", right, *wrong]))
    said = typed_strictly(types, tmp_path / "twins.py").stdout
    assert re.findall(r"twins\.py:(\d+): error: Unexpected keyword argument \"no_such", said) == [
        "3",
        "4",
        "5",
        "6",
        "7",
    ]
    assert "twins.py:2:" not in said


def test_a_path_object_names_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(howdah.HowdahError, match="both source and destination are on this host"):
        howdah.copy(Path("a:b"), tmp_path)


@pytest.mark.parametrize(
    ("memory", "problem"),
    [
        (howdah.Memory(), "a size or a time"),
        (howdah.Memory(1, 1.0), "a size or a time"),
    ],
)
def test_a_memory_is_a_size_or_a_time(memory: howdah.Memory, problem: str) -> None:
    with pytest.raises(howdah.HowdahError, match=problem):
        howdah.copy(memory, "far:")


def test_a_knob_must_be_one_and_change_something() -> None:
    with pytest.raises(howdah.HowdahError, match=r"fairness=2\.0 is not from 0 to 1; leave it out for 0\.5"):
        copy_request(["a", "far:"], [], fairness=2.0)
    with pytest.raises(
        howdah.HowdahError, match=r"fairness=0\.5 changes nothing with plan='file'; leave one"
    ):
        copy_request(["a", "far:"], [], fairness=0.5, plan="file")


def test_where_the_far_end_does_not_answer_there_is_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOWDAH_SSH", "false")
    with pytest.raises(howdah.HowdahError, match="ended before it answered") as caught:
        howdah.copy(tmp_path, "far:", archive=howdah.archive.Archive(tmp_path / "records"))
    record = caught.value.record
    assert record is not None
    assert (record.error, record.host, record.plan) == (str(caught.value), "far", None)
    assert record.command == ["howdah.copy", str(tmp_path), "far:"]
    assert not (tmp_path / "records").exists(), "nothing was begun, so nothing is kept"


VANISHES = """#!/bin/sh
rm "$0"
"""


@pytest.mark.parametrize("answers", [False, True])
def test_an_ssh_that_cannot_be_started_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """With ``answers`` it can be asked what it would do, and is gone after that."""
    ssh = tmp_path / "ssh"
    monkeypatch.setenv("HOWDAH_SSH", str(ssh))
    counts = []
    for _ in range(3):
        if answers:
            ssh.write_text(VANISHES)
            ssh.chmod(0o755)
        with pytest.raises(howdah.HowdahError, match="ssh is not installed on this host"):
            howdah.plan_for("far")
        counts.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208, of a folder that changes
    assert counts[0] == counts[-1], counts


IGNORES = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-m", "howdah", "doctor", "far"], "howdah: howdah on far ended before it answered (it said"),
        # Linux then tells nobody how a program has ended.
        (["-c", "import howdah\nhowdah.plan_for('far')"], "ConnectionLost: ssh to far failed (it said"),
    ],
)
def test_what_started_a_program_may_ignore_sigchld(words: list[str], says: str, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nsleep 0.2\nexit 1\n")
    ssh.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", IGNORES, *words],
        env={**os.environ, "HOWDAH_SSH": str(ssh)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]


def test_threads_that_begin_copies_at_once_give_back_each_earlier_ssh_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended_ssh() -> process.FarProcess:
        stderr_fd, stderr = os.pipe()
        os.set_blocking(stderr_fd, False)
        pid = process.spawn(["true"], (process.nowhere(), process.nowhere(), stderr))
        return process.FarProcess(cast("Login", None), process.Pipes(-1, -1, stderr_fd, os.pidfd_open(pid)))

    threads, rounds = 8, 40
    before = sys.getswitchinterval()
    ending: list[process.FarProcess] = []
    monkeypatch.setattr(standby, "_ending", ending)
    with ThreadPoolExecutor(threads) as pool:
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(rounds):
                ending.extend(ended_ssh() for _ in range(6))
                assert all(process.readable(each.pidfd, 5.0) for each in ending)
                for done in [pool.submit(standby._reap) for _ in range(threads)]:
                    done.result()
                assert ending == []
        finally:
            sys.setswitchinterval(before)


SILENT = """#!/bin/sh
case "$*" in *" -G "*) exit 0;; esac
echo $$ >>"$0.begun"
exec sleep 60
"""


def test_a_cancelled_task_ends_ssh_and_what_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh, begun = tmp_path / "ssh", tmp_path / "ssh.begun"
    ssh.write_text(SILENT)
    ssh.chmod(0o755)
    monkeypatch.setenv("HOWDAH_SSH", str(ssh))
    pattern = tmp_path / "steady.toml"
    pattern.write_text('name = "steady"\n[[load]]\nkind = "udp"\nrate = "10Mbit"\n')

    async def cancelled() -> float:
        calls = [
            howdah.acopy(tmp_path, "far:"),
            howdah.aplan_for("far"),
            howdah.aprobe("localhost", udp=True),
            howdah.asweep("far"),
            howdah.aexamine("far"),
            howdah.asend_traffic(pattern, "far"),
        ]
        tasks = [asyncio.create_task(call) for call in calls]
        while not begun.exists() or begun.read_text().count("\n") < len(tasks):
            await asyncio.sleep(0.02)
        began_s = time.monotonic()
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError] * len(tasks)
        return time.monotonic() - began_s

    assert asyncio.run(cancelled()) < 4
    for pid in begun.read_text().split():
        assert not Path(f"/proc/{pid}").exists()
