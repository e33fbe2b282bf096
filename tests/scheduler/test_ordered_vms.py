"""VMs in limit orders through the daemon: start, displacement, charges, the least run."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import limit_order_store
from merkatd.database.scheduler.limit_order_store import LimitOrder
from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from merkatd.placement.base.strategy import Pricing
from merkatd.scheduler.base.settings import MarketRules
from tests.scheduler.frontend import PASSWORD, Frontend

CREDITS = 1000.0
RESERVE = {"cpu": 0.001, "memory": 0.0001}
MONEY = MoneySettings(supply=100_000_000, renewal_s=1e9)


class Site(Frontend):
    """A host of four cores and 8 GiB, and two tenants with credits."""

    def __init__(self, hosts: int = 1, rule: PriceRule = PriceRule.CLEARING) -> None:
        """Start the cloud and the daemon."""
        market = MarketRules(pricing=Pricing(rule=rule, reserve=RESERVE))
        super().__init__(hosts=hosts, money=MONEY, markets=(market,))
        self.ann, self.bob = self.first_tenants(["ann", "bob"], CREDITS)

    def vms(self, name: str, count: int = 3) -> list[int]:
        """Create pending VMs of a tenant, each with a core and 1 GiB."""
        owner = f"{name}:{PASSWORD}"
        return [self.vm(1.0, owner, CPU=1, VCPU=1, MEMORY=1024) for _ in range(count)]

    def state_order(
        self, vms: list[int], limit: float, *, least_run_s: float = 0.0, factor: float = 1.0
    ) -> int:
        """Store a limit order of these VMs; return its id."""
        owner = self.cloud.world.vms.rows[vms[0]].uid
        order: LimitOrder = self.read(
            lambda connection: limit_order_store.add(
                connection,
                owner=owner,
                vms=vms,
                limit=limit,
                least_run_s=least_run_s,
                factor=factor,
                stated_s=self.clock.seconds(),
            )
        )
        return order.id

    def limit_order(self, id_: int) -> LimitOrder:
        """Return a limit order with its latest outcome."""
        orders: tuple[LimitOrder, ...] = self.read(limit_order_store.living)
        return next(order for order in orders if order.id == id_)

    def states(self, vms: list[int]) -> list[str]:
        """Return the states of these VMs."""
        return [self.state(vm) for vm in vms]

    def free(self, owner: int) -> float:
        """Return the credits of a tenant that are not reserved."""
        row = self.read(
            lambda connection: account_store.find(connection, AccountKind.TENANT, owner)
        )
        return float(row.free) / 1e6


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a cloud with one host."""
    place = Site()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def test_an_order_starts_pays_what_it_displaces_and_is_displaced(site: Site) -> None:
    """Its VMs are saved, wait, and start again with their data when the dearer order is gone."""
    first = site.vms("ann")
    lower = site.state_order(first, 3.0)
    site.periods(2)
    assert site.states(first) == ["RUNNING"] * 3
    second = site.vms("bob")
    dearer = site.state_order(second, 9.0)
    site.periods(3)
    assert (site.states(first), site.states(second)) == (["PENDING"] * 3, ["RUNNING"] * 3)
    assert site.limit_order(lower).why == (
        f"limit order {lower} waits: its limit is 3 credits per period, and it would start with 9"
    )
    assert site.limit_order(dearer).cost == pytest.approx(3.0)
    before = site.balances()
    site.periods(3)
    after = site.balances()
    assert before[site.bob] - after[site.bob] == pytest.approx(9.0)
    assert after[site.ann] == before[site.ann]
    site.read(lambda connection: limit_order_store.withdraw(connection, [dearer]))
    for vm in second:
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.periods(2)
    assert site.states(first) == ["RUNNING"] * 3
    assert len(site.bench.vm(first[0]).history) == 2


def test_a_gang_without_room_waits_whole_and_says_so(site: Site) -> None:
    """Four of its five VMs would fit."""
    vms = site.vms("ann", 5)
    order = site.state_order(vms, 50.0)
    announcement = site.periods(2)
    assert site.states(vms) == ["PENDING"] * 5
    why = f"limit order {order} waits: floors leave less than 500 cpu, 5120 memory"
    assert set(announcement.decided.decision.reasons.values()) == {why}
    assert site.limit_order(order).why == why


def test_an_order_whose_vms_boot_keeps_its_room_and_pays(site: Site) -> None:
    """A lower order does not start meanwhile, although no guest runs yet."""
    settings = site.cloud.world.settings
    delays = replace(settings.delays, by_state={**settings.delays.by_state, Lcm.BOOT: 300.0})
    site.cloud.world.settings = replace(settings, delays=delays)
    first, second = site.vms("ann"), site.vms("bob")
    higher, lower = site.state_order(first, 9.0), site.state_order(second, 3.0)
    site.periods(1)
    before = site.balances()
    for _ in range(3):
        site.periods(1)
        assert (site.states(first), site.states(second)) == (["BOOT"] * 3, ["PENDING"] * 3)
        assert (site.limit_order(higher).runs, site.limit_order(lower).runs) == (True, False)
    assert before[site.ann] - site.balances()[site.ann] == pytest.approx(3 * 3.0, abs=0.1)
    site.periods(3)
    assert site.states(first) == ["RUNNING"] * 3


def test_in_its_least_run_an_order_counts_with_its_factor(site: Site) -> None:
    """After ten minutes its limit of 3 no longer keeps it beside one of 5."""
    first = site.vms("ann")
    lower = site.state_order(first, 3.0, least_run_s=600.0, factor=2.0)
    site.periods(2)
    second = site.vms("bob")
    site.state_order(second, 5.0)
    site.periods(7)
    assert site.states(first) == ["RUNNING"] * 3
    assert site.limit_order(lower).cost == pytest.approx(5.0)
    site.periods(4)
    assert (site.states(first), site.states(second)) == (["PENDING"] * 3, ["RUNNING"] * 3)


def test_the_least_run_is_reserved_and_released(site: Site) -> None:
    """A payer can't move away what its order may cost until its least run is over."""
    order = site.state_order(site.vms("ann"), 3.0, least_run_s=600.0, factor=2.0)
    for rest in (10, 9, 8, 7, 6, 5, 4, 3):
        site.period()
        cost = site.limit_order(order).cost
        assert cost is not None
        further = (rest - 2) * 3.0 * (1 if rest == 10 else 2)
        held = site.balances()[site.ann] - site.free(site.ann)
        assert held == pytest.approx(2 * cost + further, rel=0.02)
        site.clock.advance(60.0)
    site.periods(3)
    cost = site.limit_order(order).cost
    assert cost is not None
    assert site.balances()[site.ann] - site.free(site.ann) == pytest.approx(2 * cost, rel=0.02)


def test_a_limit_counts_as_far_as_credits_pay_for_the_least_run(site: Site) -> None:
    """Its payer can pay 1 credit per period for so long, which is less than another order's 2."""
    long_s = site.balances()[site.ann] * 60.0
    rich = site.state_order(site.vms("ann"), 5.0, least_run_s=long_s)
    second = site.vms("bob")
    poor = site.state_order(second, 2.0)
    site.periods(3)
    assert (site.limit_order(rich).runs, site.limit_order(poor).runs) == (False, True)
    assert site.states(second) == ["RUNNING"] * 3


def test_after_a_restart_the_daemon_goes_on_with_the_same_orders(site: Site) -> None:
    """A daemon that is killed after any period has everything in the database."""
    first = site.vms("ann")
    lower = site.state_order(first, 3.0, least_run_s=600.0, factor=2.0)
    for _ in range(3):
        site.periods(1)
        site.start_daemon()
    site.state_order(site.vms("bob"), 5.0)
    for _ in range(3):
        site.periods(1)
        site.start_daemon()
    assert site.limit_order(lower).runs
    assert site.states(first) == ["RUNNING"] * 3


def test_markets_with_the_papers_rule_have_no_orders() -> None:
    """The VMs bid as if there were none, and the order says why it does nothing."""
    site = Site(rule=PriceRule.PAPER)
    vms = site.vms("ann", 2)
    order = site.state_order(vms, 3.0)
    site.periods(2)
    assert site.states(vms) == ["RUNNING"] * 2
    assert not site.limit_order(order).runs
    assert "market with limit orders" in site.limit_order(order).why
    site.close()
