"""Network cards and disks that owners attach to running guests, which have no limits at first."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.abuse.goods_site import HOST, LEAST, PERIOD_S, Site, frontend_of
from tests.long_texts import TOO_LONG, lower_limit


@pytest.fixture(autouse=True)
def low() -> Iterator[None]:
    """Lower the limit of texts that are too long to read."""
    with lower_limit():
        yield


def attach_in_each_period(site: Site, vm: int, periods: int) -> None:
    """Attach a card and a disk after each of some periods; return after one more."""
    for _ in range(periods):
        site.frontend.period()
        site.attach(vm)
        site.frontend.clock.advance(PERIOD_S)
    site.frontend.period()


@pytest.mark.parametrize(("text", "most"), [("", 1 / LEAST), (TOO_LONG, 1.25)])
def test_attached_devices_cost_as_much_as_starts(text: str, most: float) -> None:
    """A new card and a new disk after each period have no limits until the next one.

    A text that no period reads hides the records, but not their number. Such a VM pays for whole
    periods.
    """
    site = Site()
    site.vm("ann")
    vm = site.vm("eve")
    site.frontend.bench.ok("one.vm.update", vm, f'NOTE="{text}"', 1)
    site.run(2)

    def attach(second: int) -> None:
        if second == 10:
            site.attach(vm)

    for _ in range(5):  # the first boot and four devices are free
        site.frontend.period()
        site.frontend.clock.advance(10)
        site.attach(vm)
        site.frontend.clock.advance(PERIOD_S - 10)
    site.frontend.period()
    site.had.clear()
    before = {owner: site.paid(owner) for owner in ("ann", "eve")}
    site.run(2, attach)
    site.frontend.period()
    after = {owner: site.paid(owner) for owner in ("ann", "eve")}
    for good, host in HOST.items():
        each = (after["ann"][good] - before["ann"][good]) / site.had["ann", good]
        bought = site.had["eve", good] - 2 * PERIOD_S
        paid = after["eve"][good] - before["eve"][good]
        assert bought > 90 * host
        assert each * bought * LEAST <= paid <= each * bought * most, (good, paid / bought / each)
    site.frontend.close()


def test_an_outage_makes_a_new_device_no_dearer_than_other_shares() -> None:
    """Without the daemon it stays without limits for hours, but its owner pays for two periods."""
    site = Site()
    site.vm("ann")
    vm = site.vm("eve")
    site.run(2)
    attach_in_each_period(site, vm, 6)
    paid = [site.paid("eve")]
    for periods in (1, 100):
        site.attach(vm)
        site.frontend.clock.advance(periods * PERIOD_S)
        site.frontend.period()
        paid.append(site.paid("eve"))
    site.frontend.close()
    for good in HOST:
        once, long = (after[good] - before[good] for before, after in pairwise(paid))
        assert 0 < long <= 2.01 * once, good


def _charge_of_unreadable(*, migrated: bool) -> float:
    """Return the charge for both goods while an owner of many devices has an unreadable VM too."""
    site = Site(frontend_of(2))
    for _ in range(2):
        site.vm("ann")
    vm, hidden = site.vm("eve"), site.vm("eve")
    site.frontend.bench.ok("one.vm.update", hidden, f'NOTE="{TOO_LONG}"', 1)
    site.run(2)
    attach_in_each_period(site, vm, 5)
    before = sum(site.paid("eve").values())
    host = site.frontend.cloud.world.vms.rows[hidden].history[-1].host

    def move(second: int) -> None:
        if migrated and second == 10:
            site.frontend.bench.ok("one.vm.migrate", hidden, 1 - host, True, False, -1, 0)

    site.run(1, move)
    site.frontend.period()
    assert site.frontend.cloud.world.vms.rows[hidden].history[-1].host == (host ^ migrated)
    paid = sum(site.paid("eve").values()) - before
    site.frontend.close()
    return paid


def test_a_migrated_unreadable_vm_has_no_new_device() -> None:
    """Its migration adds a record."""
    stayed = _charge_of_unreadable(migrated=False)
    assert 0 < _charge_of_unreadable(migrated=True) < 1.1 * stayed


def test_a_vm_with_a_new_device_pays_no_more() -> None:
    """Only owners that attach devices again and again pay for the time without limits."""
    site = Site()
    site.vm("ann")
    vm = site.vm("eve", 5.0)
    site.run(2)
    attach_in_each_period(site, vm, 3)
    paid = site.paid("eve")
    site.frontend.close()
    assert 0 < sum(paid.values()) <= 2 * 5.0 * 6
