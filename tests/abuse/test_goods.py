"""A guest that restarts repeatedly pays the neighbours' price for network and disk.

It has no limits until the daemon finds it, some seconds after each start.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

import pytest

from merkatd.currency.credits import month_of
from merkatd.currency.settings import MoneySettings
from merkatd.embedded.machines.history_records import split
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import VmAction
from merkatd.ledger import statement
from merkatd.scheduler.base.settings import GoodsSettings, MarketRules
from tests.lengths import SOAK, shorten
from tests.scheduler.frontend import Frontend

PERIOD_S = 60
FREE_PERIODS = shorten(6, 5)
"""The first periods, in which a few starts are free."""
PERIODS = shorten(12, 3)
VMS = shorten(24, 12)
LEAST = 0.95
"""The least part of the neighbour's price of a unit."""

HOST = {"network": 1000.0, "disk": 200.0}
HIGH, LOW = 20.0, 0.01
ATTACH_DISK, ATTACH_NIC = 21, 23
"""OpenNebula's actions that attach devices, which the embedded cloud lacks."""


TOO_LONG = "x" * 1_200_000


def frontend_of(hosts: int) -> Frontend:
    """Return a daemon that sells network and disk."""
    return Frontend(
        hosts=hosts,
        size=HostSize(800, 65536),
        goods=GoodsSettings(
            network=True,
            disk=True,
            host_network_mbit_s=HOST["network"],
            host_disk_mib_s=HOST["disk"],
        ),
        money=MoneySettings(supply=1e7, starting_credits=1e5),
        markets=(MarketRules(default_bid=dict.fromkeys(("cpu", "memory"), 1.0)),),
    )


@dataclass
class Site:
    """A host with a neighbour that bids high for both goods, and a player with a tiny bid.

    A period starts early if the daemon requests it.
    """

    frontend: Frontend = field(default_factory=lambda: frontend_of(1))
    woken: bool = False
    had: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """The Mbit or MiB that the guests could move, by owner and good."""

    def __post_init__(self) -> None:
        """Create the users, and record the daemon's requests for an early period."""
        self.frontend.scheduler._beat.wake = self.wake  # type: ignore[method-assign]
        self.ids: dict[str, int] = {}
        self.vms: dict[int, str] = {}
        self.sessions = {name: self.frontend.user(name) for name in ("ann", "eve")}
        users = self.frontend.cloud.world.users.rows.values()
        self.ids = {one.name: one.id for one in users}
        self.bids = {"ann": HIGH, "eve": LOW}

    def wake(self) -> None:
        """Record that a period is due."""
        self.woken = True

    def vm(self, owner: str, bid: float | None = None, **size: float) -> int:
        """Create a VM of this owner."""
        amount = self.bids[owner] if bid is None else bid
        made = self.frontend.vm(
            5.0,
            owner=self.sessions[owner],
            MERKAT_BID_NETWORK=amount,
            MERKAT_BID_DISK=amount,
            **size,
        )
        self.vms[made] = owner
        return made

    def act(self, vm: int, action: str) -> None:
        """Request an action from OpenNebula as the owner; OpenNebula may reject it."""
        session = self.sessions[self.vms[vm]]
        self.frontend.bench.raw("one.vm.action", action, vm, session=session)

    def attach(self, vm: int) -> None:
        """Attach a disk and a network card to the guest, as OpenNebula does and records it."""
        world = self.frontend.cloud.world
        for action in (ATTACH_DISK, ATTACH_NIC):
            split(world.vms.rows[vm], world.stamp(), cast(VmAction, action))
        world.changed("vm", vm)
        self.frontend.cloud.guests.set_limits(vm, network_kb_s=-1, disk_kib_s=-1)

    def has_limit(self, vm: int) -> bool:
        """Return whether the VM's network has a limit."""
        found = self.frontend.cloud.guests.read([vm]).get(vm)
        return found is not None and found.limits.network_kb_s >= 0

    def run(self, periods: int, move: Callable[[int], None] = lambda _second: None) -> None:
        """Run second by second; `move` receives the second of the period."""
        last = -PERIOD_S
        for second in range(periods * PERIOD_S):
            if second % PERIOD_S == 0 or (self.woken and second - last >= 5):
                self.frontend.period()
                self.woken, last = False, second
            move(second % PERIOD_S)
            self.frontend.clock.advance(1.0)
            self.count()

    def count(self) -> None:
        """Count a second in which guests could move as much as their limits allow."""
        for vm, guest in self.frontend.cloud.guests.read().items():
            kb_s, kib_s = guest.limits.network_kb_s, guest.limits.disk_kib_s
            owner = self.vms[vm]
            self.had[owner, "network"] += HOST["network"] if kb_s < 0 else kb_s / 125
            self.had[owner, "disk"] += HOST["disk"] if kib_s < 0 else kib_s / 1024

    def paid(self, owner: str) -> dict[str, float]:
        """Return the charged credits by good."""
        month = month_of(self.frontend.clock.seconds())
        lines = self.frontend.read(lambda c: statement(c, self.ids[owner], month)).lines
        return {
            "network": sum(one.network_cost for one in lines) / 1e6,
            "disk": sum(one.disk_cost for one in lines) / 1e6,
        }


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
    for _ in range(6):
        site.frontend.period()
        site.attach(vm)
        site.frontend.clock.advance(PERIOD_S)
    site.frontend.period()
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
    for _ in range(5):
        site.frontend.period()
        site.attach(vm)
        site.frontend.clock.advance(PERIOD_S)
    site.frontend.period()
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
    for _ in range(3):
        site.frontend.period()
        site.attach(vm)
        site.frontend.clock.advance(PERIOD_S)
    site.frontend.period()
    paid = site.paid("eve")
    site.frontend.close()
    assert 0 < sum(paid.values()) <= 2 * 5.0 * 6


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
        assert bought > 0.6 * VMS * host, "the player had too little at each restart"
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
    for period in range(5):
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
