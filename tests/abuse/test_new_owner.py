"""VMs whose owner and group an administrator changes in the middle of periods."""

import pytest

from merkatd.currency import micro
from merkatd.market.price import PriceRule
from tests.abuse.arena import PERIOD_S, Arena, Play, Player
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves
from tests.lengths import pair, shorten

PERIODS = shorten(12, 6)
LEAST = 0.95
"""The least part of the honest tenants' price of a core-second."""


def given_away(me: Player, friend: Player, group: int) -> Moves:
    """Let the friend own the VM between observations, and the player at each one."""
    vm = me.vm()
    yield PERIOD_S + 5
    while True:
        me.arena.bench.ok("one.vm.chown", vm, friend.owner, group)
        yield AFTER_S - 5
        me.arena.bench.ok("one.vm.chown", vm, me.owner, 1)
        yield BEFORE_S + 5


def lent(me: Player, friend: Player, group: int) -> Moves:
    """Let the friend own the VM at each observation, and the player in between."""
    vm = me.vm()
    yield PERIOD_S - BEFORE_S
    while True:
        me.arena.bench.ok("one.vm.chown", vm, friend.owner, group)
        yield BEFORE_S + 5
        me.arena.bench.ok("one.vm.chown", vm, me.owner, 1)
        yield AFTER_S - 5


def in_turns(me: Player, friend: Player, group: int) -> Moves:
    """Change the owner and group in the middle of each period."""
    vm = me.vm()
    yield PERIOD_S * 1.5
    while True:
        for owner, its_group in ((friend.owner, group), (me.owner, 1)):
            me.arena.bench.ok("one.vm.chown", vm, owner, its_group)
            yield PERIOD_S


@pytest.mark.parametrize(("way", "poor"), pair([given_away, lent, in_turns], (False, True), 1))
def test_a_new_owner_makes_nothing_cheaper(way: object, poor: bool) -> None:
    """Both owners together pay the honest price, even if one of them has no credits."""
    assert callable(way)
    arena = Arena(PriceRule.CLEARING)
    friend = Player(arena, "friend")
    if poor:
        arena.wait(friend.ledger.grant(friend.owner, -micro(friend.credits), "root"))
    group = arena.bench.ok("one.group.allocate", "others")
    play: Play = lambda me: way(me, friend, group)  # noqa: E731
    owners: list[int] = []

    def noted(me: Player) -> Moves:
        owners.extend([me.owner, friend.owner])
        yield from play(me)

    try:
        arena.play({"eve": noted}, PERIODS)
        outcome = arena.outcome(*owners)
    finally:
        arena.close()
    assert not outcome.got_something or outcome.price_ratio >= LEAST, (outcome.price_ratio, outcome)
    assert outcome.fair_paid <= outcome.fair_bids * 1.001, outcome
    assert outcome.got_something or poor, outcome
