"""Quotas of bytes: of one copy, and of a user's copies in a day."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from howdah import HowdahError
from howdah.site.policy import Policy, Refused
from howdah.site.quota import Quota, day_file

MB = 1_000_000


def limited(copy: int | None = None, day: int | None = None) -> Policy:
    made = Policy()
    made.copy_bytes, made.day_bytes = copy, day
    made.set_by = {"quota.copy": "/etc/howdah/policy.toml", "quota.day": "/etc/howdah/policy.toml"}
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "quota" / "dtn1"


def on(date: str) -> Callable[[], str]:
    return lambda: date


def test_without_a_quota_nothing_is_counted_or_written(file: Path) -> None:
    quota = Quota(limited(), file)
    quota.begin(10**15)
    quota.moved(10**15, 10**15)
    assert quota.count(10**15) == 0
    assert not file.parent.exists()


def test_one_copy_moves_no_more_than_it_may(file: Path) -> None:
    quota = Quota(limited(copy=10 * MB), file)
    quota.begin(10 * MB)
    quota.moved(10 * MB, 10 * MB)
    words = "more than 10.0 MB, the most that is allowed by the policy of host "
    for act in (
        lambda: quota.begin(10 * MB + 1),
        lambda: quota.moved(0, 10 * MB + 1),
        lambda: quota.moved(10 * MB + 1, 10 * MB + 1),
    ):
        with pytest.raises(Refused, match=re.escape(words)):
            act()
    # The next copy has as much.
    Quota(limited(copy=10 * MB), file).begin(10 * MB)
    assert not file.parent.exists()


def test_copies_of_a_day_count_together_and_each_byte_once(file: Path) -> None:
    first, second = (Quota(limited(day=10 * MB), file, on("2026-05-01")) for _ in range(2))
    first.begin(None)
    for moved in (1 * MB, 2 * MB, 2 * MB, 4 * MB):
        first.moved(moved, moved)
    second.begin(6 * MB)
    second.moved(5 * MB, 5 * MB)
    assert second.count(5 * MB) == 9 * MB
    # Both go on at once: the one that comes too late is ended.
    first.moved(5 * MB, 5 * MB)
    with pytest.raises(Refused, match=r"more than is left of 10.0 MB, the most that is allowed in a day"):
        second.moved(5 * MB + 1, 5 * MB + 1)


def test_a_copy_that_fits_no_more_is_refused_before_it_moves_anything(file: Path) -> None:
    Quota(limited(day=10 * MB), file, on("2026-05-01")).count(4 * MB)
    Quota(limited(day=10 * MB), file, on("2026-05-01")).begin(6 * MB)
    with pytest.raises(Refused, match=r"left of 10.0 MB"):
        Quota(limited(day=10 * MB), file, on("2026-05-01")).begin(6 * MB + 1)
    Quota(limited(day=10 * MB), file, on("2026-05-01")).count(6 * MB)
    with pytest.raises(Refused, match=r"left of 10.0 MB"):
        Quota(limited(day=10 * MB), file, on("2026-05-01")).begin(None)


def test_the_next_day_begins_anew_also_for_a_copy_on_its_way(file: Path) -> None:
    day = ["2026-05-01"]
    quota = Quota(limited(day=10 * MB), file, lambda: day[0])
    quota.moved(9 * MB, 9 * MB)
    day[0] = "2026-05-02"
    quota.moved(19 * MB, 19 * MB)
    assert Quota(limited(day=10 * MB), file, lambda: day[0]).count(0) == 10 * MB


def test_the_bytes_of_a_day_are_their_users_alone(file: Path) -> None:
    before = os.umask(0)
    try:
        Quota(limited(day=MB), file).count(1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["nonsense", "2026-05-01 5\n", "2026-05-01 -0000000000000000005\n"])
def test_a_file_that_says_nothing_stops_the_copy(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(HowdahError, match="does not say how many bytes were copied today"):
        Quota(limited(day=MB), file).begin(None)


def test_bytes_that_cannot_be_counted_stop_the_copy(file: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(HowdahError, match=r"cannot count bytes for the policy of this host in .*dtn1"):
        Quota(limited(day=MB), file).begin(None)


def test_the_file_is_not_where_a_user_says_for_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    before = day_file()
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert day_file() == before
    assert before.name == os.uname().nodename
