"""Network and disk: a guest that is started again and again has them for no less than neighbours.

It has no limits until the daemon finds it, some seconds after each start.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from merkatd.currency.credits import month_of
from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import HostSize
from merkatd.ledger import statement
from merkatd.scheduler.base.settings import GoodsSettings, MarketRules
from tests.lengths import shorten
from tests.scheduler.frontend import Frontend

PERIOD_S = 60
FREE_PERIODS = 6
"""In which a few starts cost nothing."""
PERIODS = shorten(12, 6)
LEAST = 0.95
"""Of what a unit costs the neighbour."""

HOST = {"network": 1000.0, "disk": 200.0}
HIGH, LOW = 20.0, 0.01


@dataclass
class Site:
    """A host with a neighbour that bids high for both goods, and a player that bids next to none.

    The next period begins early where the daemon would begin it.
    """

    frontend: Frontend = field(
        default_factory=lambda: Frontend(
            hosts=1,
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
    )
    woken: bool = False
    had: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """By owner and good: Mbit or MiB that its guests could move."""

    def __post_init__(self) -> None:
        """Wake it as the daemon's clock would."""
        self.frontend.scheduler._beat.wake = self.wake  # type: ignore[method-assign]
        self.ids: dict[str, int] = {}
        self.vms: dict[int, str] = {}
        self.sessions = {name: self.frontend.user(name) for name in ("ann", "eve")}
        users = self.frontend.cloud.world.users.rows.values()
        self.ids = {one.name: one.id for one in users}
        self.bids = {"ann": HIGH, "eve": LOW}

    def wake(self) -> None:
        """The next period is due."""
        self.woken = True

    def vm(self, owner: str, bid: float | None = None, **size: float) -> int:
        """A VM of this owner."""
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
        """Its owner asks OpenNebula for it, which may refuse."""
        session = self.sessions[self.vms[vm]]
        self.frontend.bench.raw("one.vm.action", action, vm, session=session)

    def limited(self, vm: int) -> bool:
        """Whether its network has a limit."""
        found = self.frontend.cloud.guests.read([vm]).get(vm)
        return found is not None and found.limits.network_kb_s >= 0

    def run(self, periods: int, move: Callable[[int], None] = lambda _second: None) -> None:
        """Second by second; `move` is told the second of the period."""
        last = -PERIOD_S
        for second in range(periods * PERIOD_S):
            if second % PERIOD_S == 0 or (self.woken and second - last >= 5):
                self.frontend.period()
                self.woken, last = False, second
            move(second % PERIOD_S)
            self.frontend.clock.advance(1.0)
            self.count()

    def count(self) -> None:
        """A second in which guests could move as much as they may."""
        for vm, guest in self.frontend.cloud.guests.read().items():
            kb_s, kib_s = guest.limits.network_kb_s, guest.limits.disk_kib_s
            owner = self.vms[vm]
            self.had[owner, "network"] += HOST["network"] if kb_s < 0 else kb_s / 125
            self.had[owner, "disk"] += HOST["disk"] if kib_s < 0 else kib_s / 1024

    def paid(self, owner: str) -> dict[str, float]:
        """Credits, by good."""
        month = month_of(self.frontend.clock.seconds())
        lines = self.frontend.read(lambda c: statement(c, self.ids[owner], month)).lines
        return {
            "network": sum(one.network_cost for one in lines) / 1e6,
            "disk": sum(one.disk_cost for one in lines) / 1e6,
        }


class Player:
    """One VM with next to no bid."""

    def __init__(self, site: Site) -> None:
        self.site, self.vm = site, site.vm("eve")

    def off_once_limited(self, _second: int) -> None:
        """And on again at once."""
        if self.site.frontend.state(self.vm) == "POWEROFF":
            self.site.act(self.vm, "resume")
        elif self.site.limited(self.vm):
            self.site.act(self.vm, "poweroff-hard")

    def off_after_a_while(self, second: int) -> None:
        """On for a few seconds, at times that the daemon's looks don't follow."""
        if second % 7 == 0:
            self.site.act(self.vm, "resume")
        if second % 7 == 5:
            self.site.act(self.vm, "poweroff-hard")

    def off_at_each_look(self, second: int) -> None:
        """It has no share then."""
        if 2 <= second < 50:
            self.off_once_limited(second)
        elif second == 50:
            self.site.act(self.vm, "poweroff-hard")

    def once_a_period(self, second: int) -> None:
        """It runs on with its limits for most of the time."""
        if second == 1:
            self.site.act(self.vm, "poweroff-hard")
        if second == 6:
            self.site.act(self.vm, "resume")

    def made_anew(self, second: int) -> None:
        """Another VM for each period."""
        if second == 50:
            self.site.act(self.vm, "terminate-hard")
            self.vm = self.site.vm("eve")


MOVES = [name for name in vars(Player) if not name.startswith("_")]


@pytest.mark.parametrize("name", MOVES)
def test_no_way_of_starting_gives_network_or_disk_for_less(name: str) -> None:
    """A Mbit and a MiB cost as much as those of the neighbour, for each second without limits."""
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
        assert bought > host * PERIODS, "it had a second of the whole host in each period"
        assert paid >= LEAST * each * bought, (good, paid / bought / each)
    site.frontend.agree()
    site.frontend.close()


def test_many_vms_start_again_for_nothing_once_a_day() -> None:
    """Each again and again, an hour or more apart, and runs on: guests crash, but not so often."""
    site = Site()
    site.vm("ann")
    size = {"CPU": 0.01, "VCPU": 1, "MEMORY": 64}
    vms = [site.vm("eve", 0.001, **size) for _ in range(24)]
    site.run(4)
    _restarted(site, vms, 10)
    once = site.paid("eve")
    # Two goods at a thousandth each.
    assert sum(once.values()) <= 2 * 0.001 * len(vms) * 16
    _hour(site)
    _restarted(site, vms[:4], 2)  # three are free within an hour
    site.had.clear()
    before = {owner: site.paid(owner) for owner in ("ann", "eve")}
    _restarted(site, vms[4:], 8)
    site.frontend.period()
    after = {owner: site.paid(owner) for owner in ("ann", "eve")}
    for good, host in HOST.items():
        each = (after["ann"][good] - before["ann"][good]) / site.had["ann", good]
        bought = site.had["eve", good] - len(vms) * 8 * PERIOD_S
        paid = after["eve"][good] - before["eve"][good]
        assert bought > 16 * host, "it had a second of the whole host at each restart"
        assert paid >= LEAST * each * bought, (good, paid / bought / each)
    site.frontend.close()


def _hour(site: Site) -> None:
    """And a little more."""
    for _ in range(62):
        site.frontend.period()
        site.frontend.clock.advance(PERIOD_S)


def _restarted(site: Site, vms: list[int], periods: int) -> None:
    """One of them after the other, 24 s apart."""
    waiting, seconds, off = iter(vms), iter(range(10**6)), list[int]()

    def move(_second: int) -> None:
        if off and site.frontend.state(off[0]) == "POWEROFF":
            site.act(off.pop(), "resume")
        elif next(seconds) % 24 == 0 and (vm := next(waiting, None)) is not None:
            site.act(vm, "poweroff-hard")
            off.append(vm)

    site.run(periods, move)


def _paid_with(restart: bool) -> float:
    """Credits for both goods of a VM that bids, started again once or never."""
    site = Site()
    site.vm("ann")
    vm = site.vm("eve", 5.0)
    site.run(4)

    def again(second: int) -> None:
        if restart and second == 10:
            site.act(vm, "poweroff-hard")
        if restart and second == 15:
            site.act(vm, "resume")

    site.run(1, again)
    site.run(4)
    paid = sum(site.paid("eve").values())
    site.frontend.close()
    return paid


def test_a_vm_that_is_started_again_once_pays_no_more() -> None:
    """That is the way of all guests: its bids are the most that it pays for network and disk."""
    assert _paid_with(restart=True) <= _paid_with(restart=False)


def test_many_vms_that_start_once_pay_what_they_bid() -> None:
    """A tenant's first twelve VMs, of which the last begin when the others run."""
    site = Site()
    site.vm("ann")
    site.run(2)
    for _ in range(4):
        for _ in range(3):
            site.vm("eve", 1.0)
        site.run(3)
    site.frontend.period()
    paid = site.paid("eve")
    site.frontend.close()
    bids = 3 * (12 + 9 + 6 + 3) + 12 / 6  # ten seconds are the least that a VM is charged for
    assert 0 < paid["network"] <= bids
    assert 0 < paid["disk"] <= bids


def _paid_after(changes: bool) -> float:
    """Credits for both goods of a VM that is off for some periods, changed in each or never."""
    site = Site()
    for _ in range(2):
        site.vm("ann")
    vm = site.vm("eve")
    site.run(3)
    site.act(vm, "poweroff-hard")
    for _ in range(6):
        site.run(1)
        if changes:
            session = site.sessions["eve"]
            site.frontend.bench.raw("one.vm.resize", vm, "MEMORY=2048", False, session=session)

    def once(second: int) -> None:
        if second == 2 and site.frontend.state(vm) == "POWEROFF":
            site.act(vm, "resume")

    site.run(3, once)
    paid = sum(site.paid("eve").values())
    site.frontend.close()
    return paid


def test_changes_of_a_vm_that_is_off_are_no_starts() -> None:
    """A backup or another disk, for example, though each has a record of its own."""
    assert _paid_after(changes=True) == _paid_after(changes=False) > 0
