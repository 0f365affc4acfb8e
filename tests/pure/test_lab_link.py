"""The link as a person writes it, and the value it becomes."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah._native import HowdahError
from howdah.lab import hosts, labfile
from howdah.lab.labfile import LabOptions
from howdah.values.link import Burst, Change, Direction, LinkSpec, symmetric


def written(folder: Path, text: str) -> Path:
    file = folder / "link.toml"
    file.write_text(text, encoding="utf-8")
    return file


def build(options: LabOptions, file: Path | None = None) -> LinkSpec:
    return labfile.build(options, file)[0]


def test_options_alone_make_a_symmetric_link() -> None:
    link = build(LabOptions(rate="10Gbit", rtt="100ms", queue="125MB", loss="0.01%"))
    assert link == symmetric(10**10, 10**8, queue_bytes=125_000_000, loss=1e-4)
    assert link.near_to_far.delay_ns == link.far_to_near.delay_ns == 50_000_000


def test_two_values_are_near_to_far_and_far_to_near() -> None:
    link = build(LabOptions(rate="10Gbit,1Gbit", loss="1%,0", jitter="1ms,2ms"))
    assert (link.near_to_far.rate_bps, link.far_to_near.rate_bps) == (10**10, 10**9)
    assert (link.near_to_far.loss, link.far_to_near.loss) == (0.01, 0)
    assert (link.near_to_far.jitter_ns, link.far_to_near.jitter_ns) == (1_000_000, 2_000_000)


def test_a_queue_is_of_its_directions_rate_and_the_round_trip(tmp_path: Path) -> None:
    link = build(LabOptions(rate="10Gbit,1Gbit", rtt="100ms", queue="0.75BDP"))
    assert link.near_to_far.queue_bytes == 93_750_000
    assert link.far_to_near.queue_bytes == 9_375_000
    ways = build(LabOptions(rate="1Gbit", rtt="100ms", queue="2BDP,6MB"))
    assert (ways.near_to_far.queue_bytes, ways.far_to_near.queue_bytes) == (25_000_000, 6_000_000)
    text = 'rate = "1Gbit"\nrtt = "80ms"\nqueue = "0.5BDP"\n[far_to_near]\ndelay = "60ms"'
    assert build(LabOptions(), written(tmp_path, text)).near_to_far.queue_bytes == 6_250_000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (LabOptions(loss="0.01"), "loss: 0.01 could mean 0.01% or 1%; write one of them"),
        (LabOptions(loss="1%,1"), "loss: 1 could mean 1% or 100%; write one of them"),
        (
            LabOptions(burst_loss="0.001,20%"),
            "burst_loss: 0.001 could mean 0.001% or 0.1%; write one of them",
        ),
        (
            LabOptions(rtt="1ms", queue="2BDP"),
            "queue 2BDP needs a rate and a round trip, but the rate is not shaped; give bytes",
        ),
        (
            LabOptions(rate="1Gbit", queue="2BDP"),
            "queue 2BDP needs a rate and a round trip, but the round trip is 0; give bytes",
        ),
        (
            LabOptions(rate="1Gbit", rtt="1ms", queue="0BDP"),
            'queue: 0BDP: give bytes, or 0.01 to 100 BDP, as "0.5BDP"',
        ),
    ],
)
def test_what_could_mean_two_things_or_nothing_is_refused(options: LabOptions, says: str) -> None:
    with pytest.raises(HowdahError) as refused:
        build(options)
    assert str(refused.value) == says


def test_a_loss_as_a_number_of_one_meaning_is_taken() -> None:
    assert build(LabOptions(loss="1e-4,0")).near_to_far.loss == 1e-4


def test_burst_loss_option() -> None:
    link = build(LabOptions(burst_loss="0.1%,20%,50%"))
    assert link.near_to_far.burst == Burst(enter=0.001, leave=0.2, loss_bad=0.5, loss_good=0)


def test_a_direction_wins_over_the_whole_file_and_an_option_over_both(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        rate = "10Gbit"
        rtt = "100ms"
        loss = "1%"
        mtu = 9000
        frame_overhead = "0B"
        [far_to_near]
        rate = "1Gbit"
        delay = "80ms"
        burst = { enter = "1%", leave = "50%" }
        """,
    )
    link = build(LabOptions(loss="2%", seed=7), file)
    assert link == LinkSpec(
        near_to_far=Direction(rate_bps=10**10, delay_ns=50_000_000, loss=0.02),
        far_to_near=Direction(rate_bps=10**9, delay_ns=80_000_000, loss=0.02, burst=Burst(0.01, 0.5)),
        mtu=9000,
        frame_overhead_bytes=0,
        seed=7,
    )
    assert build(LabOptions(rtt="20ms"), file).far_to_near.delay_ns == 10_000_000


def test_changes_go_to_their_direction(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        rate = "2Gbit"
        [[change]]
        at = "1s"
        rate = "1Gbit"
        [[change]]
        at = "2s"
        direction = "far_to_near"
        outage = true
        drop = 2
        """,
    )
    link = build(LabOptions(), file)
    first = Change(at_ns=10**9, rate_bps=10**9)
    assert link.near_to_far.changes == (first,)
    assert link.far_to_near.changes == (first, Change(at_ns=2 * 10**9, outage=True, drop=2))


def test_a_change_says_only_what_changes() -> None:
    assert msgspec.json.encode(Change(at_ns=5, outage=False)) == b'{"at_ns":5,"outage":false}'


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (LabOptions(rate="10"), "rate: "),
        (LabOptions(rtt="100"), "rtt: "),
        (LabOptions(rtt="-1ms"), "rtt: "),
        (LabOptions(queue="big"), "queue: "),
        (LabOptions(queue="100B"), "queue"),
        (LabOptions(loss="101%"), "loss: "),
        (LabOptions(jitter="x"), "jitter: "),
        (LabOptions(rate="1Gbit,2Gbit,3Gbit"), "more than two"),
        (LabOptions(rate="0Gbit"), "rate is 0 b/s; it must be 1 kb/s to 1 Tb/s"),
        (LabOptions(rate="1Gbit", queue="100B"), "queue is 100 B; it must be "),
        (LabOptions(rtt="500s"), "rtt, one way, is "),
        (LabOptions(burst_loss="1%"), "burst_loss"),
        (LabOptions(mtu=100), "mtu is 100 bytes"),
        (LabOptions(frame_overhead="38"), "frame_overhead: "),
        (LabOptions(seed=-1), "seed: -1"),
    ],
)
def test_bad_options_are_refused_by_name_in_one_line(options: LabOptions, named: str) -> None:
    with pytest.raises(HowdahError) as refused:
        build(options)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rate = ", "not TOML"),
        ('rat = "1Gbit"', "unknown key rat; known are rate, rtt, queue"),
        ("rate = true", "rate: not a text with a unit"),
        ("rate = 10", "rate: "),
        ('far_to_near = "x"', "far_to_near: expected a table, got a text"),
        ('[far_to_near]\nrtt = "1ms"', "far_to_near: unknown key rtt"),
        ('burst = "1%"', "burst: expected a table, got a text"),
        ('burst = { enter = "1%" }', "burst: the key leave is missing"),
        ('change = "x"', "change: expected a list, got a text"),
        ('[[change]]\nrate = "1Gbit"', "change 1: the key at is missing"),
        ('[[change]]\nat = "1s"', "change 1: it changes nothing; add one of rate, delay, loss"),
        ('[[change]]\nat = "1s"\ndrop = -1', "change 1: drop: -1 is not a whole number from 1 to 1,000,000"),
        ('[[change]]\nat = "1s"\ndrop = 0', "link.toml: change 1: drop: 0 is not a whole number from 1 to "),
        ('rate = "0bit"', "link.toml: rate is 0 b/s; it must be 1 kb/s"),
        ('[far_to_near]\nrate = "0bit"', "link.toml: far_to_near: rate is 0 b/s; it must be"),
        ('rtt = "500s"', "link.toml: rtt, one way, is "),
        ('[near_to_far]\ndelay = "500s"', "link.toml: near_to_far: delay is "),
        (
            '[[change]]\nat="1s"\ndirection="near_to_far"\noutage=true\n'
            '[[change]]\nat="1s"\ndirection="far_to_near"\nrate="1Gbit"',
            "link.toml: change 2: rate is 1 Gb/s; a direction that begins without a rate cannot change "
            "it; give the direction a rate to begin with",
        ),
        ('[[change]]\nat = "1s"\noutage = "yes"', "outage: expected true or false, got a text"),
        (
            '[[change]]\nat = "1s"\ndirection = "up"\noutage = true',
            "change 1: direction: 'up' is unknown; give near_to_far or far_to_near",
        ),
        (
            '[[change]]\nat="2s"\noutage=true\n[[change]]\nat="1s"\noutage=false',
            "link.toml: change 2: at is 1 s; changes must be in order of time, so not before 2 s",
        ),
    ],
)
def test_bad_files_are_refused_by_file_and_key(tmp_path: Path, text: str, named: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(HowdahError) as refused:
        build(LabOptions(), file)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HowdahError, match=r"none\.toml: No such file"):
        build(LabOptions(), tmp_path / "none.toml")


@given(
    rtt_ns=st.integers(0, 2 * 10**11),
    rate_bps=st.integers(1000, 10**12),
    mtu=st.integers(576, 65535),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_link_survives_its_json_and_halves_the_round_trip(
    rtt_ns: int, rate_bps: int, mtu: int, seed: int
) -> None:
    link = symmetric(rate_bps, rtt_ns, mtu=mtu, seed=seed)
    assert msgspec.json.decode(msgspec.json.encode(link), type=LinkSpec) == link
    assert link.near_to_far.delay_ns + link.far_to_near.delay_ns == rtt_ns
    assert link.bdp_bytes_max(1) == rate_bps * rtt_ns // 8_000_000_000
    assert hosts.BUFFER_BYTES_MIN <= hosts.buffer_bytes(link) <= hosts.BUFFER_BYTES_MAX


def test_buffers_are_for_the_largest_link_a_schedule_makes() -> None:
    change = Change(at_ns=1, rate_bps=10**10, delay_ns=10**8)
    link = LinkSpec(
        near_to_far=Direction(rate_bps=10**9, delay_ns=10**7, changes=(change,)),
        far_to_near=Direction(rate_bps=10**9, delay_ns=10**7),
    )
    assert link.bdp_bytes_max(1) == 10**10 * 110 // 8000
    assert hosts.buffer_bytes(link) == 4 * link.bdp_bytes_max(1)
