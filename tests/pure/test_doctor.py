from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import LIMITS, hosts

from howdah import HowdahError
from howdah._native import format_rate, parse_bytes
from howdah.doctor import facts as fact_finding
from howdah.doctor.facts import Facts
from howdah.doctor.judge import Aim, DoctorReport, HostFinding, HostReport, judge, judge_limits
from howdah.library.doctor import examine
from howdah.words.doctor import CONFIGURATION, in_words, mending

AIMS = st.builds(Aim, rate_bps=st.floats(1e6, 4e11), rtt_s=st.floats(1e-5, 1.0))
SWITCHES = st.none() | st.booleans()
FACTS = st.builds(
    Facts,
    limits=hosts(),
    programs_refused=st.none() | st.just("this kernel is Linux 5.15; programs need 6.4 or later"),
    clock_source=st.none() | st.sampled_from(["tsc", "hpet"]),
    clock_synchronised=SWITCHES,
    ssh_client=st.none() | st.just("/usr/bin/ssh"),
)
TEN_GIGABIT = Aim(rate_bps=1e10, rtt_s=0.1)


def finding(findings: list[HostFinding], what: str) -> HostFinding:
    (found,) = (each for each in findings if each.what == what)
    return found


@given(FACTS, AIMS)
def test_what_is_not_good_says_its_cost_and_what_is_good_costs_nothing(facts: Facts, aim: Aim) -> None:
    for each in judge(facts, aim):
        if each.state == "good":
            assert each.cost is None
            assert not each.sysctls
            assert not each.commands
        else:
            assert each.cost


@given(FACTS, AIMS)
def test_every_line_that_mends_is_printed_once_for_now_and_once_to_last(facts: Facts, aim: Aim) -> None:
    findings = judge(facts, aim)
    lines = [line for line in mending(findings) if line]
    assert len(lines) == len(set(lines))
    for each in findings:
        for key, value in each.sysctls.items():
            assert any(line.strip().startswith(f"sysctl -w {key}=") for line in lines)
            assert f"  {key} = {value}" in lines
            assert all(0 < int(word) < 2**31 for word in value.split() if word.isdigit() and "rmem" in key)


@given(hosts(), st.floats(1e6, 1e11), st.floats(1e-4, 0.3))
def test_what_the_lines_set_mends_the_buffers(host: msgspec.Struct, rate_bps: float, rtt_s: float) -> None:
    aim = Aim(rate_bps=rate_bps, rtt_s=rtt_s)
    found = finding(judge_limits(host, aim), "buffers")
    if found.state != "good":
        sizes = {key: int(value.split()[-1]) for key, value in found.sysctls.items()}
        mended = msgspec.structs.replace(
            host,
            rmem_max_bytes=sizes["net.core.rmem_max"],
            wmem_max_bytes=sizes["net.core.wmem_max"],
            tcp_rmem_max_bytes=sizes["net.ipv4.tcp_rmem"],
            tcp_wmem_max_bytes=sizes["net.ipv4.tcp_wmem"],
        )
        again = finding(judge_limits(mended, aim), "buffers")
        assert again.state != "gap" or aim.bdp_bytes * 4 > 2**31
        for old, new in (
            (host.tcp_rmem_max_bytes, mended.tcp_rmem_max_bytes),
            (host.tcp_wmem_max_bytes, mended.tcp_wmem_max_bytes),
        ):
            assert new >= old


@given(hosts(), AIMS, st.floats(1.01, 100))
def test_a_higher_rate_never_closes_a_gap(host: msgspec.Struct, aim: Aim, factor: float) -> None:
    order = ["good", "note", "gap"]
    harder = Aim(rate_bps=aim.rate_bps * factor, rtt_s=aim.rtt_s)
    for one, two in zip(judge_limits(host, aim), judge_limits(host, harder), strict=True):
        assert order.index(two.state) >= order.index(one.state)


def test_a_small_window_by_hand() -> None:
    # 4 MB a round trip of 100 ms is 0.32 Gb/s; 32 such streams carry 10.24 Gb/s.
    host = msgspec.structs.replace(
        LIMITS, tcp_wmem_max_bytes=4_000_000, tcp_rmem_max_bytes=8_000_000, tcp_mem_pages=(10**6,) * 3
    )
    found = finding(judge_limits(host, TEN_GIGABIT), "buffers")
    assert found.state == "note"
    assert found.cost is not None
    assert format_rate(0.32e9) in found.cost
    assert format_rate(10.24e9) in found.cost
    half = msgspec.structs.replace(host, tcp_wmem_max_bytes=2_000_000)
    assert finding(judge_limits(half, TEN_GIGABIT), "buffers").state == "gap"


def _facts(**changed: object) -> Facts:
    known = Facts(
        limits=LIMITS,
        tun=True,
        ssh_client="/usr/bin/ssh",
        aes_instructions=True,
    )
    return msgspec.structs.replace(known, **changed)


@pytest.mark.parametrize(
    ("changed", "what", "state", "line"),
    [
        ({"ssh_client": None}, "ssh", "gap", "apt-get install openssh-client"),
        ({"tun": False}, "labs", "note", "modprobe tun"),
        ({"namespaces_refused_by": {"kernel.x": "0"}}, "labs", "note", "sysctl -w kernel.x=0"),
        ({"clock_source": "hpet"}, "clock", "note", "clocksource"),
        ({"programs_refused": "needs 6.4 or later"}, "BPF congestion control", "note", None),
        ({"aes_instructions": False}, "encryption", "note", None),
        ({"policy_refused": "policy.toml is not TOML"}, "policy", "gap", None),
    ],
)
def test_each_gap(changed: dict[str, object], what: str, state: str, line: str | None) -> None:
    findings = judge(_facts(**changed), TEN_GIGABIT)
    assert finding(findings, what).state == state
    assert finding(judge(_facts(), TEN_GIGABIT), what).state == "good"
    if line is not None:
        assert any(line in each for each in mending(findings))


@pytest.mark.parametrize(
    ("name", "what", "state", "line"),
    [
        ("window_scaling", "window scaling", "gap", "sysctl -w net.ipv4.tcp_window_scaling=1"),
        ("sack", "selective acknowledgment", "gap", "sysctl -w net.ipv4.tcp_sack=1"),
        ("timestamps", "timestamps", "note", "sysctl -w net.ipv4.tcp_timestamps=1"),
        ("receive_autotuning", "receive autotuning", "gap", "net.ipv4.tcp_moderate_rcvbuf = 1"),
    ],
)
def test_what_is_switched_off_is_told_of_a_far_host_too(name: str, what: str, state: str, line: str) -> None:
    findings = judge_limits(msgspec.structs.replace(LIMITS, **{name: False}), TEN_GIGABIT)
    assert finding(findings, what).state == state
    assert any(line in each for each in mending(findings))
    # A far end of before does not say.
    unknown = finding(judge_limits(msgspec.structs.replace(LIMITS, **{name: None}), TEN_GIGABIT), what)
    assert (unknown.state, unknown.found) == ("good", "not known")


def test_each_rule_in_force_is_shown_with_the_file_that_sets_it() -> None:
    rules = {
        "data.plaintext = false": "/etc/howdah/policy.toml",
        'data.ports = "50000-50100"': "/home/me/.config/howdah/policy.toml",
    }
    shown = [each for each in judge(_facts(policy=rules), TEN_GIGABIT) if each.what == "policy"]
    assert [each.found for each in shown] == [f"{rule} ({path})" for rule, path in rules.items()]
    assert {each.state for each in shown} == {"good"}


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ("20000000000000B", "20TB"),
        ("1500000000B", "1500MB"),
        ("21990232555520B", "20TiB"),
        ("1234567B", "1234567B"),
        ("0B", "0B"),
    ],
)
def test_a_quota_is_shown_in_the_unit_that_a_person_would_write(size: str, shown: str) -> None:
    found = judge(_facts(policy={f'quota.copy = "{size}"': "policy.toml"}), TEN_GIGABIT)
    assert finding(found, "policy").found == f'quota.copy = "{shown}" (policy.toml)'
    assert parse_bytes(shown) == int(size[:-1])


def test_the_policy_of_this_host_is_among_its_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "howdah/policy.toml"
    file.parent.mkdir()
    file.write_text("[data]\nplaintext = false\n")
    file.chmod(0o600)
    found = fact_finding.gather()
    assert found.policy["data.plaintext = false"] == str(file)
    assert found.policy_refused is None
    file.chmod(0o666)
    refused = fact_finding.gather().policy_refused
    assert refused is not None
    assert refused.startswith(str(file))


@given(FACTS, AIMS)
def test_the_report_fits_80_columns_and_is_ready_without_gaps(facts: Facts, aim: Aim) -> None:
    findings = judge(facts, aim)
    report = DoctorReport(
        aim=aim,
        aim_source="given",
        hosts=[HostReport(host="here", limits=facts.limits, facts=facts, findings=findings)],
    )
    assert report.ready == all(each.state != "gap" for each in findings)
    for text in in_words(report).partition("As root")[0].splitlines():
        assert len(text) <= 80, text
    assert msgspec.json.decode(msgspec.json.encode(report), type=DoctorReport) == report
    assert (CONFIGURATION in in_words(report)) == any(each.sysctls for each in findings)


def test_the_facts_of_this_host_agree_with_the_kernel() -> None:
    found = fact_finding.gather()
    assert found.limits.sack == (Path("/proc/sys/net/ipv4/tcp_sack").read_text().strip() != "0")
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    assert found.clock_source == source.read_text().strip()


def test_nothing_is_judged_for_no_rate_or_no_time() -> None:
    for rate_bps, rtt_s in ((0, 0.1), (1e9, 0.0)):
        with pytest.raises(HowdahError, match="is not above 0; give more, or leave it out"):
            examine(rate_bps=rate_bps, rtt_s=rtt_s, host=None, far_howdah=None)
