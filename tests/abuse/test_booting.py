"""A guest that boots at each observation keeps nothing from its neighbours without payment."""

import pytest

from merkatd.currency import micro
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves
from tests.abuse.memory import Memory
from tests.abuse.test_cycled_memory import FREE_PERIODS, Owner
from tests.lengths import SOAK, shorten

PERIODS = shorten(20, 14)
AWAY = ("poweroff-hard", "suspend")
MUCH = 500.0


def booting(away: str, credits_: float | None) -> Play:
    """Boot at each observation, and be off for one second of five."""

    def play(me: Player) -> Moves:
        if credits_ is not None:
            me.arena.wait(me.ledger.grant(me.owner, -micro(me.credits - credits_), "root"))
        vm = me.vm(MUCH)
        yield 2 * PERIOD_S + 3
        while True:
            me.act(vm, away)
            yield 1
            me.act(vm, "resume")
            yield 4

    return play


@pytest.mark.parametrize("away", AWAY if SOAK else AWAY[:1])
def test_an_owner_without_credits_takes_no_host_with_an_old_bid(away: str) -> None:
    """A bid made with credits does not apply without them."""
    arena = Arena(PriceRule.CLEARING, tick_s=1)
    try:
        outcome = arena.play({"eve": booting(away, 5 * MUCH)}, PERIODS)["eve"]
    finally:
        arena.close()
    assert outcome.fair_core_s >= 0.6 * CORES * PERIOD_S * (PERIODS - 7), outcome


@pytest.mark.parametrize("away", AWAY if SOAK else AWAY[1:])
def test_memory_of_a_booting_guest_costs_the_neighbours_price(away: str) -> None:
    """The guest is off for five seconds of each minute."""
    memory = Memory(PriceRule.CLEARING)
    site = memory.site
    try:
        memory.add_neighbours()
        site.periods(5)
        me = Owner(memory)
        site.periods(2)
        held = {True: 0.0, False: 0.0}
        before = site.balances()
        for period in range(FREE_PERIODS + shorten(12, 6)):
            site.period()
            if period == FREE_PERIODS:
                before, held = site.balances(), {True: 0.0, False: 0.0}
            for tenth in range(24):
                if tenth == 22:
                    me.act(away)
                site.clock.advance(2.5 if tenth < 23 else 2.0)
                if tenth == 23:
                    me.act("resume")
                    site.clock.advance(0.5)
                for vm, guest in site.cloud.guests.read().items():
                    held[site.cloud.world.vms.rows[vm].uid == memory.eve] += guest.balloon_mib
        site.period()
        after = site.balances()
    finally:
        memory.close()
    owners = (site.ann, site.bob)
    honest = sum(before[owner] - after[owner] for owner in owners) / held[False]
    paid = before[memory.eve] - after[memory.eve]
    assert paid >= 0.9 * honest * held[True], (paid, held, honest)
