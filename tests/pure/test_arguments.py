"""What calls of the library refuse: in words that name the argument, before anything is done."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_pilot import progress

import howdah
from howdah import HowdahError
from howdah.arguments import BadArgument, Refusing, check_within, literal
from howdah.bounds import PROBED_S
from howdah.cli.copy_command import request
from howdah.cli.cp import COMMANDS
from howdah.cli.table import read
from howdah.control.http.address import Listening, open_socket
from howdah.lab import messages
from howdah.library import archive, congestion, jobs, recognition
from howdah.library.control import Site, agents
from howdah.library.copy import _plain_memory, _Progress, carry_out
from howdah.library.lab import LabOptions, lab_setup
from howdah.transfer.pilot import asked
from howdah.values.link import BadLink, Burst, checked
from howdah.verification.lists import algorithm_of

HUGE = 10**40
ANYTHING: Any = howdah
"""The calls as a program without types sees them."""
LAB: Any = howdah.Lab(howdah.lab.symmetric(10**9, 10**6))
"""A lab that is not up."""


@pytest.fixture(autouse=True)
def nothing_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOWDAH_SSH", "no-ssh-is-started")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def copying(**given: object) -> Callable[[], object]:
    return lambda: ANYTHING.copy("run42/", "far:x/", **given)


def serving(site: Site) -> None:
    with agents(site, make_kernel=ANYTHING):
        pass


def listening(address: str = "127.0.0.1:0", key: Path | None = None) -> None:
    open_socket(Listening(address=address, key=key))


def memory(**given: object) -> Callable[[], object]:
    return lambda: ANYTHING.copy(ANYTHING.Memory(**given), "far:")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            copying(path="nosuch"),
            "path='nosuch' is not a kind of path; give one of shared, dedicated",
        ),
        (copying(path="../x"), "path='../x' is not a kind of path"),
        (
            lambda: ANYTHING.plan_for("far", path="run"),
            "path='run' is not a kind of path; give one of sh",
        ),
        (lambda: ANYTHING.plan_for("a", "far:", path="run"), "path='run' is not a kind of path"),
        (copying(streams=0), "streams=0 is not from 1 to 128; leave it out to take the plan's"),
        (copying(buffer_bytes=-1), "buffer_bytes=-1 is not from 4.10 kB to 1.07 GB; leave it out"),
        (copying(buffer_bytes=HUGE), f"buffer_bytes={HUGE} is not from"),
        (copying(pacing_bps=-1), "pacing_bps=-1 is not from 8.00 kb/s to 1000 Tb/s"),
        (copying(pacing_bps=HUGE), f"pacing_bps={HUGE} is not from"),
        (copying(patience_s=math.nan), "patience_s=nan is not from 0 s to 24 h; leave it out for 5 min"),
        (copying(fairness=math.nan), "fairness=nan is not from 0 to 1"),
        (copying(ports=(9, 8)), "ports=(9, 8) is no range of ports, which are 1 to 65535"),
        (copying(delete=True, max_delete=-1), "max_delete=-1 is below 0; leave it out"),
        (copying(size_only=True, ignore_times=True), "size_only skips what ignore_times sends; leave one"),
        (copying(verify=True, dry_run=True), "dry_run copies nothing, so there is nothing for verify"),
        (memory(for_s=math.nan), "for_s=nan is not from 0 s to 365 d; give for example 10 s"),
        (memory(for_s=math.inf), "for_s=inf is not from 0 s to 365 d"),
        (memory(for_s=-1), "for_s=-1 is not from 0 s to 365 d"),
        (memory(size_bytes=-1), "size_bytes=-1 is below 0; give for example 10**10"),
        (lambda: howdah.plan_for("far", size_bytes=HUGE), f"size_bytes={HUGE} is too large"),
        (lambda: howdah.select(rtt_s=-1), "rtt_s=-1 is not above 0; give more, or leave it out"),
        (lambda: howdah.select(rtt_s=math.nan), "rtt_s=nan is not a number; give one that is"),
        (lambda: howdah.select(rtt_s=0.1, capacity_bps=math.inf), "capacity_bps=inf is not finite"),
        (howdah.select, "the round trip is missing; give rtt_s, or host to measure it"),
        (lambda: howdah.probe("far", for_s=math.nan), "for_s=nan is not from 1 s to 1 h"),
        (lambda: howdah.probe("far", for_s=1.5, active=True), "for_s=1.5 leaves no time for bursts, which"),
        (lambda: howdah.sweep("far", for_s=math.nan), "for_s=nan is not a number"),
        (lambda: howdah.sweep("a.toml", for_s=9), "for_s=9 is only for a host"),
        (lambda: howdah.examine(rate_bps=math.nan), "rate_bps=nan is not a number"),
        (lambda: howdah.examine(rtt_s=math.inf), "rtt_s=inf is not finite; give one that is, or leave"),
        (
            lambda: ANYTHING.verify("a", "b", algorithm="x"),
            "algorithm='x' is not an algorithm; give one of",
        ),
        (lambda: list(archive.records(kind="x")), "kind='x' is not a kind of record; give one of transfer"),
        (
            lambda: list(archive.records(newer_than_s=math.nan)),
            "newer_than_s=nan is not from 0 years to 100 years",
        ),
        (lambda: archive.prune(older_than_s=-1), "older_than_s=-1 is not from 0 years to 100 years"),
        (lambda: archive.prune(keep=-1), "keep=-1 is below 0; give how many records stay"),
        (archive.prune, "choose the records to remove; give older_than_s, keep, or both"),
        (
            lambda: congestion.load("hold", {"guard_loss": "x"}),
            'parameter guard_loss of hold: fraction "x" is not',
        ),
        (lambda: congestion.set_target(rate_bps=10**9, flow="x"), 'flow "x" is none; write 10.9.0.2:5201'),
        (congestion.set_target, "give what to hold: one of rate_bps, window_packets and none"),
        (lambda: congestion.forget("x"), 'prefix "x" begins with no IP address'),
        (lambda: congestion.remember("x", rate_bps=10**9, rtt_s=0.1), 'prefix "x" begins with no IP address'),
        (lambda: congestion.attach("cubic", to="x"), 'prefix "x" begins with no IP address'),
        (lambda: lab_setup(LabOptions(rate="9")), 'rate: rate "9" has no unit'),
        (lambda: lab_setup(LabOptions(burst_loss="1%")), "burst_loss: 1% has 1 value; give ENTER,LEAVE"),
        (lambda: lab_setup(LabOptions(), host="x"), "host: no host is called x; this lab has near and far"),
        (
            lambda: lab_setup(LabOptions(), congestion_control="x"),
            "congestion_control='x' is not in this kernel, which has ",
        ),
        (copying(limit="fast"), "limit fast: fast is not a rate; give for example"),
        (lambda: algorithm_of(Path("x")), "manifest x does not say which digests to write"),
        (lambda: ANYTHING.copy(ANYTHING.Memory(size_bytes=1), "far"), "memory takes a far host and no files"),
        (lambda: recognition.train("x", "x.bin"), "a model must end in .npz; give x.npz as model"),
        (lambda: lab_setup(LabOptions(rate="{rtt}")), 'rate: rate "{rtt}" is not a number'),
        (lambda: serving(Site(["a.b"])), "hosts 'a.b': give a name without dots"),
        (lambda: serving(Site(["a", "a"])), "hosts a is given twice; each host has one agent"),
        (lambda: listening(key=Path("k")), "TLS takes both a certificate and its key: give certificate and"),
        (
            lambda: listening(address="0.0.0.0:0"),
            "0.0.0.0:0 can be reached from other hosts: name a file of tokens with tokens, or listen on",
        ),
        (lambda: howdah.lab.symmetric(10**9, -5), "rtt_ns=-5 is below 0; give more"),
        (lambda: howdah.lab.symmetric(10**9, HUGE), f"rtt_ns={HUGE} is too large"),
        (lambda: howdah.lab.symmetric(-1, 9), "rate_bps=-1 is below 0; give more"),
        (lambda: howdah.lab.symmetric(10**9, 9, queue_bytes=-2), "queue_bytes=-2 is below 0"),
        (lambda: howdah.lab.symmetric(10**9, 9, loss=math.nan), "loss=nan is not from 0 to 1; give for exam"),
        (lambda: howdah.lab.symmetric(10**9, 9, seed=-1), "seed=-1 is below 0"),
        (lambda: howdah.copy("a\0", "far:"), "src has a NUL byte or half a surrogate pair, which no"),
        (lambda: howdah.copy(["a", "\ud800"], "far:"), "src has a NUL byte"),
        (copying(filters=[("exclude-from", "a\0")]), "filters has a NUL byte"),
        (copying(log_file=Path("\0")), "log_file has a NUL byte"),
        (copying(far_howdah="/x\0"), "far_howdah has a NUL byte"),
        (lambda: howdah.examine("a\0"), "host has a NUL byte"),
        (lambda: howdah.sweep("\ud800"), "what has a NUL byte"),
    ],
)
def test_a_value_that_cannot_be_is_named(call: Callable[[], object], says: str) -> None:
    with pytest.raises(HowdahError) as caught:
        call()
    assert str(caught.value).startswith(says)
    assert caught.value.record is None
    assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (copying(streams="4"), "copy: streams is '4'; it takes a whole number or None"),
        (copying(streams=True), "copy: streams is True"),
        (copying(ports="a"), "copy: ports is 'a'; it takes (a whole number, a whole number) or None"),
        (copying(patience_s="5min"), "copy: patience_s is '5min'; it takes a number"),
        (copying(path=3), "copy: path is 3; it takes a text"),
        (copying(filters="- *.o"), "copy: filters is '- *.o'; it takes a list"),
        (copying(pilot=3), "copy: pilot is 3; it takes Pilot or None"),
        (copying(on_progress=3), "copy: on_progress is 3; it takes a function or None"),
        (copying(archive="records"), "copy: archive is 'records'; it takes Archive or None"),
        (
            lambda: ANYTHING.copy(None, "far:"),
            "copy: src is None; it takes a text or a path or a list",
        ),
        (lambda: ANYTHING.copy(["a", None], "far:"), "copy: src is ['a', None]"),
        (lambda: ANYTHING.probe(None), "probe: host is None; it takes a text"),
        (lambda: ANYTHING.plan_for(7), "plan_for: src is 7"),
        (lambda: ANYTHING.select("93ms"), "select: rtt_s is '93ms'; it takes a number or None"),
        (lambda: ANYTHING.lab.symmetric(1e9, 5), "symmetric: rate_bps is 1000000000.0; it takes a whole num"),
        (lambda: ANYTHING.verify("a", "b", extra="no"), "verify: extra is 'no'; it takes True or False"),
        (lambda: ANYTHING.Lab(None), "Lab: link is None; it takes LinkSpec"),
        (lambda: LAB.run("near", "true"), "run: argv is 'true'; it takes a list"),
        (lambda: LAB.popen("near", "true"), "popen: argv is 'true'; it takes a list"),
        (lambda: ANYTHING.Archive(3), "Archive: root is 3; it takes a text or a path or None"),
        (
            lambda: ANYTHING.copy(ANYTHING.Memory(for_s="1"), "far:"),
            "Memory: for_s is '1'; it takes a number or None",
        ),
        (lambda: jobs.limit(1, -1), "limit: job is 1; it takes a text"),  # type: ignore[arg-type]
        (lambda: jobs.pause(1), "pause: job is 1"),  # type: ignore[arg-type]
        (lambda: archive.export(3), "export: folder is 3; it takes a text or a path"),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_another_type_is_named(call: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(says)


def test_a_lab_that_is_down_says_so() -> None:
    for call in (
        lambda: LAB.run("near", ["true"]),
        LAB.stats,
        lambda: LAB.env,
        lambda: LAB.namespace("near"),
    ):
        with pytest.raises(HowdahError, match="the lab is down; it is up inside of its"):
            call()


def test_a_lab_without_a_name_that_is_silent_has_no_name_to_give() -> None:
    with pytest.raises(HowdahError, match=r"the lab does not answer; make another$"):
        messages.ask(0, "stats")
    with pytest.raises(HowdahError, match=r"the lab does not answer; end it with: howdah lab down wan$"):
        messages.ask(0, "stats", "wan")


def test_what_is_right_goes_through(tmp_path: Path) -> None:
    given = {"streams": 4, "patience_s": 0, "fairness": None, "ports": (50000, 50100), "filters": ["- *.o"]}
    given |= {"manifest": tmp_path / "x.sha256", "pilot": lambda now: None, "keep": ("xattrs",)}
    here = str(tmp_path)
    for src in (here, tmp_path, [here, tmp_path], howdah.Memory(size_bytes=0)):
        dst, wanted = ("far:", {"streams": 4}) if isinstance(src, howdah.Memory) else ("far:x/", given)
        with pytest.raises(HowdahError, match="no-ssh-is-started"):
            ANYTHING.copy(src, dst, archive=howdah.Archive(tmp_path), **wanted)


def test_another_reader_has_names_of_its_own() -> None:
    with pytest.raises(BadArgument) as caught:
        check_within("for_s", 7200, PROBED_S, mend="leave {it} and {for_s}")
    spelt = caught.value.spelt(lambda name, given: f"<{name} {given.get(name)}>")
    assert spelt == "<for_s 7200> is not from 1 s to 1 h; leave <it None> and <for_s 7200>"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"delay_ns": -3}, "link: near_to_far.delay_ns: expected int >= 0"),
        ({"delay_ns": 0.5}, "link: near_to_far.delay_ns: expected int, got float"),
        ({"loss": math.nan}, "link: near_to_far.loss: expected float >= 0.0"),
        ({"loss": 2.0}, "link: near_to_far.loss is 2; it must be 0 to 1"),
        (
            {"changes": (howdah.lab.Change(at_ns=-1),)},
            "link: near_to_far.changes[0].at_ns: expected",
        ),
    ],
)
def test_a_link_that_cannot_be_is_told_by_its_keys(given: dict[str, Any], says: str) -> None:
    link = howdah.lab.LinkSpec(howdah.lab.Direction(**given), howdah.lab.Direction())
    with pytest.raises(HowdahError) as caught:
        howdah.Lab(link)
    assert str(caught.value).startswith(says)


def test_a_link_that_cannot_be_has_its_field_as_values() -> None:
    def bad(mtu: int = 1500, way: dict[str, Any] | None = None) -> tuple[object, ...]:
        with pytest.raises(BadLink) as caught:
            checked(howdah.lab.LinkSpec(howdah.lab.Direction(**way or {}), howdah.lab.Direction(), mtu=mtu))
        found = caught.value
        return found.way, found.change, found.field, found.part, found.says

    changes = (howdah.lab.Change(at_ns=1), howdah.lab.Change(at_ns=2, burst=Burst(2.0, 0.1)))
    assert bad(mtu=9) == (None, None, "mtu", None, " is 9 bytes; it must be 576 bytes to 65535 bytes")
    assert bad(way={"loss": 2.0}) == ("near_to_far", None, "loss", None, " is 2; it must be 0 to 1")
    assert bad(way={"loss": -1.0})[:4] == ("near_to_far", None, "loss", None)
    assert bad(way={"burst": Burst(0.1, 2.0)})[:4] == ("near_to_far", None, "burst", "leave")
    assert bad(way={"changes": changes})[:4] == ("near_to_far", 1, "burst", "enter")


def test_braces_of_a_caller_name_no_argument() -> None:
    bad = BadArgument(f"{{streams}}: {literal('{streams} {x')} }}", streams=3)
    assert str(bad) == "streams=3: {streams} {x }"
    with pytest.raises(BadArgument, match=r"^rate: no \{rtt\}$"), Refusing("rate"):
        raise HowdahError("no {rtt}")


def test_a_pilot_answers_with_a_steering() -> None:
    now = progress(1.0)
    for answer in (3, "faster", {"streams": 2}):
        with pytest.raises(HowdahError, match=r"the pilot returned .*; return a howdah.Steering, or None"):
            asked(lambda _, answer=answer: answer, now)
    for wrong, says in (
        ({"streams": -1}, "key streams: expected int >= 0"),
        ({"streams": HUGE}, "key streams: "),
        ({"streams": 1.5}, "key streams: expected int, got float"),
        ({"streams": 1, "pacing_bps": math.nan}, "key pacing_bps: expected int"),
    ):
        with pytest.raises(HowdahError, match=f"the pilot returned a Steering that cannot be: {says}"):
            asked(lambda _, wrong=wrong: ANYTHING.Steering(**wrong, why="x"), now)
    steering = howdah.Steering(streams=2, why="x")
    assert asked(lambda _: steering, now) is steering
    assert asked(lambda _: None, now) is None


def test_an_archive_is_named_by_a_text_too(tmp_path: Path) -> None:
    folder = str(tmp_path / "records")
    mine = howdah.Archive(folder)
    with pytest.raises(HowdahError, match="no record yet in"):
        mine.load("last")
    assert (mine.root, list(mine.newest())) == (Path(folder), [])
    assert archive.paths(archive=howdah.Archive(folder)) == []


def test_a_copy_under_way_has_the_names_of_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOWDAH_SSH", "false")
    with pytest.raises(HowdahError, match="traffic_class='x' is for a guaranteed path; add path guaranteed"):
        howdah.copy(howdah.Memory(size_bytes=1), "far:", traffic_class="x")
    line = read(COMMANDS[0], ["--memory", "1B", "--class", "x", "far:"], {})
    typed = request(**{key: line[key] for key in line if key not in {"json", "quiet", "rsh"}})
    with pytest.raises(HowdahError, match="--class x is for a guaranteed path; add --path guaranteed"):
        carry_out(typed, _Progress(None))


def test_recordings_and_labs_are_named_by_texts_too(tmp_path: Path) -> None:
    for given in (str(tmp_path), [str(tmp_path)], tmp_path, [tmp_path]):
        with pytest.raises(HowdahError, match=f"no recordings .* in {tmp_path}; record some first"):
            recognition.recognise(given)
        with pytest.raises(HowdahError, match=f"no recordings .* in {tmp_path}; record some first"):
            recognition.train(given, str(tmp_path / "x.npz"))
    with pytest.raises(HowdahError, match="a recording must end in"):
        recognition.keep("last", "x.txt")
    (tmp_path / "lab.toml").write_text('rate = "1Gbit"\n')
    assert lab_setup(LabOptions(), str(tmp_path / "lab.toml")).link.near_to_far.rate_bps == 10**9


def test_numbers_of_numpy_are_numbers() -> None:
    import numpy as np

    given = ANYTHING.Memory(size_bytes=np.int64(5), for_s=np.float32(0.5))
    assert [type(each) for each in _plain_memory(given)] == [int, float]
    with pytest.raises(BadArgument, match=r"rtt_s=-1\.0 is not above 0"):
        ANYTHING.select(rtt_s=np.float64(-1))
    with pytest.raises(BadArgument, match="streams=500 is not from 1 to 128"):
        copying(streams=np.int64(500))()
    with pytest.raises(TypeError, match=r"streams is .*2\.0.*; it takes a whole number"):
        copying(streams=np.float64(2))()


def test_what_is_no_archive_or_no_record_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(HowdahError, match="is no folder, so it is not an archive"):
        list(howdah.Archive(file).newest())
    with pytest.raises(TypeError, match="load: name is 5; it takes a text"):
        ANYTHING.Archive(tmp_path).load(5)
    with pytest.raises(BadArgument, match="name is empty; give an id or its beginning, or last"):
        howdah.Archive(tmp_path).load("")
