"""A host's memory in virtual time: two honest tenants bid for it, and an abusive one evades bids.

The tests compare the memory that guests hold at the end of each period with the charges.
"""

from collections.abc import Generator
from dataclasses import dataclass

from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import HostSize
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.observation.memory_in_use import LEAST_MIB
from tests.platforms.site import Site
from tests.scheduler.frontend import PASSWORD

HOST_MIB = 16 * 1024
SIZE_MIB = 8192
USE_MIB = 8000
HIGH = 60.0
"""A bid that buys half of the host beside three neighbours."""
FAIR_BID = 20.0
"""The bid of each of three VMs, for half of the host's memory at most."""
RESERVE = {"cpu": 0.001, "memory": 0.0001}
MEMORY = 1

Moves = Generator[None, None, None]
"""A strategy: it acts, and yields once a period."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums over all counted periods."""

    held: tuple[float, ...]
    """The MiB held in each period."""
    paid: float
    fair_held: float
    """MiB-periods."""
    fair_paid: float
    vms: float
    """The average number of the player's VMs."""

    @property
    def price_ratio(self) -> float:
        """Return the player's price of a MiB and period relative to the neighbours' price."""
        return (self.paid / sum(self.held)) / (self.fair_paid / self.fair_held)

    @property
    def mean(self) -> float:
        """Return the average of the MiB that the player held."""
        return sum(self.held) / len(self.held)

    @property
    def got_something(self) -> bool:
        """Return whether the player held more than every VM may keep without a bid."""
        return self.mean > 1.1 * LEAST_MIB * max(self.vms, 1.0)


class Hoarder:
    """The actions of a tenant whose VMs use nearly all of their memory."""

    def __init__(self, memory: "Memory") -> None:
        self.memory = memory
        self.session = f"eve:{PASSWORD}"

    def vm(self, bid: float, **attributes: object) -> int:
        """Create a VM of half the host's memory."""
        return self.memory.vm("eve", bid, USE_MIB, **attributes)

    def bid(self, vm: int, bid: float) -> None:
        """Set the bid from the next period on."""
        text = f'MERKAT_BID_MEMORY="{bid}"'
        self.memory.site.bench.raw("one.vm.update", vm, text, 1, session=self.session)

    def act(self, vm: int, action: str) -> None:
        """Request an action from OpenNebula, which may reject it."""
        self.memory.site.bench.raw("one.vm.action", action, vm, session=self.session)


class Memory:
    """A site of one host of 16 GiB, or of more."""

    def __init__(self, rule: PriceRule, *others: MarketRules, hosts: int = 1) -> None:
        """Start the site; `others` are further markets, without hosts."""
        self.site = Site(
            hosts=hosts,
            size=HostSize(800, HOST_MIB),
            markets=(MarketRules(pricing=Pricing(rule=rule, reserve=RESERVE)), *others),
            money=MoneySettings(supply=100_000_000, renewal_s=1e9),
        )
        self.eve = self.site.tenant("eve")
        self.fair: list[int] = []

    def vm(self, name: str, bid: float, use: float, **attributes: object) -> int:
        """Create a VM of a tenant with plenty of CPU."""
        values = {
            "CPU": 0.1,
            "VCPU": 1,
            "MEMORY": SIZE_MIB,
            "MERKAT_BID_CPU": 0.1,
            "MERKAT_BID_MEMORY": bid,
        } | attributes
        lines = [f'{key}="{value}"' for key, value in values.items()]
        work = f'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="{use}"]'
        return self.site.bench.new("\n".join([*lines, work]), session=f"{name}:{PASSWORD}")

    def add_neighbours(self) -> None:
        """Create three VMs of two honest tenants, with more demand than memory and little use."""
        self.fair += [self.vm(name, FAIR_BID, 64) for name in ("ann", "bob", "ann")]

    def play(self, moves: Moves, periods: int) -> Sums:
        """Play this number of periods of a strategy."""
        site, before = self.site, self.site.balances()
        held, fair_held, count = [], 0.0, 0
        for _ in range(periods):
            next(moves)
            site.periods(1)
            mine = 0.0
            for vm, usage in site.cloud.guests.read().items():
                row = site.cloud.world.vms.rows[vm]
                if row.state.name != "ACTIVE" or usage.host < 0:
                    continue
                if row.uid == self.eve:
                    mine, count = mine + usage.balloon_mib, count + 1
                else:
                    fair_held += usage.balloon_mib
            held.append(mine)
        after = site.balances()
        paid = {owner: before[owner] - after[owner] for owner in (site.ann, site.bob, self.eve)}
        return Sums(
            held=tuple(held),
            paid=paid[self.eve],
            fair_held=fair_held,
            fair_paid=paid[site.ann] + paid[site.bob],
            vms=count / periods,
        )

    def close(self) -> None:
        """End the daemon."""
        self.site.close()
