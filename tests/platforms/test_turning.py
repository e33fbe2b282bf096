"""Events of a platform in a period, from its observation."""

from dataclasses import replace

import pytest

from merkatd.platforms.rules.lifecycle_events import (
    UP_OR_COMING,
    BudgetPolicy,
    Event,
    FleetCounts,
    PlatformInput,
    PlatformState,
    next_event,
)
from merkatd.platforms.rules.start_conditions import MarketOffer, Terms
from merkatd.policies.deadline import Funds

NOW_S = 1_000_000.0
OFFER = MarketOffer(now_s=NOW_S, interval_s=60.0, prices={"cpu": 0.001})


def make_input(
    state: PlatformState, credits_left: float = 10.0, *, active: int = 2
) -> PlatformInput:
    """Return a platform that needs two VMs and has `active` of them."""
    return PlatformInput(
        state=state,
        held=False,
        terms=Terms(price_ceiling={}, full={"cpu": 200.0}, purse=Funds(credits=credits_left)),
        least={"nodes": 2},
        over_budget=BudgetPolicy.STOP,
        counts=FleetCounts(running={"nodes": active}, kept={"nodes": 2}, active=active, left=2),
    )


@pytest.mark.parametrize("state", UP_OR_COMING)
def test_a_platform_without_credits_is_stopped_if_it_chose_so(state: PlatformState) -> None:
    """This holds while it runs or starts; otherwise it continues with its replenishment.

    Less than a thousandth of a credit counts as nothing.
    """
    spent = make_input(state, 0.0009)
    event = next_event(spent, OFFER)
    assert event is not None
    assert (event.event, event.why) == (Event.STOP, "its budget is used up")
    goes_on = next_event(replace(spent, over_budget=BudgetPolicy.GO_ON), OFFER)
    assert goes_on is None or goes_on.event is Event.UP
    rich = next_event(make_input(state, 0.0011), OFFER)
    assert rich is None or rich.event is Event.UP


@pytest.mark.parametrize("state", [PlatformState.SUSPENDING, PlatformState.SUSPENDED])
def test_a_suspended_platform_without_credits_is_not_stopped(state: PlatformState) -> None:
    """It spends nothing, and may have credits again when it resumes."""
    event = next_event(make_input(state, 0.0, active=1), OFFER)
    assert event is None or event.event is not Event.STOP


def test_a_platform_is_down_when_none_of_its_vms_is_active() -> None:
    """A VM that is still being suspended is active."""
    assert next_event(make_input(PlatformState.SUSPENDING, active=1), OFFER) is None
    event = next_event(make_input(PlatformState.SUSPENDING, active=0), OFFER)
    assert event is not None
    assert event.event is Event.DOWN


def test_a_platform_is_up_when_enough_vms_run() -> None:
    """It needs its least number of VMs."""
    for state in (PlatformState.STARTING, PlatformState.RESUMING):
        assert next_event(make_input(state, active=1), OFFER) is None
        event = next_event(make_input(state, active=2), OFFER)
        assert event is not None
        assert event.event is Event.UP


@pytest.mark.parametrize("left", [2, 1, 0])
def test_a_stopping_platform_is_gone_when_no_vm_is_left(left: int) -> None:
    """The last VM that is still being ended counts, too."""
    stopping = make_input(PlatformState.STOPPING)
    event = next_event(replace(stopping, counts=replace(stopping.counts, left=left)), OFFER)
    assert (None if event is None else event.event) == (None if left else Event.GONE)
