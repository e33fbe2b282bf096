"""Memory that a guest uses is no way to have it for less than neighbours pay.

A strategy's first four periods are not counted: a guest brings all of its memory when it starts,
and its balloon needs minutes to take memory that it uses. After that a MiB costs at least 95 % of
what it costs honest tenants, or a VM holds no more than every VM keeps. In `make test` 20 periods
are counted, in `make soak` four hours.
"""

import pytest

from merkatd.market.price import PriceRule
from merkatd.scheduler.observation.memory_in_use import LEAST_MIB
from tests.abuse.memory import HIGH, HOST_MIB, USE_MIB, Hoarder, Memory, Moves, Sums
from tests.lengths import SOAK, shorten

PERIODS = shorten(240, 20)
BEGIN = 4
LEAST = 0.95
RULES = tuple(PriceRule)


def forever() -> Moves:
    """Nothing more is done."""
    while True:
        yield


def fair(me: Hoarder) -> Moves:
    """As its neighbours do."""
    me.vm(HIGH)
    yield from forever()


def bids_nothing(me: Hoarder) -> Moves:
    """It uses what it was started with."""
    me.vm(0)
    yield from forever()


def claims_it(me: Hoarder) -> Moves:
    """As much as it has, without a bid."""
    me.vm(0, MERKAT_MIN_MEMORY=8192)
    yield from forever()


def bids_each_tenth_period(me: Hoarder) -> Moves:
    """High once, then nothing nine times."""
    vm = me.vm(HIGH)
    while True:
        for number in range(10):
            me.bid(vm, 0.0 if number else HIGH)
            yield


def bids_each_second_period(me: Hoarder) -> Moves:
    """High, then nothing."""
    vm = me.vm(HIGH)
    while True:
        for bid in (HIGH, 0.0):
            me.bid(vm, bid)
            yield


def two_in_turns(me: Hoarder) -> Moves:
    """One of two VMs bids high for two periods, while the other bids nothing."""
    first, second = (me.vm(HIGH, MEMORY=4096) for _ in range(2))
    while True:
        for number in range(4):
            me.bid(first, HIGH if number < 2 else 0.0)
            me.bid(second, 0.0 if number < 2 else HIGH)
            yield


def bids_less_and_less(me: Hoarder) -> Moves:
    """Each period two thirds of what it bid before, then high again."""
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
GAMES = [
    (play, rule)
    for at, play in enumerate(PLAYS)
    for rule in (RULES if SOAK or at in {0, 3} else (PriceRule.CLEARING,))
]


def played(play: object, rule: PriceRule) -> Sums:
    """Beside neighbours who are there before it."""
    memory = Memory(rule)
    try:
        memory.neighbours()
        memory.site.periods(4)
        moves = play(Hoarder(memory))  # type: ignore[operator]
        memory.play(moves, BEGIN)
        return memory.play(moves, PERIODS)
    finally:
        memory.close()


@pytest.mark.parametrize(("play", "rule"), GAMES)
def test_a_mib_costs_what_neighbours_pay(play: object, rule: PriceRule) -> None:
    """Or it is not had."""
    found = played(play, rule)
    assert not found.got_something or found.part >= LEAST, (found.part, found)


def test_who_filled_its_memory_while_it_was_alone_gives_it_back_once_others_bid() -> None:
    """In half an hour, in which it has ten periods' worth of what it used; then it keeps little."""
    memory = Memory(PriceRule.CLEARING)
    try:
        me = Hoarder(memory)
        vm = me.vm(HIGH)
        memory.site.periods(4)
        me.bid(vm, 0)
        memory.site.periods(4)
        alone = memory.play(forever(), 3)
        assert min(alone.held) >= USE_MIB
        memory.neighbours()
        found = memory.play(forever(), 30)
        after = memory.play(forever(), 10)
    finally:
        memory.close()
    beyond = [held - LEAST_MIB for held in found.held]
    assert sum(beyond) <= 11 * USE_MIB, found.held
    # A tenth each period, so that a guest and its owner have time.
    falls = [before - held for before, held in zip(found.held, found.held[1:], strict=False)]
    assert max(falls[2:]) <= 0.11 * USE_MIB
    assert max(after.held) <= 1.1 * LEAST_MIB
    assert after.fair_held >= 0.95 * (HOST_MIB - LEAST_MIB) * 10


@pytest.mark.parametrize("claim", [0, USE_MIB])
def test_memory_is_given_to_others_once_it_is_free(claim: int) -> None:
    """A guest needs minutes to give back what it uses: its host has no more meanwhile."""
    memory = Memory(PriceRule.CLEARING)
    held: list[int] = []
    try:
        me = Hoarder(memory)
        memory.neighbours()
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
