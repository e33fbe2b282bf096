"""Where use is charged every core-second is paid, of guests that boot or end at a look, too."""

import pytest

from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

PERIODS = 10
LEAST = 0.95


def boots_while_a_period_looks(me: Player) -> Moves:
    """Its guest takes long to boot, and is read for the first time a period later."""
    me.arena.lasts(Lcm.BOOT, 90.0)
    while True:
        vm = me.vm(FAIR_BID)
        yield 4 * PERIOD_S
        me.end(vm)
        yield PERIOD_S


def ends_before_it_is_read(me: Player) -> Moves:
    """Its disks are copied back for long after its guest has ended."""
    me.arena.lasts(Lcm.EPILOG, 400.0)
    while True:
        vm = me.vm(FAIR_BID)
        yield 2 * PERIOD_S + 30
        me.end(vm)
        yield PERIOD_S - 30


def ends_as_a_period_looks(me: Player) -> Moves:
    """Its guest is shut down then, and can't be read any more; another one is made."""
    me.arena.lasts(Lcm.SHUTDOWN, 8.0)
    while True:
        vm = me.vm(FAIR_BID)
        yield 2 * PERIOD_S - 5
        me.end(vm)
        yield 5


@pytest.mark.parametrize(
    "play", [boots_while_a_period_looks, ends_before_it_is_read, ends_as_a_period_looks]
)
def test_every_core_second_is_paid(play: object) -> None:
    """At the rate that the VM bids."""
    arena = Arena(PriceRule.CLEARING, strategy="groups")
    try:
        found = arena.play({"eve": play}, PERIODS)["eve"]  # type: ignore[dict-item]
    finally:
        arena.close()
    assert found.core_s > PERIOD_S, found
    assert found.paid >= LEAST * FAIR_BID * found.core_s / PERIOD_S, found


def test_a_claim_takes_nothing_from_others() -> None:
    """Use is charged there, and nobody pays for a claim."""

    def claims(me: Player) -> Moves:
        me.vm(FAIR_BID / 100, MERKAT_MIN_CPU=CORES * 100)
        while True:
            yield PERIOD_S

    arena = Arena(PriceRule.CLEARING, strategy="groups")
    try:
        found = arena.play({"eve": claims}, PERIODS)["eve"]
    finally:
        arena.close()
    assert found.fair_core_s >= 0.95 * CORES * PERIOD_S * PERIODS, found
