"""A market by use charges every core-second, also of guests that boot or end at an observation."""

import pytest

from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Player
from tests.abuse.listed import Moves
from tests.lengths import shorten

PERIODS = shorten(10, 6)
LEAST = 0.95


def boots_while_a_period_looks(me: Player) -> Moves:
    """Boot slowly, so that the first reading is a period later."""
    me.arena.set_duration(Lcm.BOOT, 90.0)
    while True:
        vm = me.vm(FAIR_BID)
        yield 4 * PERIOD_S
        me.end(vm)
        yield PERIOD_S


def ends_before_it_is_read(me: Player) -> Moves:
    """End the VM, with disks that are copied back long after the guest's end."""
    me.arena.set_duration(Lcm.EPILOG, 400.0)
    while True:
        vm = me.vm(FAIR_BID)
        yield 2 * PERIOD_S + 30
        me.end(vm)
        yield PERIOD_S - 30


def ends_as_a_period_looks(me: Player) -> Moves:
    """Shut the guest down at an observation, so that it cannot be read, and create another."""
    me.arena.set_duration(Lcm.SHUTDOWN, 8.0)
    while True:
        vm = me.vm(FAIR_BID)
        yield 2 * PERIOD_S - 5
        me.end(vm)
        yield 5


@pytest.mark.parametrize(
    "play", [boots_while_a_period_looks, ends_before_it_is_read, ends_as_a_period_looks]
)
def test_every_core_second_is_charged(play: object) -> None:
    """The charge is the rate of the VM's bid."""
    arena = Arena(PriceRule.CLEARING, strategy="groups")
    try:
        outcome = arena.play({"eve": play}, PERIODS)["eve"]  # type: ignore[dict-item]
    finally:
        arena.close()
    assert outcome.core_s > PERIOD_S, outcome
    assert outcome.paid >= LEAST * FAIR_BID * outcome.core_s / PERIOD_S, outcome


def test_a_claim_takes_nothing_from_others() -> None:
    """A market by use does not charge claims, so it ignores them."""

    def claims(me: Player) -> Moves:
        me.vm(FAIR_BID / 100, MERKAT_MIN_CPU=CORES * 100)
        while True:
            yield PERIOD_S

    arena = Arena(PriceRule.CLEARING, strategy="groups")
    try:
        outcome = arena.play({"eve": claims}, PERIODS)["eve"]
    finally:
        arena.close()
    assert outcome.fair_core_s >= 0.95 * CORES * PERIOD_S * PERIODS, outcome
