"""A guest whose migration does not end has what it had before, and pays for that."""

import pytest

from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Player, vm_text
from tests.scheduler.frontend import PASSWORD

MUCH, LITTLE = 60.0, 0.001
PERIODS = 10


def migrating(rule: PriceRule, bid: float) -> tuple[Arena, int, int]:
    """A VM that bids so much is on its way to the host of fewer VMs, for hours."""
    arena = Arena(rule, hosts=2)
    bench = arena.bench
    for at, vm in enumerate(arena.honest):
        bench.raw("one.vm.update", vm, f'SCHED_REQUIREMENTS="ID = {at // 4}"', 1)
    arena._periods(3)
    for vm in arena.honest[4:6]:
        bench.raw("one.vm.action", "poweroff-hard", vm)
    eve, session = arena.tenant("eve"), f"eve:{PASSWORD}"
    large = bench.new(vm_text(bid, SCHED_REQUIREMENTS="ID = 0"), session=session)
    arena._periods(3)
    arena.lasts(Lcm.MIGRATE, 7200)
    bench.raw("one.vm.update", large, 'SCHED_REQUIREMENTS="ID < 9"', 1, session=session)
    arena._periods(2)
    assert arena.state(large) == "MIGRATE"
    return arena, eve, large


def look_on(arena: Arena, eve: int, large: int) -> None:
    """Count for ten periods, in which it does not arrive."""
    arena._periods(2)
    arena._forget([eve])
    for _ in range(PERIODS):
        arena.clock.advance(PERIOD_S)
        arena._look()
    assert arena.state(large) == "MIGRATE"


@pytest.mark.parametrize("rule", PriceRule)
def test_a_bid_that_is_lowered_while_its_vm_is_migrated_counts_once_it_has_arrived(
    rule: PriceRule,
) -> None:
    """No host can be told a lower limit meanwhile."""
    arena, eve, large = migrating(rule, MUCH)
    text = f'MERKAT_BID_CPU="{LITTLE}"'
    arena.bench.raw("one.vm.update", large, text, 1, session=f"eve:{PASSWORD}")
    look_on(arena, eve, large)
    fair = (arena.ann, arena.bob)
    honest = sum(arena.paid(one) - arena._before[one] for one in fair) / arena.computed(*fair)
    assert arena.computed(eve) > PERIOD_S * PERIODS
    paid = arena.paid(eve) - arena._before[eve]
    assert paid >= 0.95 * honest * arena.computed(eve), (paid, honest, arena.computed(eve))
    arena.close()


def test_credits_that_are_moved_away_while_a_vm_is_migrated_are_owed() -> None:
    """It has the cores of its bid for as long as it is on its way, whatever its account has."""
    arena, eve, large = migrating(PriceRule.CLEARING, MUCH)
    player = Player(arena, "eve", eve)
    player.park(player.reserved)
    look_on(arena, eve, large)
    fair = (arena.ann, arena.bob)
    honest = sum(arena.paid(one) - arena._before[one] for one in fair) / arena.computed(*fair)
    paid = arena.paid(eve) - arena._before[eve]
    assert arena.computed(eve) > PERIOD_S * PERIODS
    assert paid >= 0.95 * honest * arena.computed(eve), (paid, honest, arena.computed(eve))
    arena.close()


def test_a_claim_that_is_not_paid_keeps_nothing_on_the_host_that_a_vm_leaves() -> None:
    """Neighbours on both hosts have all cores that it does not pay for."""
    arena, eve, large = migrating(PriceRule.CLEARING, FAIR_BID / 4)
    text = f'MERKAT_MIN_CPU="{CORES * 100}"'
    arena.bench.raw("one.vm.update", large, text, 1, session=f"eve:{PASSWORD}")
    look_on(arena, eve, large)
    all_s = 2 * CORES * PERIOD_S * PERIODS
    assert arena.computed(arena.ann, arena.bob) >= 0.85 * all_s
    arena.close()


def test_a_bid_that_is_lowered_as_a_migration_is_decided_has_new_limits_first() -> None:
    """A VM that could be migrated with its old limits would keep them on its way."""
    arena = Arena(PriceRule.CLEARING, hosts=2)
    bench = arena.bench
    for at, vm in enumerate(arena.honest):
        bench.raw("one.vm.update", vm, f'SCHED_REQUIREMENTS="ID = {at // 4}"', 1)
    arena._periods(3)
    for vm in arena.honest[4:7]:
        bench.raw("one.vm.action", "poweroff-hard", vm)
    arena.tenant("eve")
    large = bench.new(vm_text(MUCH, SCHED_REQUIREMENTS="ID = 0"), session=f"eve:{PASSWORD}")
    arena._periods(3)
    before = arena.limits(large).global_quota
    arena.lasts(Lcm.MIGRATE, 7200)
    text = f'SCHED_REQUIREMENTS="ID < 9"\nMERKAT_BID_CPU="{FAIR_BID}"'
    bench.raw("one.vm.update", large, text, 1, session=f"eve:{PASSWORD}")
    arena._look()
    arena.clock.advance(10)
    assert arena.state(large) == "RUNNING"
    assert arena.limits(large).global_quota < 0.7 * before
    arena.clock.advance(50)
    arena._periods(1)
    assert arena.state(large) == "MIGRATE"
    arena.close()
