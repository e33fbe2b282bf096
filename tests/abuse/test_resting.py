"""A VM that does not run keeps only the resources that it pays for.

The tests measure the neighbours' core-seconds, and the placement of VMs that bid.
"""

from collections.abc import Generator

import pytest

from merkatd.currency import MICRO, micro
from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import Lcm
from merkatd.ledger import debts_of
from merkatd.market.price import PriceRule
from merkatd.market.quote import Quotes
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from tests.abuse.arena import CORES, PERIOD_S, Arena, Player
from tests.lengths import SOAK, shorten
from tests.platforms.site import Site
from tests.scheduler.frontend import PASSWORD

PERIODS = shorten(6, 4)
RULES = tuple(PriceRule)
ACTIONS = ("poweroff-hard", "suspend")
RESERVE = {"cpu": 0.001, "memory": 0.0001}


def off_with_a_claim(me: Player, action: str) -> Generator[float, None, None]:
    """Claim most of a host, stop running, and then set a bid that is never charged."""
    vm = me.vm(20, MERKAT_MIN_CPU=700)
    yield PERIOD_S + 5
    me.act(vm, action)
    me.set(vm, MERKAT_BID_CPU=1e14)
    while True:
        yield PERIOD_S


@pytest.mark.parametrize(
    ("action", "rule"), [(ACTIONS[0], PriceRule.CLEARING), (ACTIONS[1], PriceRule.PAPER)]
)
def test_a_powered_off_vm_leaves_its_cores_to_its_neighbours(action: str, rule: PriceRule) -> None:
    """They have all cores from the next period on, regardless of its claim and bid."""
    arena = Arena(rule)
    try:
        arena.play({"eve": lambda me: off_with_a_claim(me, action)}, 3)
        before_s = arena.computed(arena.ann, arena.bob)
        for _ in range(PERIODS):
            for _ in range(12):
                arena._tick()
            arena._run_period()
        got_s = arena.computed(arena.ann, arena.bob) - before_s
    finally:
        arena.close()
    assert got_s >= 0.95 * CORES * PERIOD_S * PERIODS, got_s


@pytest.mark.parametrize("action", ACTIONS if SOAK else ACTIONS[:1])
def test_a_powered_off_vm_leaves_its_memory_to_vms_that_bid(action: str) -> None:
    """Two VMs that are off claim a whole host, and other VMs are placed there."""
    site = Site(
        hosts=1,
        size=HostSize(800, 16 * 1024),
        markets=(MarketRules(),),
        money=MoneySettings(supply=100_000_000, renewal_s=1e9),
    )
    try:
        site.tenant("eve")
        off = [memory_vm(site, "eve", 0, MERKAT_MIN_MEMORY=8192) for _ in range(2)]
        site.periods(3)
        for vm in off:
            site.bench.ok("one.vm.action", action, vm, session=f"eve:{PASSWORD}")
        site.periods(3)
        comers = [memory_vm(site, "ann", 500) for _ in range(2)]
        site.periods(4)
        assert [site.state(vm) for vm in comers] == ["RUNNING", "RUNNING"]
    finally:
        site.close()


def memory_vm(site: Site, name: str, bid: float, **attributes: object) -> int:
    """Create a VM of half the host's memory."""
    values = {
        "CPU": 0.1,
        "VCPU": 1,
        "MEMORY": 8192,
        "MERKAT_BID_CPU": 1,
        "MERKAT_BID_MEMORY": bid,
    } | attributes
    lines = [f'{key}="{value}"' for key, value in values.items()]
    work = 'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="64"]'
    return site.bench.new("\n".join([*lines, work]), session=f"{name}:{PASSWORD}")


@pytest.mark.parametrize("action", ACTIONS if SOAK else ACTIONS[1:])
def test_the_floor_of_a_powered_off_vm_costs_the_reserve_price(action: str) -> None:
    """The account shows the charge, the books agree, and a quote has the same cost."""
    pricing = Pricing(reserve=RESERVE)
    site = Site(
        hosts=1,
        size=HostSize(800, 16 * 1024),
        markets=(MarketRules(pricing=pricing),),
        money=MoneySettings(supply=100_000_000, renewal_s=1e9),
    )
    try:
        eve = site.tenant("eve")
        vm = memory_vm(site, "eve", 0, MERKAT_BID_CPU=0)
        site.periods(3)
        site.bench.ok("one.vm.action", action, vm, session=f"eve:{PASSWORD}")
        site.clock.advance(PERIOD_S)
        last = site.periods(2)
        before = site.balances()[eve]
        last = site.periods(4)
        snapshot = last.seen.snapshot
        row = snapshot.vm_row(vm)
        kept = snapshot.vms.floor[row]
        cost = float((kept * pricing.reserve_prices(snapshot.resources)).sum())
        assert kept[1] > 0
        assert before - site.balances()[eve] == pytest.approx(4 * cost, abs=4e-6)
        quotes = Quotes.of(
            snapshot, 0, snapshot.vms.host, pricing.rule, pricing.reserve_prices(snapshot.resources)
        )
        place = quotes.place_of(row)
        assert place is not None
        assert sum(quote.cost for quote in quotes.quote(place, (0.0, 0.0))) == pytest.approx(cost)
        site.agree()
    finally:
        site.close()


@pytest.mark.parametrize("rule", RULES if SOAK else RULES[:1])
def test_a_resumed_vm_without_credits_owes_its_use(rule: PriceRule) -> None:
    """Its limits leave it nothing, so it does not owe its bid."""
    arena = Arena(rule)

    def penniless(me: Player) -> Generator[float, None, None]:
        arena.wait(me.ledger.grant(me.owner, -micro(me.credits), "root"))
        vm = me.vm(20)
        yield PERIOD_S + 5
        while True:
            yield 45
            me.act(vm, "suspend")
            yield 20
            me.act(vm, "resume")
            yield 2 * PERIOD_S - 65

    try:
        outcome = arena.play({"eve": penniless}, 2 * PERIODS)["eve"]
        owed = sum(arena.read(debts_of).values()) / MICRO
    finally:
        arena.close()
    worth = outcome.core_s * outcome.fair_paid / outcome.fair_core_s
    assert outcome.paid == 0
    assert worth * 0.95 <= owed <= worth * 1.05 + 1e-3, (owed, worth)


@pytest.mark.parametrize("rule", RULES if SOAK else RULES[1:])
def test_a_bid_made_while_off_does_not_apply_during_the_boot(rule: PriceRule) -> None:
    """The VM boots at an observation, and its owner has five of the billion credits bid."""
    arena = Arena(rule)
    arena.set_duration(Lcm.BOOT_POWEROFF, 10)

    def poor(me: Player) -> Generator[float, None, None]:
        arena.wait(me.ledger.grant(me.owner, micro(5) - micro(me.credits), "root"))
        vm = me.vm(0.5)
        yield 2 * PERIOD_S + 5
        while True:
            me.act(vm, "poweroff-hard")
            me.set(vm, MERKAT_BID_CPU=1e9)
            yield 2 * PERIOD_S - 10
            me.act(vm, "resume")
            yield 10

    try:
        outcome = arena.play({"eve": poor}, 2 * PERIODS)["eve"]
        owed = sum(arena.read(debts_of).values()) / MICRO
    finally:
        arena.close()
    assert outcome.fair_core_s >= 0.9 * CORES * PERIOD_S * 2 * PERIODS, outcome
    assert owed <= outcome.fair_bids
