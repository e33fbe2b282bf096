"""A VM that hardly runs: what its neighbours lose by it is what its owner pays.

Limits of neighbours are hard and hold for a period. A guest that is gone seconds after the period
has placed it leaves its part idle until the daemon notices.
"""

from collections.abc import Callable

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, NEIGHBOURS, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves

PERIODS = 12
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


@pytest.mark.parametrize("rule", PriceRule)
@pytest.mark.parametrize("bid", [20, 300])
@pytest.mark.parametrize("kind", [undeployed, always_another, powered_off])
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
