"""Policy files: what they may say, what is refused, and what a policy says of its classes and flows."""

import inspect
import itertools
import json
import textwrap
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from guaranteed import POLICY, policies
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.control.policy import Policy, policyfile
from howdah.control.policy.members import Member
from howdah.control.policy.policyfile import load, loads
from howdah.control.policy.terms import Change, Terms

MEMBER = '\n[[class.{}.member]]\nhost = "{}"\nto = "{}"\nports = "{}"\n'


def replaced(*pairs: tuple[str, str]) -> str:
    text = POLICY
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def classes(policy: Policy) -> dict[str, Terms]:
    return {each.name: each.terms for each in policy.classes}


def test_percentages_are_of_what_is_given_away_and_rates_are_rates() -> None:
    policy = loads(POLICY, "p.toml")
    assert (policy.name, policy.guarantee_bps, policy.trusted_bps) == ("lsst", 10**9, 990_000_000)
    assert (policy.lease_s, policy.alone) == (1.5, "ordinary")
    assert classes(policy) == {
        "background": Terms(minimum_bps=9_900_000, weight=3),
        "images": Terms(minimum_bps=16_000, priority=1),
        "replication": Terms(minimum_bps=50_000_000, maximum_bps=50_000_000),
    }
    others = {each.name: each.others for each in policy.classes if each.asked}
    assert others == {"images": {"background": Change(maximum_bps=9_900_000)}}


def test_the_example_of_the_reader_is_a_policy() -> None:
    example = inspect.cleandoc(str(policyfile.__doc__)).split("::\n")[1].split("\nReferences")[0]
    policy = loads(textwrap.dedent(example), "docstring")
    assert [flow.id for flow in policy.flows] == [flow.id for flow in loads(POLICY, "p.toml").flows]


def test_what_is_left_out_has_its_default() -> None:
    least = (
        '\nname = "p"\nguarantee = "1Gbit"\n' + '[class.a]\n[[class.a.member]]\nhost = "h"\nto = "10.0.0.1"'
    )
    policy = loads(least, "p.toml")
    assert (policy.trusted_bps, policy.lease_s, policy.alone) == (10**9, 2.0, "minimum")
    (only,) = policy.classes
    assert (only.terms, only.asked, only.others) == (Terms(minimum_bps=8000), False, {})
    assert [flow.member for flow in only.flows] == [Member("h", "10.0.0.1/32", (1, 65535))]


@pytest.mark.parametrize(("text", "trusted_bps"), [("14.3%", 143_000_000), ("0.07", 70_000_000)])
def test_parts_are_exact(text: str, trusted_bps: int) -> None:
    """14.3 / 100 and 0.07 × 1e9 are not, in floating point."""
    assert loads(replaced(('"99%"', f'"{text}"')), "p.toml").trusted_bps == trusted_bps


def test_flows_are_named_after_class_and_host_and_counted_where_a_host_has_several() -> None:
    more = MEMBER.format("images", "base20", "20.20.20.101/32", "80-90")
    flows = loads(POLICY + more, "p.toml").flows
    assert {flow.id: str(flow.member) for flow in flows} == {
        "background/base23": "base23 to 20.20.20.100/32 ports 1-65535",
        "images/base20/1": "base20 to 20.20.20.100/32 ports 1-65535",
        "images/base20/2": "base20 to 20.20.20.101/32 ports 80-90",
        "images/base21": "base21 to 20.20.20.100/32 ports 1-65535",
        "replication/base22": "base22 to 20.20.20.100/32 ports 5432",
    }


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([('name = "lsst"', "")], "p.toml: the key name is missing; see: docs/control.md"),
        ([('"lsst"', '"l s"')], "p.toml: name 'l s': give 1 to 64 letters"),
        ([("trust =", "thrust =")], "p.toml: unknown key thrust; known are name, guarantee"),
        ([('"1Gbit"', '"1G"')], "p.toml: guarantee: "),
        ([('"1Gbit"', "1000")], 'p.toml: guarantee: rate "1000" has no unit; write for example'),
        ([('"1Gbit"', '"2Tbit"')], "p.toml: guarantee 2Tbit is not within 8.00 kb/s to 1.00 Tb/s"),
        ([('"99%"', '"101%"')], "p.toml: trust: "),
        ([('"99%"', '"0%"')], "p.toml: trust 0% leaves less than 8.00 kb/s to give away"),
        ([('"1500ms"', '"1ms"')], "p.toml: lease 1ms is not within 0.2s to 600s"),
        ([('"ordinary"', '"stop"')], "p.toml: alone: 'stop' is unknown; give minimum or ordinary"),
        ([("[class.background]", '[class."a b"]')], "p.toml: class 'a b': give 1 to 64 letters"),
        ([("weight = 3", "weight = 0")], "p.toml: class.background.weight: expected a whole number >= 1"),
        ([("weight = 3", "wait = 3")], "p.toml: class.background: unknown key wait; known are fixed"),
        ([('minimum = "1%"', 'minimum = "1"')], "p.toml: class.background: minimum: "),
        ([('minimum = "1%"', 'minimum = "-1%"')], "p.toml: class.background: minimum: "),
        ([('minimum = "1%"', 'minimum = "1e-999999999%"')], "minimum 1e-999999999% is 0 b/s for each flow"),
        ([('minimum = "1%"', 'minimum = "2Gbit"')], "minimum 2Gbit: there is only 990 Mb/s to give away"),
        (
            [('minimum = "1%"', 'maximum = "7kbit"')],
            "class.background: maximum 7kbit is 7.00 kb/s for each flow of the class; give at least 8.00",
        ),
        (
            [('minimum = "1%"', 'fixed = "1%"\nminimum = "1%"')],
            "p.toml: class.background: fixed is minimum and",
        ),
        (
            [('minimum = "1%"', 'minimum = "2%"\nmaximum = "1%"')],
            "class.background: its minimum, 19.8 Mb/s, is above its maximum, 9.90 Mb/s",
        ),
        (
            [('minimum = "1%"', 'minimum = "2%"')],
            "p.toml: class.background: its minimum while images are asked for, 19.8 Mb/s, is above its "
            "maximum, 9.90 Mb/s; give a minimum there too",
        ),
        (
            [('minimum = "1%"', 'minimum = "96%"')],
            "p.toml: all minimums are together 10.4 Mb/s more than the 990 Mb/s there is to give away; "
            "lower some: the largest is that of class.background, 950 Mb/s",
        ),
        (
            [('maximum = "1%"', 'minimum = "96%"')],
            "p.toml: all minimums while images are asked for are together 10.4 Mb/s more",
        ),
        ([("priority = 1", 'fixed = "1%"')], "p.toml: class.images: fixed applies always"),
        (
            [('fixed = "50Mbit"', 'fixed = "50Mbit"\nidle = "lent"')],
            'fixed applies always, and idle = "lent" does not',
        ),
        (
            [('active = "asked"', 'idle = "given"')],
            "class.images.idle: 'given' is unknown; give kept or lent",
        ),
        (
            [('active = "asked"', "")],
            "p.toml: class.images: the table others applies only while the class is asked for",
        ),
        (
            [("others.background", "others.images")],
            "class.images.others.images: this is not one of the other classes",
        ),
        ([("others.background", "others.back")], "not one of the other classes: background, replication"),
        (
            [('maximum = "1%"', 'active = "always"')],
            "class.images.others.background: unknown key active",
        ),
        ([('maximum = "1%"', 'fixed = "8kbit"\nmaximum = "1%"')], "others.background: fixed is minimum and"),
        ([('host = "base23"', "")], "class.background.member 1: the key host is missing"),
        ([('"base23"', '"base/23"')], "p.toml: class.background: member 1: host 'base/23': give 1 to 64"),
        ([('"base23"', '"base23.org"')], "member 1: host 'base23.org': give a name without dots"),
        ([('ports = "5432"', 'ports = "0"')], "p.toml: class.replication: member 1: "),
        ([('"20.20.20.100"', '"20.20.20.101/30"')], "p.toml: class.background: member 1: "),
        ([('to = "20.20.20.100"\n', "")], "class.background: member 1: say which connections: by a prefix"),
        ([('to = "20.20.20.100"\n', 'cgroup = "a.slice"\n')], 'member 1: cgroup "a.slice" does not begin'),
        ([('to = "20.20.20.100"\n', 'cgroup = "/a/"\n')], 'member 1: cgroup "/a/" has a part that is empty'),
    ],
)
def test_what_is_wrong_is_named(pairs: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(HowdahError) as caught:
        loads(replaced(*pairs), "p.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.data())
def test_whatever_a_value_is_nothing_worse_than_a_refusal_comes_of_it(data: st.DataObject) -> None:
    lines = POLICY.splitlines()
    place = data.draw(st.sampled_from([place for place, line in enumerate(lines) if " = " in line]))
    written = st.text().map(json.dumps) | st.from_regex(r"[0-9.,:/e+-]{1,12}(%|bit)?", fullmatch=True).map(
        json.dumps
    )
    other = st.sampled_from(["-1", str(10**30), "1e400", "nan", "true", "[]", "{}", "1979-05-27", '["1%"]'])
    lines[place] = f"{lines[place].split(' = ')[0]} = {data.draw(written | other)}"
    with suppress(HowdahError):
        policy = loads("\n".join(lines), "p.toml")
        assert sum(policy.safe_bps().values()) <= policy.trusted_bps


@pytest.mark.parametrize("text", ["", "class = {}", '[class.a]\nfixed = "5%"'])
def test_classes_and_members_are_needed(text: str) -> None:
    with pytest.raises(HowdahError, match=r"the key class is missing|no class; add|class\.a: no member; add"):
        loads(f'name = "p"\nguarantee = "1Gbit"\n{text}', "p.toml")


@pytest.mark.parametrize(
    ("to", "ports", "said"),
    [
        ("20.20.20.100/32", "5000-5400", None),
        ("20.20.20.101/32", "1-65535", None),
        ("2001:db8::/32", "1-65535", None),
        ("20.20.20.100/32", "5400-5500", "give ports outside of it"),
        ("20.20.20.0/24", "1-10", "give the same prefix and other ports"),
        ("0.0.0.0/0", "1-10", "give the same prefix and other ports"),
    ],
)
def test_members_of_a_host_are_apart(to: str, ports: str, said: str | None) -> None:
    beside = POLICY + MEMBER.format("images", "base22", to, ports)
    elsewhere = POLICY + MEMBER.format("images", "base24", to, ports)
    assert len(loads(elsewhere, "p.toml").flows) == 5
    if said is None:
        assert len(loads(beside, "p.toml").flows) == 5
        return
    with pytest.raises(HowdahError) as caught:
        loads(beside, "p.toml")
    assert str(caught.value) == (
        f"p.toml: class.replication: member 1: base22 to 20.20.20.100/32 ports 5432 overlaps "
        f"class.images: member 3: base22 to {to} ports {ports}; {said}"
    )


CGROUP_MEMBER = '\n[[class.images.member]]\nhost = "base22"\ncgroup = "{}"\n'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", None),
        (
            'ports = "5432"',
            "overlaps class.images: member 3: base22 cgroup /db.slice ports 1-65535; give ports",
        ),
        (
            'to = "20.20.20.100/32"',
            "20.20.20.100/32 ports 1-65535 overlaps class.images: member 3: base22 cgroup",
        ),
    ],
)
def test_members_of_different_cgroups_never_meet_and_those_of_one_may(more: str, said: str | None) -> None:
    """The deepest cgroup of a connection has it, and then whoever has its prefix."""
    text = POLICY + CGROUP_MEMBER.format("/db.slice") + CGROUP_MEMBER.format("/db.slice/pg.service") + more
    flows = loads(text, "p.toml").flows
    assert {flow.id: str(flow.member) for flow in flows if flow.member.agent == "base22"} == {
        "images/base22/1": "base22 cgroup /db.slice ports 1-65535",
        "images/base22/2": str(flows[-2].member),
        "replication/base22": "base22 to 20.20.20.100/32 ports 5432",
    }
    if said is not None:
        with pytest.raises(HowdahError) as caught:
            loads(text.replace("/db.slice/pg.service", "/db.slice"), "p.toml")
        assert said in str(caught.value)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_members_that_overlap_are_found_in_any_order(order: tuple[int, ...]) -> None:
    members = [MEMBER.format("more", "h", to, "80") for to in ("10.0.0.1/32", "10.1.0.0/16", "10.0.0.0/24")]
    text = POLICY + "[class.more]\n" + "".join(members[place] for place in order)
    with pytest.raises(HowdahError, match=r"10\.0\.0\..* overlaps .*10\.0\.0\."):
        loads(text, "p.toml")


def test_more_modes_than_are_checked_are_refused() -> None:
    asking = "".join(
        f'[class.c{n}]\nactive = "asked"\n[class.c{n}.others.background]\nmaximum = "50%"\n'
        + MEMBER.format(f"c{n}", f"h{n}", "10.0.0.1", "80")
        for n in range(policyfile.OTHERS_MAX)
    )
    with pytest.raises(
        HowdahError, match=r"p\.toml: 9 classes have a table others; at most 8 may have one: c0, c1"
    ):
        loads(POLICY + asking, "p.toml")
    without = replaced(('[class.images.others.background]\nmaximum = "1%"', ""))
    assert len(loads(without + asking, "p.toml").classes) == 11


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(HowdahError, match=r"cannot read .*none\.toml"):
        load(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff")
    with pytest.raises(HowdahError, match=r"odd\.toml is not TOML"):
        load(tmp_path / "odd.toml")
    (tmp_path / "good.toml").write_text(POLICY)
    assert load(tmp_path / "good.toml") == loads(POLICY, "p.toml")


def test_of_what_several_classes_change_for_another_the_least_counts() -> None:
    terms = Terms(minimum_bps=50, maximum_bps=100, weight=4)
    one, other = Change(minimum_bps=60, weight=2), Change(minimum_bps=70, maximum_bps=90, priority=3)
    both = Terms(minimum_bps=60, maximum_bps=90, weight=2, priority=3)
    assert terms.changed([one, other]) == terms.changed([other, one]) == both
    assert terms.changed([]) == terms


@given(policies())
def test_the_safe_share_is_the_least_minimum_of_all_modes(policy: Policy) -> None:
    names = [each.name for each in policy.classes]
    modes = [
        policy.terms(asked) for size in range(len(names) + 1) for asked in itertools.combinations(names, size)
    ]
    safe_bps = policy.safe_bps()
    assert list(safe_bps) == [flow.id for flow in policy.flows]
    for index, each in enumerate(policy.classes):
        least_bps = min(mode[index].minimum_bps for mode in modes)
        assert {safe_bps[flow.id] for flow in each.flows} == {least_bps // len(each.flows)}
    for mode in modes:
        assert sum(terms.minimum_bps for terms in mode) <= policy.trusted_bps


@given(policies(), st.data())
def test_changed_terms_are_those_of_a_file_that_says_them(policy: Policy, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([each.name for each in policy.classes]))
    term, value = data.draw(
        st.sampled_from([("minimum", "2%"), ("maximum", "40%"), ("weight", 7), ("priority", 2)])
    )
    try:
        changed = policy.changed({name: {term: value}})
    except HowdahError as error:
        assert "above its maximum" in str(error) or "all minimums" in str(error)
        return
    for before, after in zip(policy.classes, changed.classes, strict=True):
        assert msgspec.structs.replace(after, terms=before.terms) == before
        if before.name != name:
            assert after == before
            continue
        number = value if isinstance(value, int) else int(value[:-1]) * policy.trusted_bps // 100
        field = term if isinstance(value, int) else f"{term}_bps"
        assert after.terms == msgspec.structs.replace(before.terms, **{field: number})


def test_terms_that_are_changed_together_are_checked_together() -> None:
    policy = loads(POLICY, "p.toml")
    raised, lowered = {"images": {"minimum": "95%"}}, {"replication": {"fixed": "1%"}}
    for orders in (raised | lowered, lowered | raised):
        minimums = [terms.minimum_bps for terms in policy.changed(orders).terms(())]
        assert minimums == [9_900_000, 940_500_000, 9_900_000]
    with pytest.raises(HowdahError, match=r"^lsst: all minimums are together .* that of class\.images"):
        policy.changed(raised)


def test_orders_a_policy_cannot_follow_are_refused() -> None:
    policy = loads(POLICY, "p.toml")
    policy.check_requestable("images")
    with pytest.raises(
        HowdahError, match=r"^class background of lsst is always active; these can be asked for: images$"
    ):
        policy.check_requestable("background")
    with pytest.raises(
        HowdahError, match=r"^lsst has no class image; it has background, images, replication$"
    ):
        policy.check_requestable("image")
    with pytest.raises(HowdahError, match=r"^lsst: all minimums are together"):
        policy.changed({"background": {"minimum": "96%"}})
    with pytest.raises(HowdahError, match=r"^lsst has no class other; "):
        policy.changed({"other": {"weight": 2}})
    with pytest.raises(HowdahError, match=r"^lsst: class\.images: unknown key host; known are fixed"):
        policy.changed({"images": {"host": "base20"}})
