"""Limit orders in mode ask: a displacement that waits for its approval costs nothing."""

from collections.abc import Iterator

import pytest

from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.order_store import Order
from merkatd.database.scheduler.plan_store import PlanState, StoredPlan
from merkatd.embedded.model.vm_states import Lcm
from tests.scheduler.test_ordered_vms import Site


class AskedSite(Site):
    """A host that an order of ann has; a dearer order of bob waits for an approval."""

    def __init__(self) -> None:
        """Start the VMs of the first order in mode on."""
        super().__init__()
        self.set_duration(Lcm.SAVE_STOP, 150.0)
        self.first = self.vms("ann")
        self.state_order(self.first, 3.0)
        self.periods(3)
        self.order(Order.MODE_ASK)
        self.second = self.vms("bob")
        self.dearer = self.state_order(self.second, 9.0)
        self.credits = self.balances()[self.bob]

    def plan(self) -> StoredPlan:
        """Return the newest plan."""
        plan: StoredPlan | None = self.read(plan_store.newest)
        assert plan is not None
        return plan

    def approve(self, kinds: set[str]) -> None:
        """Approve the waiting plan, which has steps of these kinds."""
        plan = self.plan()
        assert plan.state is PlanState.WAITING
        assert {step.kind for step in plan.steps} == kinds
        self.read(lambda c: plan_store.approve(c, plan, frozenset(), "root", self.clock.seconds()))

    def costs_nothing(self) -> bool:
        """Return whether bob has paid nothing, and nothing is reserved for the order."""
        balance = self.balances()[self.bob]
        return balance == self.credits and self.free(self.bob) == balance


@pytest.fixture
def site() -> Iterator[AskedSite]:
    """Return such a cloud."""
    place = AskedSite()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def test_an_order_pays_only_once_the_plan_that_starts_it_is_approved(site: AskedSite) -> None:
    """It waits for two approvals: one lets the others leave, the other one starts its VMs."""
    site.periods(5)
    assert site.states(site.first) == ["RUNNING"] * 3
    assert site.costs_nothing()
    site.approve({"stop"})
    site.periods(8)
    assert site.states(site.first) == ["STOPPED"] * 3
    assert site.states(site.second) == ["PENDING"] * 3
    assert site.costs_nothing()
    site.approve({"resume", "deploy"})
    site.periods(2)
    assert site.states(site.second) == ["RUNNING"] * 3
    before, cost = site.balances()[site.bob], site.limit_order(site.dearer).cost
    assert cost is not None
    site.periods(2)
    assert before - site.balances()[site.bob] == pytest.approx(2 * cost, rel=0.01)
