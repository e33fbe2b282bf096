"""What happens to a platform in a period, from what was seen of it."""

from dataclasses import replace

import pytest

from merkatd.fleets.fleet import FleetCounts
from merkatd.platforms.lifecycle.platform_template import BudgetPolicy
from merkatd.platforms.lifecycle.start_conditions import MarketOffer, Terms
from merkatd.platforms.lifecycle.transitions import (
    UP_OR_COMING,
    Event,
    PlatformInput,
    PlatformState,
    next_event,
)
from merkatd.policies.deadline import Funds

NOW_S = 1_000_000.0
OFFER = MarketOffer(now_s=NOW_S, interval_s=60.0, prices={"cpu": 0.001})


def standing(state: PlatformState, credits_left: float = 10.0, *, active: int = 2) -> PlatformInput:
    """A platform that needs two VMs, so many of which are there."""
    return PlatformInput(
        state=state,
        held=False,
        terms=Terms(price_ceiling={}, full={"cpu": 200.0}, purse=Funds(credits=credits_left)),
        least={"nodes": 2},
        over_budget=BudgetPolicy.STOP,
        counts=FleetCounts(running={"nodes": active}, kept={"nodes": 2}, active=active, left=2),
    )


@pytest.mark.parametrize("state", UP_OR_COMING)
def test_whose_budget_is_used_up_is_stopped_where_it_said_so(state: PlatformState) -> None:
    """While it runs or is about to; else it goes on with what replenishment brings.

    A thousandth of a credit is nothing.
    """
    spent = standing(state, 0.0009)
    found = next_event(spent, OFFER)
    assert found is not None
    assert (found.event, found.why) == (Event.STOP, "its budget is used up")
    goes_on = next_event(replace(spent, over_budget=BudgetPolicy.GO_ON), OFFER)
    assert goes_on is None or goes_on.event is Event.UP
    rich = next_event(standing(state, 0.0011), OFFER)
    assert rich is None or rich.event is Event.UP


@pytest.mark.parametrize("state", [PlatformState.SUSPENDING, PlatformState.SUSPENDED])
def test_what_does_not_run_spends_nothing_and_is_not_stopped_for_it(state: PlatformState) -> None:
    """It may have credits again when it is resumed."""
    found = next_event(standing(state, 0.0, active=1), OFFER)
    assert found is None or found.event is not Event.STOP


def test_it_is_down_when_none_of_its_vms_is_active_any_more() -> None:
    """One that is still being suspended is active."""
    assert next_event(standing(PlatformState.SUSPENDING, active=1), OFFER) is None
    found = next_event(standing(PlatformState.SUSPENDING, active=0), OFFER)
    assert found is not None
    assert found.event is Event.DOWN


def test_it_is_up_when_as_many_run_as_it_needs() -> None:
    """And not before."""
    for state in (PlatformState.STARTING, PlatformState.RESUMING):
        assert next_event(standing(state, active=1), OFFER) is None
        found = next_event(standing(state, active=2), OFFER)
        assert found is not None
        assert found.event is Event.UP
