"""Strategies with several hosts, with renewals, and with crowds of VMs that get next to nothing.

They are played like those of `test_market.py`: in short by `make test`, for four hours of the
market's time by `make soak`.
"""

from collections.abc import Generator
from contextlib import suppress

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.ledger import LedgerError
from merkatd.limits import LEAST_QUOTA_US
from merkatd.limits.cpu_limits import HELPERS_LEAST
from merkatd.limits.settings import CpuSettings
from merkatd.market.price import PriceRule
from tests.abuse.arena import (
    CORES,
    FAIR_BID,
    LATER,
    PERIOD_S,
    RESERVE,
    Arena,
    Outcome,
    Play,
    Player,
)
from tests.lengths import SOAK, shorten

Moves = Generator[float, None, None]

PERIODS = shorten(240, 8)
RULES = tuple(PriceRule)
LEAST = 0.95
"""Of what a core-second costs honest tenants."""
RENEWAL_S = 4 * PERIOD_S
"""The first comes after the players."""
SUPPLY = 400_000.0
"""Each of the three tenants holds a third of it at most, which is more than it begins with."""


def rules(at: int) -> tuple[PriceRule, ...]:
    """Both in the long form, else one of them in turns."""
    return RULES if SOAK else (RULES[at % len(RULES)],)


def _forever() -> Moves:
    while True:
        yield PERIOD_S


# -- several hosts -------------------------------------------------------------------------------


def low_on_every_host(me: Player) -> Moves:
    """A VM for each host with a tenth of a fair bid, and one that is fair."""
    for _ in range(2):
        me.vm(FAIR_BID / 10, VCPU=2)
    me.vm()
    yield from _forever()


def floors_on_every_host(me: Player) -> Moves:
    """Claims to half of every host, without a bid."""
    for _ in range(2):
        me.vm(0, MERKAT_MIN_CPU=400)
    yield from _forever()


def crowds_one_host(me: Player) -> Moves:
    """High bids that can use nothing crowd one host; its VM on the other host bids little."""
    for _ in range(6):
        me.vm(3 * FAIR_BID, MERKAT_MAX_CPU=1, VCPU=1, SCHED_REQUIREMENTS="ID = 0")
    me.vm(FAIR_BID / 4, SCHED_REQUIREMENTS="ID = 1")
    yield from _forever()


def stops_to_change_hosts(me: Player) -> Moves:
    """A VM that stops is placed anew, each time where fewer are."""
    vm = me.vm()
    yield 2 * PERIOD_S
    while True:
        me.act(vm, "stop")
        yield 10
        me.act(vm, "resume")
        yield 2 * PERIOD_S - 10


def leaves_each_host_before_the_look(me: Player) -> Moves:
    """Two VMs in turns, each asked onto another host, gone before its second observation."""
    number = 0
    while True:
        vm = me.vm(SCHED_REQUIREMENTS=f"ID = {number % 2}")
        yield PERIOD_S + 50
        me.end(vm)
        number += 1
        yield 10


HOSTS: dict[str, Play] = {
    play.__name__: play
    for play in (
        low_on_every_host,
        floors_on_every_host,
        crowds_one_host,
        stops_to_change_hosts,
        leaves_each_host_before_the_look,
    )
}


# -- renewals ------------------------------------------------------------------------------------


def bids_all_before_each_renewal(me: Player) -> Moves:
    """A renewal tops up whatever is left, so nothing is left."""
    vm = me.vm(FAIR_BID)
    while True:
        yield RENEWAL_S - PERIOD_S
        me.set(vm, MERKAT_BID_CPU=9_000)
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=FAIR_BID)


def empty_at_each_renewal(me: Player) -> Moves:
    """All money is in a platform when an account is topped up, and comes back after it."""
    platform = me.platform(1, start=LATER)
    me.vm(2 * FAIR_BID)
    while True:
        yield PERIOD_S / 2
        me.everything_to(platform)
        yield RENEWAL_S - PERIOD_S
        me.budget(platform, 1)
        yield PERIOD_S / 2


def a_platform_for_each_renewal(me: Player) -> Moves:
    """A new platform each time takes what was renewed; none is ended."""
    me.vm(FAIR_BID)
    while True:
        yield RENEWAL_S
        with suppress(LedgerError):  # all of it may be reserved
            me.platform(max(me.credits - 50, 1), start=LATER)


RENEWALS: dict[str, Play] = {
    play.__name__: play
    for play in (bids_all_before_each_renewal, empty_at_each_renewal, a_platform_for_each_renewal)
}


def judged(found: Outcome, beyond: float = 0.001) -> None:
    """It pays as much for a core-second as others, and others pay their bids at most."""
    assert not found.got_something or found.part >= LEAST, (found.part, found)
    assert found.fair_paid <= found.fair_bids * (1 + beyond), found


def played(arena: Arena, name: str, play: Play) -> Outcome:
    """What came of a strategy."""
    try:
        return arena.play({name: play}, PERIODS)[name]
    finally:
        arena.close()


@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for at, name in enumerate(HOSTS) for rule in rules(at)]
)
def test_several_hosts_gain_a_strategy_nothing(name: str, rule: PriceRule) -> None:
    """On two hosts, with honest tenants that fill both."""
    judged(played(Arena(rule, hosts=2), name, HOSTS[name]))


@pytest.mark.parametrize("rule", PriceRule)
def test_high_bids_on_one_host_make_nobody_on_another_pay_more_than_its_bid(
    rule: PriceRule,
) -> None:
    """The price is the market's, the share is the host's: the bound of a charge is the bid."""

    def bound(me: Player) -> Moves:
        for _ in range(3):
            me.vm(200, SCHED_REQUIREMENTS="ID = 1")
        while True:
            yield PERIOD_S

    found = played(Arena(rule, hosts=2), "bound", bound)
    assert found.fair_paid <= found.fair_bids * 1.001, found


@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for at, name in enumerate(RENEWALS) for rule in rules(at + 1)]
)
def test_renewals_gain_a_strategy_nothing(name: str, rule: PriceRule) -> None:
    """Nor does a tenant ever hold more than its part of the supply."""
    arena = Arena(
        rule, money=MoneySettings(supply=SUPPLY, starting_credits=0.0, renewal_s=RENEWAL_S)
    )
    most = 0.0

    def watched(me: Player) -> Moves:
        nonlocal most
        for wait_s in RENEWALS[name](me):
            most = max(most, me.holdings)
            yield wait_s

    judged(played(arena, name, watched))
    assert 0 < most <= SUPPLY / 3 + 1e-6


# -- many of next to nothing ---------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules(0))
def test_a_crowd_without_bids_computes_no_more_than_its_least_limits(rule: PriceRule) -> None:
    """No host takes a limit below a hundredth of a core, and helpers have a fiftieth: that is free.

    It is free once a VM, however many virtual CPUs it has. What the VMs compute together is
    bounded by that, and what honest tenants lose is that and no more.
    """
    count = 10

    def crowd(me: Player) -> Moves:
        for _ in range(count):
            me.vm(0, VCPU=CORES)
        yield from _forever()

    def alone(_me: Player) -> Moves:
        yield from _forever()

    found = played(Arena(rule), "crowd", crowd)
    without = played(Arena(rule), "alone", alone)
    least = LEAST_QUOTA_US / CpuSettings().quota_period_us + 1 / HELPERS_LEAST
    assert 0 < found.core_s <= found.ran_s * least * 1.05
    assert found.fair_paid <= found.fair_bids * 1.001
    assert without.fair_core_s - found.fair_core_s <= found.core_s * 1.05
    assert found.part >= LEAST or found.core_s <= 0.05 * without.fair_core_s


@pytest.mark.parametrize("rule", rules(0))
def test_cores_that_nobody_else_wants_cost_the_reserve_price(rule: PriceRule) -> None:
    """However low the bid is: it buys no more than it pays for at that price."""

    def tiny(me: Player) -> Moves:
        me.vm(0.2)
        while True:
            yield PERIOD_S

    arena = Arena(rule, neighbours=1, neighbours_cores=4)
    found = played(arena, "tiny", tiny)
    worth = (found.core_s - 0.01 * found.ran_s) * 100 * RESERVE / PERIOD_S
    assert found.paid >= 0.95 * worth, found
