"""A VM that hardly runs: what its neighbours lose by it is what its owner pays.

Limits of neighbours are hard and hold for a period. A guest that is gone seconds after the period
has placed it leaves its part idle until the daemon notices.
"""

from collections.abc import Callable

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, NEIGHBOURS, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves
from tests.lengths import pair, shorten

PERIODS = shorten(12, 8)
DELETE = 3
"""How `one.vm.recover` ends a VM that failed."""
PAYS = 0.95
"""Of what neighbours lost, at the price that they pay without the tenant."""


def undeployed(bid: float) -> Play:
    """One VM, undeployed five seconds after each look, and back before the next."""

    def play(me: Player) -> Moves:
        vm = me.vm(bid)
        yield 5
        while True:
            me.act(vm, "undeploy-hard")
            yield PERIOD_S - 20
            me.act(vm, "resume")
            yield 20

    return play


def always_another(bid: float) -> Play:
    """A new VM for each look, ended five seconds after it."""

    def play(me: Player) -> Moves:
        yield PERIOD_S - 10
        while True:
            vm = me.vm(bid)
            yield 15
            me.end(vm)
            yield PERIOD_S - 15

    return play


def powered_off(bid: float) -> Play:
    """One VM that runs at each look, and no longer than for some seconds beside it."""

    def play(me: Player) -> Moves:
        vm = me.vm(bid)
        yield PERIOD_S
        while True:
            yield 5
            me.act(vm, "poweroff-hard")
            yield PERIOD_S - 15
            me.act(vm, "resume")
            yield 10

    return play


def crumbs(bid: float) -> Play:
    """Twelve VMs, each with less than a look for guests that are gone cares for."""

    def play(me: Player) -> Moves:
        vms = [me.vm(bid / 12, VCPU=1) for _ in range(12)]
        yield PERIOD_S
        while True:
            yield 5
            for vm in vms:
                me.act(vm, "poweroff-hard")
            yield PERIOD_S - 15
            for vm in vms:
                me.act(vm, "resume")
            yield 10

    return play


def fails_to_boot(bid: float) -> Play:
    """A new VM for each look, whose boot fails, and which is ended soon afterwards."""

    def play(me: Player) -> Moves:
        yield PERIOD_S - 5
        while True:
            vm = me.vm(bid, VCPU=2)
            me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="BOOT"))
            yield 15
            me.end(vm)
            yield PERIOD_S - 15

    return play


PLAYS = [
    (kind, bid)
    for at, kind in enumerate((undeployed, always_another, powered_off, crumbs, fails_to_boot))
    for bid in ((20, 300) if at % 2 else (300, 20))
]


@pytest.mark.parametrize(
    ("kind", "bid", "rule"), [(*play, rule) for play, rule in pair(PLAYS, tuple(PriceRule))]
)
def test_what_neighbours_lose_is_paid_for(
    kind: Callable[[float], Play], bid: float, rule: PriceRule
) -> None:
    """However short its guests run, and they pay their bids at most."""
    arena = Arena(rule)
    try:
        found = arena.play({"eve": kind(bid)}, PERIODS)["eve"]
    finally:
        arena.close()
    lost_core_s = CORES * PERIOD_S * PERIODS - found.fair_core_s
    assert found.paid >= PAYS * lost_core_s * NEIGHBOURS * FAIR_BID / (CORES * PERIOD_S), found
    assert found.fair_paid <= found.fair_bids * 1.001


def claims(arena: Arena) -> None:
    """Each neighbour claims 1.5 of the cores that it bids for."""
    for vm in arena.honest:
        arena.bench.raw("one.vm.update", vm, 'MERKAT_MIN_CPU="150"', 1)


def bids_for_a_moment(me: Player) -> Moves:
    """The highest bid of all at every third look, and gone a moment later."""
    vm = me.vm(1)
    yield 2 * PERIOD_S - 5
    while True:
        me.set(vm, MERKAT_BID_CPU=5_000)
        yield 10
        me.act(vm, "poweroff-hard")
        me.set(vm, MERKAT_BID_CPU=1)
        yield 20
        me.act(vm, "resume")
        yield 3 * PERIOD_S - 30


@pytest.mark.parametrize("rule", PriceRule)
def test_a_price_of_one_moment_costs_no_claim_more_than_its_bid(rule: PriceRule) -> None:
    """Claims that bids pay for by the last price can't be dearer by the next one."""
    arena = Arena(rule)
    try:
        claims(arena)
        found = arena.play({"eve": bids_for_a_moment}, PERIODS)["eve"]
    finally:
        arena.close()
    assert found.fair_paid <= found.fair_bids * 1.001, found


def copies_that_fail(me: Player) -> Moves:
    """A new VM for each look, whose image can't be copied."""
    yield PERIOD_S - 5
    while True:
        vm = me.vm(300)
        me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="PROLOG"))
        yield PERIOD_S - 5
        me.arena.bench.raw("one.vm.recover", vm, DELETE)
        yield 5


def test_cores_that_nobody_uses_are_paid_for_where_use_is_charged() -> None:
    """Groups' VMs without a guest: their share is kept from others at their rate."""
    arena = Arena(PriceRule.CLEARING, strategy="groups")
    try:
        found = arena.play({"eve": copies_that_fail}, PERIODS)["eve"]
    finally:
        arena.close()
    lost_core_s = CORES * PERIOD_S * PERIODS - found.fair_core_s
    assert found.paid >= PAYS * lost_core_s * NEIGHBOURS * FAIR_BID / (CORES * PERIOD_S), found
