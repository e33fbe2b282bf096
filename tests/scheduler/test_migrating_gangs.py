"""Displaced limit orders with a VM that is being migrated: no VM of them goes on alone."""

from collections.abc import Iterator

import pytest

from merkatd.cluster import Stop
from merkatd.embedded.model.vm_states import Lcm
from merkatd.placement.market.orders.order_stops import MOST_WAIT_S
from merkatd.scheduler.base.early_periods import pause_before_event_s
from tests.scheduler.test_ordered_vms import Site

MIGRATION_S, SAVING_S = 22.0, 100.0


class MovingSite(Site):
    """Two hosts that an order of ann fills; one of its VMs is being migrated."""

    def __init__(self) -> None:
        """Start the VMs, and the migration of one to the room of a VM that has ended."""
        super().__init__(hosts=2)
        self.low = self.vms("ann", 7)
        self.lower = self.state_order(self.low, 3.0)
        self.periods(2)
        self.moving = next(vm for vm in self.low if self.host_of(vm) == self._fuller())
        self.dearer_vms: list[int] = []

    def _fuller(self) -> int:
        hosts = [self.host_of(vm) for vm in self.low]
        return max(set(hosts), key=hosts.count)

    def migrate(self, seconds: float = MIGRATION_S) -> None:
        """Start the migration, and a period later displace the order."""
        self.set_duration(Lcm.SAVE_STOP, SAVING_S)
        self.set_duration(Lcm.MIGRATE, seconds)
        self.bench.ok("one.vm.migrate", self.moving, 1 - self._fuller(), True)
        self.period()
        self.clock.advance(2.0)
        self.dearer_vms = self.vms("bob", 8)
        self.state_order(self.dearer_vms, 90.0)

    def stops(self) -> list[int]:
        """Run a period, and return the VMs that it stops."""
        return [step.vm for step in self.period().decided.steps if isinstance(step, Stop)]


@pytest.fixture
def site() -> Iterator[MovingSite]:
    """Return such a cloud."""
    place = MovingSite()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def test_no_vm_is_saved_before_the_migration_has_ended_and_then_all_are(site: MovingSite) -> None:
    """The VMs run together until the period that the end of the migration starts early."""
    site.migrate()
    others = [vm for vm in site.low if vm != site.moving]
    announcement = site.period()
    decision = announcement.decided.decision
    assert site.state(site.moving) == "MIGRATE"
    assert site.states(others) == ["RUNNING"] * 6
    assert not site.limit_order(site.lower).runs
    words = f"; its VMs are saved together, once VM {site.moving} has been migrated"
    assert all(decision.reasons[vm].endswith(words) for vm in site.low)
    assert pause_before_event_s(decision) == 0.0
    before = site.balances()[site.ann]
    site.clock.advance(MIGRATION_S)
    assert site.states(site.low) == ["RUNNING"] * 7
    assert site.stops() == site.low
    assert 0 < before - site.balances()[site.ann] <= 3.0 * MIGRATION_S / 60.0
    site.periods(8)
    assert site.states(site.dearer_vms) == ["RUNNING"] * 8


def test_a_migration_that_lasts_delays_the_other_order_for_two_minutes(site: MovingSite) -> None:
    """Its owner can prolong it, and the other order pays for the room meanwhile."""
    site.migrate(10_000.0)
    others = [vm for vm in site.low if vm != site.moving]
    for _ in range(int(MOST_WAIT_S / 10.0)):
        assert site.stops() == []
        site.clock.advance(10.0)
    assert site.stops() == others


def test_a_migration_delays_no_stop_of_an_order_that_runs_in_part(site: MovingSite) -> None:
    """One of its VMs is saved already, so the others stop as soon as they can."""
    saved, *others = [vm for vm in site.low if vm != site.moving]
    site.set_duration(Lcm.SAVE_STOP, SAVING_S)
    site.bench.ok("one.vm.action", "stop", saved)
    site.migrate()
    assert site.stops() == others
