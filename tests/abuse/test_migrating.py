"""A guest in an unfinished migration keeps its earlier share, and pays for it."""

import pytest

from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Player, vm_text
from tests.lengths import SOAK, shorten
from tests.scheduler.frontend import PASSWORD

MUCH, LITTLE = 60.0, 0.001
PERIODS = shorten(10, 4)
RULES = tuple(PriceRule)


def start_migration(rule: PriceRule, bid: float) -> tuple[Arena, int, int]:
    """Start a migration, lasting hours, of a VM with this bid to the emptier host."""
    arena = Arena(rule, hosts=2)
    bench = arena.bench
    for at, vm in enumerate(arena.honest):
        bench.raw("one.vm.update", vm, f'SCHED_REQUIREMENTS="ID = {at // 4}"', 1)
    arena._periods(2)
    for vm in arena.honest[4:6]:
        bench.raw("one.vm.action", "poweroff-hard", vm)
    eve, session = arena.tenant("eve"), f"eve:{PASSWORD}"
    large = bench.new(vm_text(bid, SCHED_REQUIREMENTS="ID = 0"), session=session)
    arena._periods(2)
    arena.set_duration(Lcm.MIGRATE, 7200)
    bench.raw("one.vm.update", large, 'SCHED_REQUIREMENTS="ID < 9"', 1, session=session)
    arena._periods(2)
    assert arena.state(large) == "MIGRATE"
    return arena, eve, large


def count_periods(arena: Arena, eve: int, large: int) -> None:
    """Count some periods, in which the migration does not end."""
    arena._periods(2)
    arena._reset_counts([eve])
    for _ in range(PERIODS):
        arena.clock.advance(PERIOD_S)
        arena._run_period()
    assert arena.state(large) == "MIGRATE"


@pytest.mark.parametrize("rule", RULES if SOAK else RULES[:1])
def test_a_bid_lowered_during_a_migration_applies_after_the_arrival(
    rule: PriceRule,
) -> None:
    """No host accepts a lower limit during the migration."""
    arena, eve, large = start_migration(rule, MUCH)
    text = f'MERKAT_BID_CPU="{LITTLE}"'
    arena.bench.raw("one.vm.update", large, text, 1, session=f"eve:{PASSWORD}")
    count_periods(arena, eve, large)
    fair = (arena.ann, arena.bob)
    honest = sum(arena.paid(owner) - arena._before[owner] for owner in fair) / arena.computed(*fair)
    assert arena.computed(eve) > PERIOD_S * PERIODS
    paid = arena.paid(eve) - arena._before[eve]
    assert paid >= 0.95 * honest * arena.computed(eve), (paid, honest, arena.computed(eve))
    arena.close()


def test_credits_moved_away_during_a_migration_are_owed() -> None:
    """The VM keeps the cores of its bid during the migration, regardless of its account."""
    arena, eve, large = start_migration(PriceRule.CLEARING, MUCH)
    player = Player(arena, "eve", eve)
    player.park(player.reserved)
    count_periods(arena, eve, large)
    fair = (arena.ann, arena.bob)
    honest = sum(arena.paid(owner) - arena._before[owner] for owner in fair) / arena.computed(*fair)
    paid = arena.paid(eve) - arena._before[eve]
    assert arena.computed(eve) > PERIOD_S * PERIODS
    assert paid >= 0.95 * honest * arena.computed(eve), (paid, honest, arena.computed(eve))
    arena.close()


def test_an_unpaid_claim_keeps_nothing_on_the_source_host() -> None:
    """The neighbours on both hosts get all cores that it does not pay for."""
    arena, eve, large = start_migration(PriceRule.CLEARING, FAIR_BID / 4)
    text = f'MERKAT_MIN_CPU="{CORES * 100}"'
    arena.bench.raw("one.vm.update", large, text, 1, session=f"eve:{PASSWORD}")
    count_periods(arena, eve, large)
    all_s = 2 * CORES * PERIOD_S * PERIODS
    assert arena.computed(arena.ann, arena.bob) >= 0.85 * all_s
    arena.close()


def test_a_lowered_bid_sets_new_limits_before_the_migration() -> None:
    """A VM migrated with its old limits would keep them until its arrival."""
    arena = Arena(PriceRule.CLEARING, hosts=2)
    bench = arena.bench
    for at, vm in enumerate(arena.honest):
        bench.raw("one.vm.update", vm, f'SCHED_REQUIREMENTS="ID = {at // 4}"', 1)
    arena._periods(2)
    for vm in arena.honest[4:7]:
        bench.raw("one.vm.action", "poweroff-hard", vm)
    arena.tenant("eve")
    large = bench.new(vm_text(MUCH, SCHED_REQUIREMENTS="ID = 0"), session=f"eve:{PASSWORD}")
    arena._periods(3)
    before = arena.limits(large).global_quota
    arena.set_duration(Lcm.MIGRATE, 7200)
    text = f'SCHED_REQUIREMENTS="ID < 9"\nMERKAT_BID_CPU="{FAIR_BID}"'
    bench.raw("one.vm.update", large, text, 1, session=f"eve:{PASSWORD}")
    arena._run_period()
    arena.clock.advance(10)
    assert arena.state(large) == "RUNNING"
    assert arena.limits(large).global_quota < 0.7 * before
    arena.clock.advance(50)
    arena._periods(1)
    assert arena.state(large) == "MIGRATE"
    arena.close()
