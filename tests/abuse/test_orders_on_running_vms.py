"""A limit order of VMs that run already makes nothing cheaper while they leave their hosts."""

import pytest

from merkatd.cluster.orders import LimitOrder
from merkatd.database.scheduler import limit_order_store
from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, PERIOD_S, Arena, Player, vm_text
from tests.abuse.listed import Moves
from tests.abuse.test_migrating import MUCH, start_migration
from tests.lengths import shorten
from tests.scheduler.frontend import PASSWORD

LITTLE = 0.001
"""A limit with which no order runs."""
SAVING_S = 120.0
"""The time in which OpenNebula saves a VM with much memory."""
PERIODS = shorten(20, 8)
UNCOUNTED = 3


def state_order(arena: Arena, owner: int, vm: int, limit: float) -> int:
    """Store a limit order of one VM; return its id."""
    order: LimitOrder = arena.read(
        lambda connection: limit_order_store.add(
            connection,
            owner=owner,
            vms=[vm],
            limit=limit,
            least_run_s=0.0,
            factor=1.0,
            stated_s=arena.clock.seconds(),
        )
    )
    arena._wake()
    return order.id


def withdraw_order(arena: Arena, order: int) -> None:
    """Delete a limit order."""
    arena.read(lambda connection: limit_order_store.withdraw(connection, [order]))
    arena._wake()


def saved_in_turns(me: Player) -> Moves:
    """Let one VM after another be saved for an order with a limit near zero; they bid nothing."""
    vms = [me.vm(0.0) for _ in range(4)]
    yield 2 * PERIOD_S
    while True:
        for vm in vms:
            order = state_order(me.arena, me.owner, vm, LITTLE)
            yield 30
            withdraw_order(me.arena, order)
            yield 5


def test_a_vm_that_is_saved_keeps_no_more_than_its_bid_bought() -> None:
    """It bids nothing, so its neighbours have all cores of the host while it is saved."""
    arena = Arena(PriceRule.CLEARING)
    arena.set_duration(Lcm.SAVE_STOP, SAVING_S)
    outcome = arena.play({"eve": saved_in_turns}, PERIODS, uncounted=UNCOUNTED)["eve"]
    arena.close()
    assert outcome.fair_core_s >= 0.98 * CORES * PERIOD_S * (PERIODS - UNCOUNTED)


@pytest.mark.parametrize("was_ordered", [False, True])
def test_a_vm_that_is_saved_pays_what_it_paid_before(*, was_ordered: bool) -> None:
    """Neither a new order with a limit near zero nor a lowered limit makes it cheaper."""
    arena = Arena(PriceRule.CLEARING)
    eve = Player(arena, "eve")
    vm = eve.vm(MUCH, VCPU=4)
    arena._periods(2)
    if was_ordered:
        order = state_order(arena, eve.owner, vm, 1000.0)
    arena._periods(3)
    before = arena.paid(eve.owner)
    arena.clock.advance(PERIOD_S)
    arena._run_period()
    each_period = arena.paid(eve.owner) - before
    arena.set_duration(Lcm.SAVE_STOP, 7200.0)
    if was_ordered:
        withdraw_order(arena, order)
    state_order(arena, eve.owner, vm, LITTLE)
    arena._run_period()
    before = arena.paid(eve.owner)
    arena._periods(PERIODS)
    assert arena.state(vm) == "SAVE_STOP"
    paid = arena.paid(eve.owner) - before
    arena.close()
    assert each_period > 1.0
    assert paid >= 0.95 * PERIODS * each_period, (paid, each_period)


def test_an_order_stated_during_a_migration_applies_after_the_arrival() -> None:
    """No host accepts lower limits during the migration, so the VM keeps its earlier share."""
    arena, eve, large = start_migration(PriceRule.CLEARING, MUCH)
    state_order(arena, eve, large, LITTLE)
    arena._periods(2)
    arena._reset_counts([eve])
    for _ in range(PERIODS):
        arena.clock.advance(PERIOD_S)
        arena._run_period()
    assert arena.state(large) == "MIGRATE"
    outcome = arena.outcome(eve)
    arena.close()
    assert outcome.core_s > PERIOD_S * PERIODS
    assert outcome.price_ratio >= 0.95, outcome


def test_an_order_without_credits_owes_what_its_vm_has_during_a_migration() -> None:
    """Its payer moves all credits away, so that its limit is zero."""
    arena = Arena(PriceRule.CLEARING, hosts=2)
    bench = arena.bench
    for at, vm in enumerate(arena.honest):
        bench.raw("one.vm.update", vm, f'SCHED_REQUIREMENTS="ID = {at // 4}"', 1)
    arena._periods(2)
    for vm in arena.honest[4:6]:
        bench.raw("one.vm.action", "poweroff-hard", vm)
    eve = Player(arena, "eve")
    text = vm_text(MUCH, VCPU=4, SCHED_REQUIREMENTS="ID = 0")
    large = bench.new(text, session=f"eve:{PASSWORD}")
    arena._periods(1)
    state_order(arena, eve.owner, large, 100.0)
    arena._periods(3)
    arena.set_duration(Lcm.MIGRATE, 7200)
    eve.set(large, SCHED_REQUIREMENTS="ID = 1")
    bench.ok("one.vm.migrate", large, 1, True, False, -1, 0)
    arena._periods(2)
    eve.park(eve.reserved)
    arena._periods(4)
    before, price = arena.paid(eve.owner), 4 * 20.0 / (CORES * 100)
    arena._periods(PERIODS)
    assert arena.state(large) == "MIGRATE"
    paid = arena.paid(eve.owner) - before
    credits_ = eve.credits
    arena.close()
    assert credits_ < 1.0
    assert paid >= 0.95 * PERIODS * price * 400, paid
