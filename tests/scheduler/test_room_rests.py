"""Limit orders that OpenNebula refuses: others leave for them less and less often."""

from collections.abc import Iterator

import pytest

from merkatd.cluster import Deploy, Stop
from merkatd.database.scheduler import limit_order_store
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.scheduler.phases.announce import Announcement
from tests.scheduler.test_ordered_vms import Site


class RefusingSite(Site):
    """A host that an order of ann has; OpenNebula refuses the VMs of a dearer order of bob."""

    def __init__(self) -> None:
        """Start the VMs of the first order."""
        super().__init__()
        self.lower_vms = self.vms("ann")
        self.lower = self.state_order(self.lower_vms, 3.0)
        self.periods(2)
        self.refused = self.vms("bob")
        for vm in self.refused:
            self.cloud.faults.add(Fault(FaultKind.REFUSE, method="one.vm.deploy", vm=vm))
        self.dearer = self.state_order(self.refused, 9.0)

    def minutes(self, count: int) -> Iterator[tuple[int, Announcement]]:
        """Run a period in each of so many minutes."""
        for minute in range(count):
            yield minute, self.period()
            self.clock.advance(60.0)


@pytest.fixture
def site() -> Iterator[RefusingSite]:
    """Return such a cloud."""
    place = RefusingSite()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def test_others_leave_less_and_less_often_for_a_refused_order(site: RefusingSite) -> None:
    """After 5, 10, 20 and then 30 minutes. Its owner pays for them only."""
    stopped = [
        minute
        for minute, announcement in site.minutes(75)
        if any(isinstance(step, Stop) for step in announcement.decided.steps)
    ]
    assert stopped == [0, 6, 17, 38, 69]
    assert site.states(site.lower_vms) == ["RUNNING"] * 3


def test_the_owner_reads_why_its_order_takes_no_room(site: RefusingSite) -> None:
    """All its VMs say so; the order names the VMs' messages."""
    (_, announcement), *_ = reversed(list(site.minutes(5)))
    reasons = announcement.decided.decision.reasons
    for vm in site.refused:
        assert reasons[vm].startswith(
            f"limit order {site.dearer} waits: other VMs would have to leave for it; its limit"
            f" order takes no room from others for 2 min, because of VM {site.refused[0]}:"
            " OpenNebula did not deploy it; refused: one.vm.deploy"
        )
    assert "their messages say why" in site.limit_order(site.dearer).why


def test_a_resting_order_starts_in_free_room(site: RefusingSite) -> None:
    """OpenNebula takes its VMs again, and the other order is gone."""
    list(site.minutes(3))
    site.cloud.faults.clear()
    list(site.minutes(1))
    assert site.states(site.refused) == ["PENDING"] * 3
    site.read(lambda connection: limit_order_store.withdraw(connection, [site.lower]))
    for vm in site.lower_vms:
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.clock.advance(30.0)
    (_, announcement), *_ = list(site.minutes(1))
    started = [step.vm for step in announcement.decided.steps if isinstance(step, Deploy)]
    assert started == site.refused
    site.periods(2)
    assert site.states(site.refused) == ["RUNNING"] * 3
    assert site.limit_order(site.dearer).runs


def test_once_its_vms_run_an_order_takes_room_again(site: RefusingSite) -> None:
    """A refusal counts no longer than until the VM is on a host."""
    list(site.minutes(3))
    site.cloud.faults.clear()
    stopped = [
        minute
        for minute, announcement in site.minutes(10)
        if any(isinstance(step, Stop) for step in announcement.decided.steps)
    ]
    assert stopped == [3]
    assert site.states(site.refused) == ["RUNNING"] * 3
