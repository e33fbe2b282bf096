"""An owner in debt has nothing to gain from VMs that it starts again and again."""

import pytest

from merkatd.currency import micro
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves

CREDIT_PERIODS = 16
"""After these the player has not paid for ten periods."""
PERIODS = 26


def without_credits(me: Player) -> None:
    """All but a hundred are taken."""
    me.arena.wait(me.ledger.grant(me.owner, -micro(me.credits - 100), "root"))


def again_and_again(away: str, count: int) -> Play:
    """Each of its VMs runs for four seconds of five, never when the daemon looks."""

    def play(me: Player) -> Moves:
        without_credits(me)
        vms = [me.vm(FAIR_BID, CPU=64) for _ in range(count)]
        yield 2 * PERIOD_S + 3
        while True:
            for vm in vms:
                me.act(vm, away)
            yield 1
            for vm in vms:
                me.act(vm, "resume")
            yield 4

    return play


@pytest.mark.parametrize(("away", "count"), [("poweroff-hard", 1), ("suspend", 8)])
def test_its_vms_are_stopped_once_it_has_not_paid_for_too_long(away: str, count: int) -> None:
    """From then on its neighbours have the host for themselves."""
    arena = Arena(PriceRule.CLEARING, tick_s=1)
    computed: list[float] = []
    play = again_and_again(away, count)

    def watched(me: Player) -> Moves:
        for number, pause in enumerate(play(me)):
            if number % 24 == 0:
                arena.sample()
                computed.append(arena.computed(me.owner))
            yield pause

    try:
        whole = arena.play({"eve": watched}, PERIODS)["eve"]
    finally:
        arena.close()
    late = whole.core_s - computed[CREDIT_PERIODS]
    assert late < 0.01 * CORES * PERIOD_S * (PERIODS - CREDIT_PERIODS), computed
