"""A cloud that sells network and disk, with a neighbour and a player."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from merkatd.currency.credits import month_of
from merkatd.currency.settings import MoneySettings
from merkatd.embedded.machines.history_records import split
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import VmAction
from merkatd.ledger import statement
from merkatd.scheduler.base.settings import GoodsSettings, MarketRules
from tests.abuse.arena import replace_domain
from tests.scheduler.frontend import Frontend

PERIOD_S = 60
LEAST = 0.95
"""The least part of the neighbour's price of a unit."""
HOST = {"network": 1000.0, "disk": 200.0}
HIGH, LOW = 20.0, 0.01
ATTACH_DISK, ATTACH_NIC = 21, 23
"""OpenNebula's actions that attach devices, which the embedded cloud lacks."""


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

    def wake(self, least_s: float = 0.0) -> None:  # noqa: ARG002
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

    def revert(self, vm: int) -> None:
        """Replace the guest's domain without a record, as a return to a snapshot does."""
        guests = self.frontend.cloud.guests
        guest = guests.guest(vm)
        if guest is not None and guest.host >= 0:
            replace_domain(guest)
            guests.reboot(vm)

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
