"""Memory that a guest in a limit order holds beyond its size is charged, and so are shown costs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.service.base.period_view import present
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import RESERVE, Site

BOB = f"bob:{PASSWORD}"
HELD_MIB = 4096.0


def test_a_guest_without_a_balloon_pays_for_the_memory_that_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its owner says that it can use one MiB."""
    site = Site()
    hypervisors = site.scheduler.world.hypervisors
    real, rigid = hypervisors.read, set[int]()

    async def read(places: Mapping[int, int]) -> Any:
        use = await real(places)
        holds = np.isin(use.vm_id, list(rigid))
        balloon = use.in_force.balloon & ~holds
        held_mib = np.where(holds, HELD_MIB, use.held_mib)
        return replace(use, held_mib=held_mib, in_force=replace(use.in_force, balloon=balloon))

    monkeypatch.setattr(hypervisors, "read", read)
    vm = site.vm(1.0, BOB, CPU=1, VCPU=1, MEMORY=int(HELD_MIB), MERKAT_MAX_MEMORY=1)
    rigid.add(vm)
    site.state_order([vm], 9.0)
    site.periods(4)
    before = site.balances()[site.bob]
    site.periods(2)
    paid = (before - site.balances()[site.bob]) / 2
    assert paid == pytest.approx(100 * RESERVE["cpu"] + HELD_MIB * RESERVE["memory"], rel=1e-3)
    site.close()


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
