"""Limit orders whose steps need an approval, or OpenNebula's request: whole, or not at all."""

from collections.abc import Iterator

import pytest

from merkatd.cluster.orders import LimitOrder
from merkatd.currency.settings import MoneySettings
from merkatd.database.scheduler import limit_order_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.execution.delegation import HostRoom
from tests.modes.site import Site
from tests.scheduler.frontend import PASSWORD

RESERVE = {"cpu": 0.001, "memory": 0.0001}
CLEARING = MarketRules(pricing=Pricing(rule=PriceRule.CLEARING, reserve=RESERVE))


class OrderedSite(Site):
    """A cloud with hosts of four cores and 8 GiB in mode ask, and two tenants."""

    def __init__(self, hosts: int = 1) -> None:
        """Start the daemon."""
        money = MoneySettings(supply=100_000_000, renewal_s=1e9)
        super().__init__(hosts=hosts, markets=(CLEARING,), money=money)
        self.first_tenants(["ann", "bob"], 1000.0)
        self.mode(Mode.ASK)

    def vms(self, name: str, count: int = 3, cores: int = 1) -> list[int]:
        """Create pending VMs of a tenant."""
        owner = f"{name}:{PASSWORD}"
        size = {"CPU": cores, "VCPU": cores, "MEMORY": 1024}
        return [self.vm(1.0, owner, **size) for _ in range(count)]

    def state_order(self, vms: list[int], limit: float) -> int:
        """Store a limit order of these VMs; return its id."""
        owner, now_s = self.cloud.world.vms.rows[vms[0]].uid, self.clock.seconds()
        order: LimitOrder = self.read(
            lambda c: limit_order_store.add(
                c, owner=owner, vms=vms, limit=limit, least_run_s=0.0, factor=1.0, stated_s=now_s
            )
        )
        return order.id

    def plan(self) -> list[tuple[str, int]]:
        """Return the steps of the waiting plan."""
        plan = self.ask("standing_plan")
        if plan["state"] != "waiting":
            return []
        return sorted((step["kind"], step["vm"]) for step in plan["steps"])

    def approve(self, skip: list[int] | None = None) -> None:
        """Approve the waiting plan, without some steps, and let the daemon carry it out."""
        self.ask("approve_plan", skip=skip or [], who="root")
        self.minutes(2)

    def states(self, vms: list[int]) -> list[str]:
        """Return the states of these VMs."""
        return [self.state(vm) for vm in vms]


@pytest.fixture
def site() -> Iterator[OrderedSite]:
    """Return a cloud with one host."""
    place = OrderedSite()
    yield place
    place.close()


def steps(kind: str, vms: list[int]) -> list[tuple[str, int]]:
    """Return a step of this kind for each VM."""
    return [(kind, vm) for vm in vms]


def test_an_order_is_approved_whole_or_does_not_start(site: OrderedSite) -> None:
    """If a deployment is skipped, all are, and they are proposed again with another VM."""
    vms = site.vms("ann")
    order = site.state_order(vms, 3.0)
    site.minutes(2)
    assert site.plan() == steps("deploy", vms)
    stored = site.read(lambda c: next(limit_order_store.of_ids(c, {order})))
    assert stored.why == "its VMs may not start now; their messages say why"
    assert "plan 1 places it" in str(site.bench.vm(vms[0]).user_template)
    site.approve(skip=[2])
    assert site.states(vms) == ["PENDING"] * 3
    assert all(step["skipped"] for step in site.ask("standing_plan")["steps"])
    assert site.plan() == []
    (other,) = site.vms("bob", 1)
    site.minutes(1)
    assert site.plan() == steps("deploy", [*vms, other])
    site.approve(skip=[4])
    assert site.states(vms) == ["RUNNING"] * 3


def test_a_displacement_is_approved_whole_or_not_made(site: OrderedSite) -> None:
    """The lower order is saved after an approval; after another one the dearer starts."""
    first = site.vms("ann")
    site.state_order(first, 3.0)
    site.minutes(2)
    site.approve()
    second = site.vms("bob")
    site.state_order(second, 9.0)
    site.minutes(2)
    assert site.states(first) == ["RUNNING"] * 3
    assert site.plan() == steps("stop", first)
    site.approve(skip=[1])
    assert site.states(first) == ["RUNNING"] * 3
    assert site.plan() == []
    (other,) = site.vms("bob", 1)
    site.minutes(1)
    assert site.plan() == [("deploy", other), *steps("stop", first)]
    site.approve()
    assert "RUNNING" not in site.states(first)
    assert set(steps("deploy", second)) <= set(site.plan())
    site.approve()
    assert site.states(second) == ["RUNNING"] * 3
    site.minutes(3)
    assert site.states(second) == ["RUNNING"] * 3


def test_vms_with_bids_make_room_after_an_approval() -> None:
    """The order starts once they have left."""
    site = OrderedSite(hosts=2)
    site.mode(Mode.ON)
    claim = {"CPU": 2, "VCPU": 2, "MEMORY": 1024, "MERKAT_MIN_CPU": 190}
    neighbours = [site.vm(200.0, f"bob:{PASSWORD}", **claim) for _ in range(2)]
    site.minutes(3)
    assert {site.host_of(vm) for vm in neighbours} == {0, 1}
    site.mode(Mode.ASK)
    (large,) = site.vms("ann", 1, cores=3)
    site.state_order([large], 90.0)
    site.minutes(2)
    ((kind, vm),) = site.plan()
    assert (kind, vm in neighbours) == ("migrate", True)
    site.approve()
    assert site.plan() == [("deploy", large)]
    site.approve()
    assert site.states([large, *neighbours]) == ["RUNNING"] * 3
    site.close()


def test_opennebula_gets_all_vms_of_an_order_or_none(site: OrderedSite) -> None:
    """A request for some of them, or with room for some of them, starts none."""
    site.mode(Mode.ON)
    site.world_settings = {**site.world_settings, "handing": True}
    site.start_daemon()
    vms = site.vms("ann")
    site.state_order(vms, 3.0)
    assert site.places(vms[:2]) == []
    for room in (HostRoom(cpu=250, memory_mib=1e6), HostRoom(cpu=1e6, memory_mib=2500)):
        assert site.places(vms, {0: room}) == []
    assert sorted(step.vm for step in site.places(vms)) == vms


def test_a_deployment_that_opennebula_refuses_is_proposed_again(site: OrderedSite) -> None:
    """The others run meanwhile; the next plan has the rest."""
    vms = site.vms("ann")
    site.state_order(vms, 3.0)
    site.minutes(2)
    site.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.deploy", vm=vms[1], count=1))
    site.approve()
    site.minutes(1)
    assert site.states(vms) == ["RUNNING", "PENDING", "RUNNING"]
    assert site.plan() == [("deploy", vms[1])]
    site.minutes(3)
    assert site.states(vms) == ["RUNNING", "PENDING", "RUNNING"]
    site.approve()
    assert site.states(vms) == ["RUNNING"] * 3
