import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from controlled import Controlled, controlled
from guaranteed import POLICY
from test_control_shown import LEADING

from howdah import HowdahError
from howdah.cli import app, control_command
from howdah.control.http.client import ADDRESS_VARIABLE, Client
from howdah.control.status import AskedStatus, Status
from howdah.library import control


@pytest.fixture(scope="module")
def served() -> Iterator[Controlled]:
    with controlled() as here, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ADDRESS_VARIABLE, here.url)
        yield here


def _run(*words: str) -> None:
    assert app.main(["control", *words]) == 0


def _status(capsys: pytest.CaptureFixture[str]) -> Status:
    _run("status", "--json")
    return msgspec.json.decode(capsys.readouterr().out, type=Status)


@pytest.mark.usefixtures("served")
def test_a_class_is_asked_for_waited_for_and_released(capsys: pytest.CaptureFixture[str]) -> None:
    _run("urgent", "start", "images", "--for", "50s", "--who", "me", "--wait")
    assert capsys.readouterr().out == "images is asked for by me\n"
    status = _status(capsys)
    assert status.settled
    assert [(each.traffic_class, each.who) for each in status.asked] == [("images", "me")]
    assert status.asked[0].until_unix_s == pytest.approx(status.unix_s + 50, abs=5)
    images = [flow for flow in status.flows if flow.traffic_class == "images"]
    assert all(flow.share_bps == flow.target_bps and flow.share_bps > 4e8 for flow in images)
    _run("status")
    assert re.search(r"^asked for: images by me for \d+\.0 s more$", capsys.readouterr().out, re.MULTILINE)
    _run("urgent", "stop", "images", "--who", "me", "--json")
    assert json.loads(capsys.readouterr().out)["revision"] > status.revision
    assert _status(capsys).asked == []


def test_who_waits_is_told_which_hosts_are_silent_until_the_request_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why = "no message yet from base21, base22 and base23; check that `howdah control agent` runs there"
    with controlled(silent=("base21", "base22", "base23")) as here:
        words = ["urgent", "start", "images", "--for", "3s", "--who", "me", "--wait", "--at", here.url]
        with pytest.raises(HowdahError) as ended:
            app.main(["control", *words])
        assert str(ended.value) == (
            f"images is no longer asked for by me, and it was not in force in that time: {why}"
        )
        assert capsys.readouterr() == ("", f"howdah: images is not in force yet: {why}\n")


def test_who_waits_is_told_when_the_request_was_released() -> None:
    with controlled(silent=("base21",)) as here:
        told: list[str] = []

        def release(line: str) -> None:
            told.append(line)
            Client(here.url).release("images", "me")

        with pytest.raises(
            HowdahError, match=r"is no longer asked for by me, .*: no message yet from base21;"
        ):
            control.ask("images", who="me", wait=True, at=here.url, tell=release)
        assert len(told) == 1


class _Told(Client):
    """A controller that says what a test wants, and to whom nothing was said yet."""

    statuses: ClassVar[list[Status]] = []
    asked: ClassVar[list[str]] = []

    def status(self) -> Status:
        return self.statuses[0]

    def watch(self) -> Iterator[Status]:
        yield from self.statuses

    def ask(self, name: str, who: str, for_s: int | None = None, host: str | None = None) -> int | None:
        self.asked.append(who)
        return LEADING.revision


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> type[_Told]:
    monkeypatch.setattr(control, "Client", _Told)
    monkeypatch.setattr(_Told, "asked", [])
    return _Told


def test_who_would_wait_at_a_controller_that_stands_by_is_refused_before_anything_is_asked(
    told: type[_Told],
) -> None:
    told.statuses = [msgspec.structs.replace(LEADING, leader="base2-8", settled=False)]
    with pytest.raises(HowdahError) as refused:
        app.main(["control", "urgent", "start", "images", "--wait", "--for", "1h"])
    assert str(refused.value) == (
        "base1-7 stands by, and only the controller that leads, base2-8, can say when images is in force: "
        "give its address with --at, or leave out --wait"
    )
    assert told.asked == []


def test_who_waits_is_told_at_once_when_another_leads(told: type[_Told]) -> None:
    mine = [AskedStatus(traffic_class="images", who="me", until_unix_s=None)]
    before = msgspec.structs.replace(LEADING, settled=False, asked=mine)
    told.statuses = [before, msgspec.structs.replace(before, leader="base2-8")]
    with pytest.raises(
        HowdahError, match=r"^base1-7 does not lead any more, .*base2-8 .*me still asks for it$"
    ):
        control.ask("images", who="me", wait=True)
    assert told.asked == ["me"]


def test_a_standby_takes_orders_that_nobody_waits_for(told: type[_Told]) -> None:
    told.statuses = [msgspec.structs.replace(LEADING, leader="base2-8", settled=False)]
    assert control.ask("images", who="me") == LEADING.revision


@pytest.mark.usefixtures("served")
def test_each_host_is_asked_for_and_released_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("base20", "base21"):
        _run("urgent", "start", "images", "--host", host, "--wait")
        assert capsys.readouterr().out.startswith(f"images on {host} is asked for by ")
    assert [each.host for each in _status(capsys).asked] == ["base20", "base21"]
    _run("status")
    assert re.search(
        r"^asked for: images on base20 by \S+, images on base21 by ", capsys.readouterr().out, re.M
    )
    _run("urgent", "stop", "images", "--host", "base20")
    capsys.readouterr()
    assert [each.host for each in _status(capsys).asked] == ["base21"]
    _run("urgent", "stop", "images", "--host", "base21")
    capsys.readouterr()
    assert _status(capsys).asked == []


@pytest.mark.usefixtures("served")
def test_terms_are_set_and_restored(capsys: pytest.CaptureFixture[str]) -> None:
    _run("set", "background", "--maximum", "50%", "--weight", "3")
    assert capsys.readouterr().out == "background has maximum 50%, weight 3\n"
    assert _status(capsys).changed == {"background": {"maximum": "50%", "weight": 3}}
    _run("status")
    assert "changed: background maximum 50%, weight 3" in capsys.readouterr().out
    _run("set", "background", "--restore")
    assert capsys.readouterr().out == "background has the terms of the policy file again\n"
    assert _status(capsys).changed == {}


@pytest.mark.usefixtures("served")
def test_a_host_is_drained_and_not(capsys: pytest.CaptureFixture[str]) -> None:
    _run("drain", "base23", "--json")
    assert json.loads(capsys.readouterr().out)["revision"] > 0
    assert [host.name for host in _status(capsys).hosts if host.drained] == ["base23"]
    _run("status")
    assert "drained: base23" in capsys.readouterr().out
    _run("undrain", "base23")
    assert capsys.readouterr().out == "base23 has its shares again\n"
    assert not any(host.drained for host in _status(capsys).hosts)


def test_a_watch_tells_line_by_line_until_it_is_stopped(served: Controlled) -> None:
    words = [sys.executable, "-m", "howdah", "control", "watch", "--json", "--at", served.url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    seen = [msgspec.json.decode(line, type=Status) for line in lines]
    assert seen[0].unix_s < seen[1].unix_s < seen[2].unix_s
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr


@pytest.mark.usefixtures("served")
def test_a_term_of_two_words_is_named_as_its_option() -> None:
    with pytest.raises(HowdahError, match=r"so it goes without --most-each$"):
        control_command.set_terms(name="a", restore=True, at=None, json=False, most_each="1%")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["urgent", "start", "videos"], "lsst has no class videos; it has background, images, replication"),
        (["urgent", "start", "images", "--who", "a b"], "who asks for images, 'a b'"),
        (["set", "background"], "say what to set for background, as --maximum 50%, or --restore"),
        (
            ["set", "background", "--weight", "2", "--restore"],
            "--restore gives background the terms of the file, so it goes without --weight",
        ),
        (["set", "background", "--minimum", "99%"], "are together"),
        (["drain", "base9"], "lsst has no host base9; it has base20, base21, base22, base23"),
        (["status", "--at", "127.0.0.1:1"], "check that `howdah control serve` runs there"),
    ],
)
def test_what_cannot_be_ordered_is_refused_in_one_line(words: list[str], says: str) -> None:
    with pytest.raises(HowdahError) as refused:
        app.main(["control", *words])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "none.toml"], "none.toml"),
        (["serve", "POLICY"], "this machine is called elsewhere, and lsst has no such host: say with --host"),
        (
            ["serve", "POLICY", "--host", "base9"],
            "--host base9: lsst has no such host; it has base20, base21",
        ),
        (["serve", "POLICY", "--host", "base20", "--host", "base20"], "--host base20 is given twice"),
        (
            ["serve", "POLICY", "--host", "base20=lsst.toml", "--host", "base21=lsst.toml"],
            "--host base20 and base21 are both the network namespace lsst.toml; give each a network",
        ),
        (
            ["serve", "POLICY", "--host", "base20", "--host", "base21"],
            "base20 and base21 are both this machine",
        ),
        (["serve", "POLICY", "--host", "base20=none"], "--host base20=none: No such file or directory; give"),
        (["serve", "POLICY", "--host", "a.b"], "--host 'a.b': give a name without dots"),
        (["serve", "POLICY", "--nkey", "none"], "NATS: cannot read none: No such file or directory"),
        (["agent", "--controller", "nats://x:1", "--host", "a.b"], "--host 'a.b': give a name without dots"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lsst.toml"
    file.write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere.example")
    with pytest.raises(HowdahError) as refused:
        app.main(["control", *(str(file) if word == "POLICY" else word for word in words)])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


_SERVE = """
import sys
from functools import partial
from atwork import Table
from howdah.cli import app
from howdah.control.bus.leadership import boottime_ns
from howdah.library import control

class Told(Table):
    def __init__(self, name, namespace):
        super().__init__(boottime_ns)
        self.name = name

    def leave(self):
        super().leave()
        print("left", self.name, flush=True)

control.controlling = partial(control.controlling, make_kernel=Told)
hosts = ["--host", "base20", "--host", f"base23={sys.argv[1]}"]
app.main(["control", "serve", sys.argv[1], "--listen", "127.0.0.1:0", *hosts, "--json"])
"""


def test_serving_says_where_and_at_a_signal_puts_all_back(tmp_path: Path) -> None:
    file = tmp_path / "lsst.toml"
    file.write_text(POLICY)
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-c", _SERVE, str(file)]
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        said = ""
        while not said.endswith("}\n"):
            said += process.stdout.readline()
        ready = json.loads(said)
        assert ready["hosts"] == ["base20", "base23"]
        for status in Client(ready["url"]).watch():
            if {host.name for host in status.hosts if host.heard_s is not None} == {"base20", "base23"}:
                break
        assert status.controller == ready["controller"]
        process.terminate()
        out, stderr = process.communicate(timeout=30)
    assert out == "left base20\nleft base23\n"
    assert process.returncode == 143, stderr
    assert "Traceback" not in stderr
