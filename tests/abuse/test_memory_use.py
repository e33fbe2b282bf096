"""Use of memory does not make it cheaper than the neighbours' price.

A strategy's first four periods are not counted: a guest starts with all of its memory, and its
balloon needs minutes to take back used memory. After that a MiB costs at least 95 % of the honest
tenants' price, or a VM holds no more than the minimum. `make test` counts 8 periods and
`make soak` four hours.
"""

import pytest

from merkatd.market.price import PriceRule
from merkatd.scheduler.observation.memory_in_use import LEAST_MIB
from tests.abuse.memory import HIGH, HOST_MIB, USE_MIB, Hoarder, Memory, Moves, Sums
from tests.lengths import SOAK, pair, shorten

PERIODS = shorten(240, 8)
BEGIN = 4
LEAST = 0.95
RULES = tuple(PriceRule)


def forever() -> Moves:
    """Wait for ever."""
    while True:
        yield


def fair(me: Hoarder) -> Moves:
    """Bid as the neighbours do."""
    me.vm(HIGH)
    yield from forever()


def bids_nothing(me: Hoarder) -> Moves:
    """Use the initial memory without a bid."""
    me.vm(0)
    yield from forever()


def claims_it(me: Hoarder) -> Moves:
    """Claim the whole memory without a bid."""
    me.vm(0, MERKAT_MIN_MEMORY=8192)
    yield from forever()


def bids_each_tenth_period(me: Hoarder) -> Moves:
    """Bid high in every tenth period, and nothing in the others."""
    vm = me.vm(HIGH)
    while True:
        for number in range(10):
            me.bid(vm, 0.0 if number else HIGH)
            yield


def bids_each_second_period(me: Hoarder) -> Moves:
    """Bid high in every second period, and nothing in the others."""
    vm = me.vm(HIGH)
    while True:
        for bid in (HIGH, 0.0):
            me.bid(vm, bid)
            yield


def two_in_turns(me: Hoarder) -> Moves:
    """Bid high for each of two VMs in turns, for two periods each."""
    first, second = (me.vm(HIGH, MEMORY=4096) for _ in range(2))
    while True:
        for number in range(4):
            me.bid(first, HIGH if number < 2 else 0.0)
            me.bid(second, 0.0 if number < 2 else HIGH)
            yield


def bids_less_and_less(me: Hoarder) -> Moves:
    """Lower the bid by a third in each period, then bid high again."""
    vm = me.vm(HIGH)
    while True:
        for number in range(20):
            me.bid(vm, HIGH * 0.66**number)
            yield


PLAYS = (
    fair,
    bids_nothing,
    claims_it,
    bids_each_tenth_period,
    bids_each_second_period,
    two_in_turns,
    bids_less_and_less,
)
GAMES = pair(PLAYS, RULES) if SOAK else [(play, PriceRule.CLEARING) for play in PLAYS[1:]]


def play_beside(play: object, rule: PriceRule, periods: int) -> Sums:
    """Play a strategy beside neighbours that started earlier."""
    memory = Memory(rule)
    try:
        memory.add_neighbours()
        memory.site.periods(3)
        moves = play(Hoarder(memory))  # type: ignore[operator]
        memory.play(moves, BEGIN)
        return memory.play(moves, periods)
    finally:
        memory.close()


@pytest.mark.parametrize(("play", "rule"), GAMES)
def test_a_mib_costs_the_neighbours_price(play: object, rule: PriceRule) -> None:
    """Otherwise the player holds no more than the minimum."""
    slow = play is bids_each_second_period  # its balloon never shrinks for long
    outcome = play_beside(play, rule, max(PERIODS, 20) if slow else PERIODS)
    assert not outcome.got_something or outcome.price_ratio >= LEAST, (outcome.price_ratio, outcome)


def test_a_vm_gives_back_its_memory_once_others_bid() -> None:
    """Within half an hour it holds ten periods' worth of its use in all, and then the minimum."""
    memory = Memory(PriceRule.CLEARING)
    try:
        me = Hoarder(memory)
        vm = me.vm(HIGH)
        memory.site.periods(2)
        me.bid(vm, 0)
        memory.site.periods(2)
        alone = memory.play(forever(), 2)
        assert min(alone.held) >= USE_MIB
        memory.add_neighbours()
        outcome = memory.play(forever(), 30)
        after = memory.play(forever(), 4)
    finally:
        memory.close()
    beyond = [held - LEAST_MIB for held in outcome.held]
    assert sum(beyond) <= 11 * USE_MIB, outcome.held
    # A tenth each period gives a guest and its owner time to react.
    falls = [before - held for before, held in zip(outcome.held, outcome.held[1:], strict=False)]
    assert max(falls[2:]) <= 0.11 * USE_MIB
    assert max(after.held) <= 1.1 * LEAST_MIB
    assert after.fair_held >= 0.95 * (HOST_MIB - LEAST_MIB) * 4


@pytest.mark.parametrize("claim", [0, USE_MIB] if SOAK else [USE_MIB])
def test_memory_is_allocated_to_others_only_when_free(claim: int) -> None:
    """A guest needs minutes to give back used memory; meanwhile its host has no more."""
    memory = Memory(PriceRule.CLEARING)
    held: list[int] = []
    try:
        me = Hoarder(memory)
        memory.add_neighbours()
        memory.site.periods(4)
        vm = me.vm(60, MERKAT_MIN_MEMORY=claim)
        memory.site.periods(6)
        me.bid(vm, 0)
        for _ in range(5):
            memory.site.period()
            for _ in range(6):
                memory.site.clock.advance(10)
                guests = memory.site.cloud.guests.read().values()
                held.append(int(sum(guest.balloon_mib for guest in guests)))
    finally:
        memory.close()
    assert max(held) <= HOST_MIB, held
