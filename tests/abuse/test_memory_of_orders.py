"""Memory that a guest in a limit order holds beyond its size is charged, and so are shown costs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.service.base.period_view import present
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import RESERVE, Site

BOB = f"bob:{PASSWORD}"
HELD_MIB = 4096.0


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Return a cloud in which bob's first VM has no balloon, but may use one MiB only."""
    made = Site()
    hypervisors = made.scheduler.world.hypervisors
    real = hypervisors.read

    async def read(places: Mapping[int, int]) -> Any:
        use = await real(places)
        rigid = use.vm_id == 0
        held_mib = np.where(rigid, HELD_MIB, use.held_mib)
        in_force = replace(use.in_force, balloon=use.in_force.balloon & ~rigid)
        return replace(use, held_mib=held_mib, in_force=in_force)

    monkeypatch.setattr(hypervisors, "read", read)
    made.vm(1.0, BOB, CPU=1, VCPU=1, MEMORY=int(HELD_MIB), MERKAT_MAX_MEMORY=1)
    yield made
    made.close()


def test_a_guest_without_a_balloon_pays_for_the_memory_that_it_holds(site: Site) -> None:
    """Its owner says that it can use one MiB."""
    site.state_order([0], 9.0)
    site.periods(4)
    before = site.balances()[site.bob]
    site.periods(2)
    paid = (before - site.balances()[site.bob]) / 2
    assert paid == pytest.approx(100 * RESERVE["cpu"] + HELD_MIB * RESERVE["memory"], rel=1e-3)


def test_orders_that_never_get_their_memory_keep_no_other_order_out(site: Site) -> None:
    """Each would fit beside the MiB, and not beside the memory that is held."""
    site.periods(3)
    for number in range(3):
        vm = site.vm(1.0, BOB, CPU=0.5, VCPU=1, MEMORY=6144)
        site.state_order([vm], 90.0 - number)
    order = site.state_order(vms := site.vms("ann", 1), 3.0)
    site.periods(4)
    assert site.states(vms) == ["RUNNING"]
    assert site.limit_order(order).runs


def test_the_shown_cost_of_an_orders_vms_is_what_they_pay() -> None:
    """A VM that bids keeps another order out, which sets the price above the order's cost."""
    site = Site()
    order = site.state_order(site.vms("ann", 2), 90.0)
    site.vm(0.5, BOB, CPU=0.5, VCPU=4, MEMORY=512)
    site.state_order(site.vms("bob", 3), 6.0)
    site.periods(4)
    announcement = site.period()
    view = present(announcement, site.scheduler.world.markets)
    rows = [view.snapshot.vm_row(vm) for vm in site.limit_order(order).vms]
    before = site.balances()[site.ann]
    site.clock.advance(60.0)
    site.period()
    paid = before - site.balances()[site.ann]
    assert view.cost[rows].sum() == pytest.approx(paid, rel=0.05)
    assert paid > 3.0
    site.close()
