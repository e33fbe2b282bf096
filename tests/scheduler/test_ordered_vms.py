"""VMs in limit orders through the daemon: start, displacement, charges, the least run."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pytest

from merkatd.cluster.columns import NO_HOST
from merkatd.cluster.orders import LimitOrder
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import limit_order_store
from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.phases.scarcity import within_capacity
from tests.placement.test_order_clearing import decided, halls
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

    def set_duration(self, state: Lcm, seconds: float) -> None:
        """Set the time that VMs stay in a state."""
        world = self.cloud.world
        delays = world.settings.delays
        by_state = {**delays.by_state, state: seconds}
        world.settings = replace(world.settings, delays=replace(delays, by_state=by_state))

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
        f"limit order {lower} waits: its limit is 3 credits per period, and it would start with"
        " 9.001"
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
    why = f"limit order {order} waits: floors leave less than 500 % of CPU and 5,120 MiB of memory"
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


@pytest.mark.parametrize("hosts", [0, 1])
@pytest.mark.filterwarnings("error")
def test_an_order_of_vms_that_may_have_nothing_takes_part_in_no_market(hosts: int) -> None:
    """Their limits in their templates are 0: there is nothing to buy, with or without hosts."""
    site = Site(hosts=hosts)
    nothing = {"MERKAT_MAX_CPU": 0, "MERKAT_MAX_MEMORY": 0}
    order = site.state_order([site.vm(1.0, f"ann:{PASSWORD}", **nothing)], 3.0)
    announcement = site.periods(2)
    assert announcement.decided.decision.failed == {}
    assert "may have nothing" in site.limit_order(order).why
    site.close()


@pytest.mark.parametrize("limit", [2.0, 3.0])
def test_an_order_keeps_and_pays_its_room_while_its_disks_are_copied(
    site: Site, limit: float
) -> None:
    """Another order with less or as much does not start in it; the least run begins once."""
    site.set_duration(Lcm.PROLOG, 300.0)
    first = site.vms("ann")
    order = site.state_order(first, 3.0, least_run_s=600.0)
    site.periods(1)
    since_s = site.limit_order(order).since_s
    second = site.vms("bob")
    site.state_order(second, limit)
    site.periods(1)
    before = site.balances()
    site.periods(2)
    assert site.states(first) == ["PROLOG"] * 3
    assert before[site.ann] - site.balances()[site.ann] == pytest.approx(2 * limit)
    held = site.balances()[site.ann] - site.free(site.ann)
    assert held == pytest.approx(2 * limit + (600 / 60 - 5) * 3.0, rel=0.02)
    site.periods(5)
    assert (site.states(first), site.states(second)) == (["RUNNING"] * 3, ["PENDING"] * 3)
    assert site.limit_order(order).since_s == since_s
    assert before[site.bob] == site.balances()[site.bob]


def test_a_guest_of_an_order_that_starts_between_periods_has_its_size(site: Site) -> None:
    """The order has paid for all of it since it was placed."""
    site.set_duration(Lcm.PROLOG, 90.0)
    (vm,) = site.vms("ann", 1)
    site.state_order([vm], 3.0)
    site.periods(2)
    site.clock.advance(30.0)
    assert site.state(vm) == "RUNNING"
    quota = site.limits(vm).vcpu_quota
    site.periods(2)
    assert site.limits(vm).vcpu_quota == quota > 0


def test_displaced_vms_pay_what_they_paid_before_until_they_have_left(site: Site) -> None:
    """They may be saved for long. A limit that is lowered meanwhile makes it no cheaper."""
    site.set_duration(Lcm.SAVE_STOP, 600.0)
    vms = site.vms("ann")
    order = site.state_order(vms, 9.0)
    site.state_order(site.vms("bob"), 2.0)
    site.periods(3)
    assert site.limit_order(order).cost == pytest.approx(2.0)
    site.state_order(site.vms("bob"), 90.0)
    site.periods(2)
    for limit, paid in ((9.0, 2.0), (1.0, 2.0)):
        changed = replace(site.limit_order(order), limit=limit)
        site.read(lambda connection, changed=changed: limit_order_store.change(connection, changed))
        site.periods(1)
        before = site.balances()[site.ann]
        site.periods(2)
        assert site.states(vms) == ["SAVE_STOP"] * 3
        assert before - site.balances()[site.ann] == pytest.approx(2 * paid, rel=1e-4)
    site.periods(4)


def test_a_limit_counts_as_far_as_credits_last_while_disks_are_copied(site: Site) -> None:
    """Its payer could pay half of its credits per period; the longest charge is two periods."""
    site.set_duration(Lcm.PROLOG, 150.0)
    site.state_order(site.vms("ann"), 1e9)
    site.periods(2)
    waiting = site.state_order(site.vms("bob"), 3.0)
    site.periods(1)
    needed = float(site.limit_order(waiting).why.split()[-1].replace(",", ""))
    assert needed == pytest.approx(site.balances()[site.ann] / 2, rel=0.01)
    site.periods(2)


def test_an_order_offers_no_more_for_the_rest_while_some_of_its_vms_are_saved(site: Site) -> None:
    """It would displace the order that displaces it, as soon as two of its VMs are saved."""
    first = site.vms("ann")
    site.state_order(first, 3.0)
    site.periods(2)
    second = site.vms("bob")
    order = site.state_order(second, 4.0)
    site.period()
    while set(site.states(first)) != {"PENDING"}:
        site.clock.advance(1.0)
        site.period()
        assert site.limit_order(order).runs
        assert (site.limit_order(order).cost or 0.0) < 3.001
    site.periods(2)
    assert site.states(second) == ["RUNNING"] * 3


class _NoLease:
    """A stock in which nothing is left for VM 1."""

    def take(self, vm: int, _host: int) -> str | None:
        """Return why the VM gets nothing."""
        return "no lease is left" if vm == 1 else None

    def why_never(
        self, gangs: Sequence[Collection[int]], _hosts: Collection[int]
    ) -> list[str | None]:
        """Return no reason: each VM alone could start."""
        return [None] * len(gangs)


def test_nobody_is_displaced_for_an_order_that_could_not_start() -> None:
    """Otherwise its neighbours would be saved and started again for ever."""
    vms = [(0, 1.0, 60.0, 0), (NO_HOST, 4.0, 60.0, 1), (NO_HOST, 4.0, 30.0, 1)]
    decision = within_capacity(halls(1, vms), decided, _NoLease)
    assert decision.plan.steps == ()
    assert decision.orders[10].runs
    assert decision.reasons[1] == "no lease is left"
    assert decision.reasons[2] == "its limit order waits with VM 1"
    assert len(within_capacity(halls(1, vms), decided, None).plan) == 1
