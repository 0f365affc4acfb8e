"""The command line: what it loads and when, its mistakes in one line, its help and version."""

import os
import re
from pathlib import Path

import pytest
from samples import howdah, python

from howdah import __version__
from howdah.cli import app
from howdah.remote.answers import explain
from howdah.values.plan import Plan


@pytest.mark.parametrize(
    ("line", "ssh"),
    [
        (["/etc/hostname", "far:/y"], "far"),
        (["-q", "--streams=2", "/etc/hostname", "--cc", "cubic", "far:/y"], "far"),
        (["--far-howdah", "/opt/howdah", "--", "/etc/hostname", "far:/y"], "far"),
        (["--memory", "1MiB", "far:"], "far"),
        (["me@dtn1:x", "dtn2:y"], "me@dtn1"),
        (["a", "b"], None),
        (["--path", "guaranteed", "--class", "images", "/etc/hostname", "far:/y"], None),
    ],
)
def test_ssh_starts_before_anything_else_is_loaded(line: list[str], ssh: str | None) -> None:
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import howdah.remote.standby as standby\n"
        "def far(host, command, patience_s, **_):\n"
        "    heavy = {'howdah.transfer.run', 'msgspec', 'argparse', 'rich', 're', 'pathlib', 'typing'}\n"
        "    print(host, sorted(heavy & set(sys.modules) - before))\n"
        "    raise SystemExit(7)\n"
        "standby.FarSession = far\n"
        f"sys.argv = ['howdah', 'cp', *{line!r}]\n"
        "from howdah.__main__ import main\n"
        "main()"
    )
    done = python(code, HOWDAH_CONTROL="127.0.0.1:1")
    if ssh is None:
        assert (done.returncode, done.stdout) == (1, "")
    else:
        assert (done.returncode, done.stdout) == (7, f"{ssh} []\n"), done.stderr


def test_a_plain_copy_loads_no_library_that_it_does_not_need() -> None:
    code = (
        "import sys; sys.argv = ['howdah', 'cp', 'a', 'b']\n"
        "from howdah.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 1\n"
        "assert __import__('gc').isenabled()\n"
        "unneeded = {'argparse', 'rich', 'pydantic', 'hashlib', 'inspect', 'subprocess', 'tempfile'}\n"
        "assert not unneeded & set(sys.modules)"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "use: cp -a" in done.stderr


def test_ctrl_c_while_ssh_starts_is_told_in_one_line(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\ncase " $* " in *" -G "*) exit 0 ;; esac\nkill -INT $PPID\nexec sleep 5\n')
    ssh.chmod(0o755)
    done = howdah("cp", "/etc/hostname", "far:/x", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "howdah: interrupted by SIGINT\n")


def test_ctrl_c_after_a_command_has_ended_changes_nothing() -> None:
    code = (
        "import os, signal, sys\n"
        "class Last:\n"
        "    def __del__(self, kill=os.kill, mine=os.getpid(), number=signal.SIGINT): kill(mine, number)\n"
        "sys.modules['last'] = Last()\n"
        "sys.argv = ['howdah', '--version']\n"
        "from howdah.__main__ import main\n"
        "main()"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("loading", ["howdah.guarded", "howdah.cli.app"])
def test_ctrl_c_before_a_command_has_handlers_is_told_in_one_line(loading: str) -> None:
    code = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {loading!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.argv = ['howdah', 'archive', 'ls']\n"
        "from howdah.__main__ import main\n"
        "main()"
    )
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "howdah: interrupted by SIGINT\n")


@pytest.mark.parametrize(
    ("status", "stderr", "says"),
    [
        (255, "ssh: Could not resolve hostname nowhere: Name or service not known", "unknown host dtn2"),
        (
            255,
            "ssh: connect to host dtn2 port 22: Connection refused",
            "refuses ssh: .* port 22 there; start sshd",
        ),
        (
            255,
            "ssh: connect to host dtn2 port 2222: Connection refused",
            " port 2222 .* -p in the ssh command",
        ),
        (255, "kex: Connection refused", "nothing listens on that port"),
        (255, "ssh: connect to host dtn2 port 22: Connection timed out", "did not answer ssh"),
        (255, "ssh: connect to host dtn2 port 22: No route to host", "no route to dtn2"),
        (255, "Host key verification failed.", "ssh dtn2 true"),
        (
            255,
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "-R dtn2",
        ),
        (255, "me@dtn2: Permission denied (publickey,password).", "refuses the login"),
        (255, "kex_exchange {odd}", r"failed \(kex_exchange \{odd\}\)"),
        (255, "", "it said nothing"),
        (
            127,
            "bash: line 1: howdah: command not found",
            "install it there as docs/install.md says.*--far-howdah",
        ),
        (126, "Permission denied", "cannot be run"),
        (-9, "", "signal 9"),
        (1, "Welcome\nhowdah: no memory; buy some", "^dtn2: no memory; buy some$"),
        (3, "", "ended before it answered"),
    ],
)
def test_why_the_far_end_did_not_answer(status: int, stderr: str, says: str) -> None:
    sentence = explain("dtn2", status, stderr)
    assert "\n" not in sentence
    assert says.strip("^$") == sentence if says.startswith("^") else re.search(says, sentence)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["cp", "a", "b"], 1, "howdah: both source and destination are on this host; use: cp -a"),
        (["cp"], 2, "howdah: Missing argument 'SRC... DST'; see: howdah cp --help"),
        (["cc", "attach", "--ports", "1"], 2, "howdah: Missing option '--cc'; see: howdah cc attach --help"),
        (["cc", "detach", "--ports", "1"], 2, "howdah: say which connections: by a prefix they go to, by a "),
        (["cp", "--odd", "a", "b:c"], 2, "howdah: No such option"),
        (["cp", "--path", "odd", "a", "b:c"], 2, "'--path': odd is not one of shared, dedicated, guaranteed"),
        (
            ["cp", "--memory", "10", "b:"],
            2,
            "Invalid value for '--memory': 10 is neither a size, as 10GiB, nor a time, as 10s",
        ),
        (["cp", "--memory", "9000h", "b:"], 1, "howdah: --memory 9000h is not from 0 s to "),
        (["cp", "--streams", "many", "/", "b:c"], 2, "'--streams': many is not a whole number"),
        (["cp", "--streams", "9" * 5000, "/", "b:c"], 2, " is not a whole number; see: howdah cp --help"),
        (["cp", "--buffer", "big", "/", "b:c"], 2, "Invalid value for '--buffer': "),
        (["cp", "--pace", "fast", "/", "b:c"], 2, "Invalid value for '--pace': "),
        (["cp", "--fairness", "much", "/", "b:c"], 2, "'--fairness': much is not a number"),
        (["cp", "--fairness", "120%", "/", "b:c"], 1, "howdah: --fairness 120% is not from 0 to 1"),
        (
            ["cp", "--patience", "long", "/", "b:c"],
            2,
            "'--patience': long is not a time; give for example 5min",
        ),
        (["cp", "--patience", "30h", "/", "b:c"], 1, "howdah: --patience 30h is not from 0 s to 24 h"),
        (["cp", "--ports", "9-x", "/", "b:c"], 2, "'--ports': 9-x is not a range of ports; give"),
        (["cp", "--max-delete", "-1", "--delete", "/", "b:c"], 1, "howdah: --max-delete -1 is "),
        (["cp", "--limit", "1bit", "/", "b:c"], 1, "howdah: --limit 1bit: 1bit is below 8kb/s; to stop"),
        (["cp", "--streams", "0", "/", "b:c"], 1, "howdah: --streams 0 is not from 1 to 128; leave it out"),
        (["cp", "--streams", "129", "/", "b:c"], 1, "howdah: --streams 129 is not from 1 to 128"),
        (
            ["cp", "--buffer", "1kB", "/", "b:c"],
            1,
            "howdah: --buffer 1kB is not from 4.10 kB to 1.07 GB; leave it out",
        ),
        (
            ["cp", "--pace", "1bit", "/", "b:c"],
            1,
            "howdah: --pace 1bit is not from 8.00 kb/s to 1000 Tb/s; leave it out",
        ),
        (["cp", "a"], 2, "howdah: a copy needs a source and a destination; write: howdah cp SRC… DST"),
        (["cp", "--streams", "-1", "a", "b:c"], 1, "howdah: --streams -1 is not from 1 to 128; leave it out"),
        (
            ["cp", "--streams", "1.5", "a", "b:c"],
            2,
            "Invalid value for '--streams': 1.5 is not a whole number",
        ),
        (
            ["cp", "-l", "0", "a", "b:c"],
            1,
            "howdah: -l 0 is below 8kb/s; to stop a copy",
        ),
        (["cp", "-l", "9" * 30, "a", "b:c"], 1, "999 is too high a rate; use for example --limit 100Mbit"),
        (
            ["cp", "-q", "--bwlimit=0.5", "a", "b:c"],
            1,
            "howdah: --bwlimit 0.5 is below 8kb/s; to stop a copy",
        ),
        (["cp", "no such file", "b:c"], 1, "howdah: cannot read no such file: No such file or directory"),
        (["archive", "show", "last"], 1, "howdah: no record yet in "),
        (["doctor", "--rate", "10"], 2, "Invalid value for '--rate': "),
        (["probe", "--for", "0s", "x"], 2, "Invalid value for '--for': 0s is not from 1 s to 1 h; see: "),
        (["probe", "--for", "2h", "x"], 2, "Invalid value for '--for': 2h is not from 1 s to 1 h; see: "),
        (["probe", "--active", "--for", "1s", "x"], 2, "howdah: --for 1s leaves no time for bursts, which"),
        (["probe", "--for", "10", "x"], 2, "Invalid value for '--for': "),
        (["archive", "ls", "--kind", "nosuch"], 2, "nosuch is not one of transfer, traffic, probe, link"),
        (["archive", "prune"], 2, "howdah: choose the records to remove"),
        (["doctor", "--ports", "9-x"], 2, "Invalid value for '--ports': 9-x is not a range of ports; give"),
        (["cc", "attach", "--to", "nowhere", "--cc", "cubic"], 2, "howdah: "),
        (["cc", "load", "hold", "--set", "guard_loss=x"], 2, "howdah: parameter guard_loss of hold: "),
        (
            ["cc", "load", "hold", "--set", "guard_loss=0.01%"],
            2,
            "parameter guard_loss of hold: 0.01% is out",
        ),
        (["cc", "load", "hold", "--set", "nosuch=1"], 2, 'howdah: hold has no parameter "nosuch"; it has '),
        (["cc", "load", "hold", "--set", "=1"], 2, 'howdah: hold has no parameter ""; it has '),
        (["cc", "set", "hold"], 2, "howdah: give what to hold: one of --rate, --window and --none"),
        (["cc", "set", "hold", "--none", "--flow", "x"], 2, 'howdah: flow "x" is none; write 10.9.0.2:5201'),
        (["cc", "set", "hold", "--none", "--flow", "::1:5"], 2, 'howdah: flow "::1:5" is none; write '),
        (["cc", "set", "resume", "--to", "x", "--none"], 2, 'howdah: prefix "x" begins with no IP address'),
        (
            ["cc", "set", "resume", "--to", "x", "--rate", "1Gbit", "--rtt", "1ms"],
            2,
            'howdah: prefix "x" begins with no IP address',
        ),
        (["sweep", "x", "--for", "0s"], 2, "howdah: --for 0s is not above 0; give more, or leave it out"),
        (["lab", "run", "--host", "x", "--", "true"], 2, "howdah: --host: no host is called x; this lab has"),
        (["lab", "run", "--cc", "x", "--", "true"], 1, "howdah: --cc x is not in this kernel, which has "),
        (["cc", "load", "nosuch"], 2, "Invalid value for 'NAME': nosuch is not one of "),
        (["help", "nosuch"], 2, "howdah: there is no help on nosuch"),
        (["control", "urgent", "start", "a", "--for", "soon"], 2, "Invalid value for '--for': "),
        (["shared", "train", "x", "-o", "y.npz", "--classifier", "x"], 2, "x is not one of "),
        (["shared", "train", "x", "-o", "y.npz", "--window", "10"], 2, "Invalid value for '--window': "),
        (["control", "urgent", "start", "a", "--for", "0s"], 2, "Invalid value for '--for': 0s is below 1 s"),
        (
            ["control", "set", "a", "--weight", "0"],
            2,
            "Invalid value for '--weight': 0 is not from 1 to 10,000",
        ),
        (
            ["control", "set", "a", "--priority", "101"],
            2,
            "Invalid value for '--priority': 101 is not from 0 to 100",
        ),
        (["lab", "run", "--rate", "{rate}", "--", "true"], 2, '--rate: rate "{rate}" is not a number with'),
        (["lab", "up", "{x}"], 2, "howdah: '{x}' is not a lab name; give 1 to 32 letters"),
        (["limit", "x", "fast"], 2, "howdah: the limit fast: fast is not a rate; give for example"),
        (["cp", "--limit", "fast", "/", "b:"], 2, "'--limit': fast: fast is not a rate; give for"),
        (
            ["cp", "--memory", "1B", "a"],
            1,
            "howdah: --memory takes a far host and no files; write it as HOST:",
        ),
        (["cp", "--manifest", "x", "/etc/hostname", "b:"], 1, "howdah: --manifest x does not say which"),
        (["cp", "--metrics", "70000", "/etc/hostname", "b:"], 1, "howdah: --metrics 70000 is not a port"),
        (["lab", "run", "--rate", "1000", "--", "true"], 2, "howdah: --rate: "),
        (["lab", "run", "--rate", "0bit", "--", "true"], 2, "howdah: --rate is 0 b/s; it must be "),
        (["lab", "run", "--seed", "-1", "--", "true"], 2, "howdah: --seed: -1 is not a whole number"),
        (["lab", "run", "--left", "2", "--", "true"], 2, "howdah: --left: a pair of hosts has no LAN"),
        (["lab", "run", "--schedule", "/no/such", "--", "true"], 1, "howdah: cannot read /no/such"),
        (["select"], 2, "howdah: the round trip is missing; give --rtt, or --host to measure it"),
        (["select", "--rtt", "0ms"], 2, "howdah: --rtt 0s is not above 0; give more, or leave it out"),
        (["select", "--rtt", "9"], 2, "Invalid value for '--rtt': "),
        (["doctor", "--rate", "0Mbit"], 2, "howdah: --rate 0 is not above 0; give more"),
        (["cp", "--patience", "25h", "/", "b:"], 1, "howdah: --patience 25h is not from 0 s to 24 h; leave"),
        (["select", "--rtt", "9ms", "--path", "x"], 1, "howdah: nothing was measured on 'x'; measured: none"),
        (["nothing"], 2, "howdah: No such command 'nothing'"),
        (["prob", "far"], 2, "howdah: No such command 'prob', nearest is 'probe'; see: howdah --help"),
        (["probe", "--bursts", "/no/such", "x"], 1, "No such file or directory; see: howdah probe --help"),
        (["serve", "now"], 2, "howdah: serve takes no word 'now'; serve is the far end"),
        (["serve", "--root"], 2, "howdah: --root of serve needs a value; serve is the far end"),
        (["serve", "--read-only"], 2, "howdah: --read-only is of a folder; give it with --root DIR"),
        (["serve", "--root", "/no/such"], 1, "howdah: cannot serve /no/such: No such file or directory"),
        (["serve", "--root=/proc/version"], 1, "howdah: cannot serve /proc/version: Not a directory"),
        (["standby"], 2, "howdah: standby is started by a copy"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(
    arguments: list[str], code: int, says: str, tmp_path: Path
) -> None:
    done = howdah(*arguments, XDG_DATA_HOME=str(tmp_path), HOWDAH_SSH="false")
    assert done.returncode == code
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_has_examples_and_the_version_is_the_wheels() -> None:
    assert "howdah cp run42/ dtn2:/archive/" in howdah("cp", "--help").stdout
    assert howdah("--version").stdout.startswith("howdah 0.")
    everything = howdah("--help").stdout
    assert all(f"  {command}" in everything for command in ("cp", "doctor", "archive"))


def test_a_plan_in_short() -> None:
    plan = Plan(streams=1, congestion_control="cubic", block_bytes=2**20, encrypt=False, pacing_bps=10**9)
    assert plan.in_short() == "1 stream, cubic, buffers autotuned, paced at 1.00 Gb/s a stream, plaintext"


def test_the_version_names_the_commit_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "__file__", str(tmp_path / "cli/app.py"))
    assert app.main(["--version"]) == 0
    assert capsys.readouterr().out == f"howdah {__version__}\n"
    (tmp_path / "commit").write_text("0123abc-dirty\n")
    assert app.main(["--version"]) == 0
    assert capsys.readouterr().out == f"howdah {__version__} (0123abc-dirty)\n"


def test_a_value_that_cannot_be_read_starts_no_ssh(tmp_path: Path) -> None:
    ssh, started = tmp_path / "ssh", tmp_path / "started"
    ssh.write_text(f"#!/bin/sh\ntouch {started}\nexit 255\n")
    ssh.chmod(0o700)
    for option, value in (("--streams", "x"), ("--patience", "x"), ("--buffer", "x"), ("--limit", "x")):
        assert howdah("cp", option, value, "/etc/hostname", "b:", HOWDAH_SSH=str(ssh)).returncode == 2
    assert not started.exists()
    assert howdah("cp", "/etc/hostname", "b:", HOWDAH_SSH=str(ssh)).returncode == 1
    assert started.exists()
