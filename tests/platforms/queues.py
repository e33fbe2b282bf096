"""A cloud for tests of patient platforms: one host of four cores, of which each needs three."""

from collections.abc import Iterator, Mapping
from typing import Any

from merkatd.cluster.orders import LimitOrder
from merkatd.database.scheduler import journal, limit_order_store
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.protocol.platform_messages import (
    Kinds,
    ProgressReport,
)
from merkatd.scheduler.base.settings import MarketRules
from tests.platforms.site import Site, template

MARKET = MarketRules(
    pricing=Pricing(rule=PriceRule.CLEARING, reserve={"cpu": 0.001, "memory": 0.0001})
)
VM = """\
CPU="1"
VCPU="1"
MEMORY="1024"
EMBEDDED=[WORK="1000000",DEMAND="1",MEMORY_USE="256"]
"""
COST = 3 * (0.1 + 0.1024)
"""The reserve price of three VMs for a period."""


def patient(**parts: str) -> str:
    """Return the template of a patient platform of three VMs with an hour of work."""
    given = {
        "controller": '[controller]\nkind = "patient"',
        "budget": "[budget]\ncredits = 600",
        "slo": '[slo]\ndeadline = "2h"\nideal_run = "1h"',
        "cluster": f'[[cluster]]\nname = "nodes"\nleast = 3\ninitial = 3\ntemplate = """\n{VM}"""',
    }
    return template(**(given | parts))


class Queues(Site):
    """A host of four cores; each platform needs three of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"hosts": 1, "markets": (MARKET,)} | settings))

    def start_daemon(self) -> None:
        """Start a daemon that offers the kind `patient`; its controllers only record."""
        super().start_daemon()
        self.notes.offered = Kinds(("notes", "patient"), ("steps",))

    def patient(
        self,
        credits_: float = 600.0,
        deadline: str = "4h",
        ideal_run: str = "1h",
        owner: int | None = None,
        **parts: str,
    ) -> int:
        """Submit a patient platform of three VMs."""
        given = {
            "controller": '[controller]\nkind = "patient"',
            "budget": f"[budget]\ncredits = {credits_}",
            "slo": f'[slo]\ndeadline = "{deadline}"\nideal_run = "{ideal_run}"',
            "cluster": '[[cluster]]\nname = "nodes"\nleast = 3\ninitial = 3\n'
            f'template = """\n{VM}"""',
        }
        return self.submit(owner, **(given | parts))

    def limit_order(self, platform: int) -> LimitOrder | None:
        """Return a platform's limit order."""
        found: Mapping[int, LimitOrder] = self.read(limit_order_store.of_platforms)
        return found.get(platform)

    def orders(self, platform: int) -> LimitOrder:
        """Return a platform's limit order, which exists."""
        found = self.limit_order(platform)
        assert found is not None
        return found

    def states(self, platform: int) -> set[str]:
        """Return the states of a platform's VMs in the cloud."""
        return {self.state(vm) for vm in self.vms(platform)}

    def displaced(self) -> int:
        """Return a platform that ran for some periods and was displaced by a dearer one."""
        platform = self.patient()
        self.until(platform, "running")
        self.act(platform, ProgressReport(done=0.1))
        self.periods(2)
        self.patient(60_000.0, "2h", owner=self.bob)
        self.until(platform, "queued")
        self.periods(2)
        assert self.states(platform) == {"PENDING"}
        return platform

    def give_way(self, platform: int) -> None:
        """End all other platforms."""
        for other in range(1, 10):
            if other != platform and self.exists(other):
                self.wait(self.manager.stop(other, "bob"))

    def exists(self, platform: int) -> bool:
        """Return whether there is a platform of this id that has not ended."""
        with_order = self.read(limit_order_store.of_platforms)
        return platform in with_order

    def ended(self) -> set[int]:
        """Return the VMs that the daemon has ended."""
        steps = self.read(lambda c: journal.recent(c, journal.StepFilter(kind="terminate"), 1000))
        return {stored.step.vm for stored in steps}


def closed_after(site: Queues) -> Iterator[Queues]:
    """Yield the cloud, then check its accounts and close it."""
    yield site
    site.placed_again = set(site.cloud.world.vms.rows)
    site.agree()
    site.close()
