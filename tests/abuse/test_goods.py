"""A guest that restarts repeatedly pays the neighbours' price for network and disk.

It has no limits until the daemon finds it, some seconds after each start.
"""

import pytest

from tests.abuse.goods_site import HOST, LEAST, PERIOD_S, Site
from tests.lengths import SOAK, shorten

FREE_PERIODS = shorten(6, 5)
"""The first periods, in which a few starts are free."""
PERIODS = shorten(12, 3)
VMS = shorten(24, 8)


class Player:
    """One VM with a tiny bid."""

    def __init__(self, site: Site) -> None:
        self.site, self.vm = site, site.vm("eve")

    def off_once_limited(self, _second: int) -> None:
        """Power off once the VM has limits, and on again at once."""
        if self.site.frontend.state(self.vm) == "POWEROFF":
            self.site.act(self.vm, "resume")
        elif self.site.has_limit(self.vm):
            self.site.act(self.vm, "poweroff-hard")

    def off_after_a_while(self, second: int) -> None:
        """Run for a few seconds at times unrelated to the daemon's observations."""
        if second % 7 == 0:
            self.site.act(self.vm, "resume")
        if second % 7 == 5:
            self.site.act(self.vm, "poweroff-hard")

    def off_at_each_look(self, second: int) -> None:
        """Be off, and without a share, at each observation."""
        if 2 <= second < 50:
            self.off_once_limited(second)
        elif second == 50:
            self.site.act(self.vm, "poweroff-hard")

    def once_a_period(self, second: int) -> None:
        """Restart once a period; the VM has its limits most of the time."""
        if second == 1:
            self.site.act(self.vm, "poweroff-hard")
        if second == 6:
            self.site.act(self.vm, "resume")

    def reverted(self, second: int) -> None:
        """Revert the VM to a snapshot, at one time right before the observation."""
        if second in {27, 57}:
            self.site.revert(self.vm)

    def made_anew(self, second: int) -> None:
        """Replace the VM in each period."""
        if second == 50:
            self.site.act(self.vm, "terminate-hard")
            self.vm = self.site.vm("eve")


MOVES = [
    name for name in vars(Player) if not name.startswith("_") and (SOAK or name != "once_a_period")
]


@pytest.mark.parametrize("name", MOVES)
def test_no_pattern_of_starts_makes_network_or_disk_cheaper(name: str) -> None:
    """Each second without limits costs the neighbour's price."""
    site = Site()
    site.vm("ann")
    player = Player(site)
    site.run(3)
    site.run(FREE_PERIODS, getattr(player, name))
    site.had.clear()
    before = {owner: site.paid(owner) for owner in ("ann", "eve")}
    site.run(PERIODS, getattr(player, name))
    site.frontend.period()
    after = {owner: site.paid(owner) for owner in ("ann", "eve")}
    for good, host in HOST.items():
        each = (after["ann"][good] - before["ann"][good]) / site.had["ann", good]
        # Each limit leaves a VM at least 1 Mbit/s and 1 MiB/s.
        bought = site.had["eve", good] - PERIODS * PERIOD_S
        paid = after["eve"][good] - before["eve"][good]
        assert bought > host * PERIODS, "the player had too little in each period for a valid test"
        assert paid >= LEAST * each * bought, (good, paid / bought / each)
    site.frontend.agree()
    site.frontend.close()


def test_many_vms_restart_free_of_charge_once_a_day() -> None:
    """Guests crash at times: a restart is free if the VM then runs for an hour or more."""
    site = Site()
    site.vm("ann")
    size = {"CPU": 0.01, "VCPU": 1, "MEMORY": 64}
    vms = [site.vm("eve", 0.001, **size) for _ in range(VMS)]
    site.run(4)
    _restart_each(site, vms, VMS * 5 // 12)
    once = site.paid("eve")
    # Two goods at a thousandth each.
    assert sum(once.values()) <= 2 * 0.001 * len(vms) * 16
    _run_hour(site)
    _restart_each(site, vms[:4], 2)  # three are free within an hour
    site.had.clear()
    before = {owner: site.paid(owner) for owner in ("ann", "eve")}
    _restart_each(site, vms[4:], VMS // 3)
    site.frontend.period()
    after = {owner: site.paid(owner) for owner in ("ann", "eve")}
    for good, host in HOST.items():
        each = (after["ann"][good] - before["ann"][good]) / site.had["ann", good]
        bought = site.had["eve", good] - len(vms) * (VMS // 3) * PERIOD_S
        paid = after["eve"][good] - before["eve"][good]
        assert bought > 0.9 * (VMS - 4) * host, "the player had too little at each restart"
        assert paid >= LEAST * each * bought, (good, paid / bought / each)
    site.frontend.close()


def _run_hour(site: Site) -> None:
    """Run an hour and a little more."""
    for _ in range(7):
        site.frontend.period()
        site.frontend.clock.advance(9 * PERIOD_S)


def _restart_each(site: Site, vms: list[int], periods: int) -> None:
    """Restart one VM after another, 24 s apart."""
    waiting, seconds, off = iter(vms), iter(range(10**6)), list[int]()

    def move(_second: int) -> None:
        if off and site.frontend.state(off[0]) == "POWEROFF":
            site.act(off.pop(), "resume")
        elif next(seconds) % 24 == 0 and (vm := next(waiting, None)) is not None:
            site.act(vm, "poweroff-hard")
            off.append(vm)

    site.run(periods, move)


def test_a_vm_restarted_once_pays_no_more() -> None:
    """Its bids bound its charges, as for all VMs."""
    site = Site()
    site.vm("ann")
    vm, bid = site.vm("eve", 5.0), 5.0
    site.run(3)

    def again(second: int) -> None:
        if second == 10:
            site.act(vm, "poweroff-hard")
        if second == 15:
            site.act(vm, "resume")

    before = site.paid("eve")
    site.run(1, again)
    site.run(2)
    site.frontend.period()
    paid = {good: amount - before[good] for good, amount in site.paid("eve").items()}
    site.frontend.close()
    for good, amount in paid.items():
        assert 3.9 * bid <= amount <= 4 * bid, good


def test_many_vms_that_start_once_pay_their_bids_at_most() -> None:
    """A tenant's first twelve VMs start in four groups, while earlier ones run."""
    site = Site()
    site.vm("ann")
    site.run(2)
    for _ in range(4):
        for _ in range(3):
            site.vm("eve", 1.0)
        site.run(2)
    site.frontend.period()
    paid = site.paid("eve")
    site.frontend.close()
    bids = 3 * (8 + 6 + 4 + 2) + 12 / 6  # a VM is charged for at least ten seconds
    assert 0 < paid["network"] <= bids
    assert 0 < paid["disk"] <= bids


def _charge_after(changes: bool) -> float:
    """Return the charge for both goods of a VM that is off for some periods, changed or not."""
    site = Site()
    for _ in range(2):
        site.vm("ann")
    vm = site.vm("eve")
    site.run(3)
    site.act(vm, "poweroff-hard")
    for period in range(shorten(5, 3)):
        site.run(1)
        for _ in range(changes * (1 + period % 3)):
            session = site.sessions["eve"]
            site.frontend.bench.raw("one.vm.resize", vm, "MEMORY=2048", False, session=session)

    def once(second: int) -> None:
        if second == 2 and site.frontend.state(vm) == "POWEROFF":
            site.act(vm, "resume")

    site.run(2, once)
    paid = sum(site.paid("eve").values())
    site.frontend.close()
    return paid


def test_changes_of_a_powered_off_vm_do_not_count_as_starts() -> None:
    """A backup or a new disk, for example, adds a history record of its own."""
    assert _charge_after(changes=True) == _charge_after(changes=False) > 0
