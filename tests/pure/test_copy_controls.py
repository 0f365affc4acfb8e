"""Congestion controls that are refused: hold where it has nothing to hold."""

import msgspec
import pytest
from samples import LIMITS

from howdah import HowdahError
from howdah.cc.programs import HoldTarget
from howdah.transfer import congestion
from howdah.transfer.congestion import Sender, given
from howdah.values.plan import Plan

PLAN = Plan(streams=1, block_bytes=2**20)
LOADED = [*LIMITS.congestion_controls_available, "hd_hold"]
ROOT = msgspec.structs.replace(LIMITS, privileged=True)
ROOT_WITH_HOLD = msgspec.structs.replace(
    ROOT, congestion_controls_available=LOADED, congestion_controls_allowed=LOADED
)


@pytest.mark.parametrize("dry_run", [True, False])
def test_hold_that_is_not_loaded_has_no_target(dry_run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(congestion.programs, "load", lambda _: pytest.fail("it is not loaded for nothing"))
    says = (
        "^congestion_control='hold': hold has no target, and is an ordinary control without one; "
        "give it one: howdah cc load hold; howdah cc set hold --rate 1Gbit$"
    )
    with pytest.raises(HowdahError, match=says):
        given(PLAN, "hold", Sender(ROOT, None), dry_run=dry_run)


def test_hold_is_taken_with_a_target_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    target: HoldTarget | None = None
    monkeypatch.setattr(congestion.programs, "default_target", lambda: target)
    with pytest.raises(HowdahError, match=r"give it one: howdah cc set hold --rate 1Gbit$"):
        given(PLAN, "hold", Sender(ROOT_WITH_HOLD, None), dry_run=False)
    target = HoldTarget(rate_bps=10**9, window_packets=0, share=0)
    assert given(PLAN, "hold", Sender(ROOT_WITH_HOLD, None), dry_run=False).congestion_control == "hd_hold"


def test_what_only_another_can_see_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(congestion.programs, "default_target", lambda: pytest.fail("only root may look"))
    user = msgspec.structs.replace(ROOT_WITH_HOLD, privileged=False)
    for sender in (Sender(user, None), Sender(ROOT_WITH_HOLD, "dtn2")):
        assert given(PLAN, "hold", sender, dry_run=False).congestion_control == "hd_hold"
