"""Strategies with several hosts, with renewals, and with many VMs of tiny shares.

`make test` plays a few minutes of each; `make soak` plays four hours of the market's time.
"""

from collections.abc import Generator, Mapping
from contextlib import suppress
from functools import cache

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.ledger import LedgerError
from merkatd.limits import LEAST_QUOTA_US
from merkatd.limits.cpu_limits import HELPERS_LEAST
from merkatd.limits.settings import CpuSettings
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, LATER, PERIOD_S, RESERVE, Arena, Play, Player
from tests.abuse.counting import Outcome
from tests.lengths import SOAK, shorten

Moves = Generator[float, None, None]

PERIODS = shorten(240, 6)
RULES = tuple(PriceRule)
LEAST = 0.95
"""The least part of the honest tenants' price of a core-second."""
RENEWAL_S = shorten(4, 3) * PERIOD_S
"""The interval of renewals; the first one is after the players' start."""
SUPPLY = 400_000.0
"""The supply: each of three tenants holds a third at most, more than its initial balance."""


def rules_of(at: int) -> tuple[PriceRule, ...]:
    """Return both rules in the long form, else one of them in turns."""
    return RULES if SOAK else (RULES[at % len(RULES)],)


def _forever() -> Moves:
    while True:
        yield PERIOD_S


# -- several hosts -------------------------------------------------------------------------------


def low_on_every_host(me: Player) -> Moves:
    """Run a VM at a tenth of a fair bid on each host, and a fair one."""
    for _ in range(2):
        me.vm(FAIR_BID / 10, VCPU=2)
    me.vm()
    yield from _forever()


def floors_on_every_host(me: Player) -> Moves:
    """Claim half of every host without a bid."""
    for _ in range(2):
        me.vm(0, MERKAT_MIN_CPU=400)
    yield from _forever()


def crowds_one_host(me: Player) -> Moves:
    """Crowd one host with high bids under tiny caps, and bid little on the other host."""
    for _ in range(6):
        me.vm(3 * FAIR_BID, MERKAT_MAX_CPU=1, VCPU=1, SCHED_REQUIREMENTS="ID = 0")
    me.vm(FAIR_BID / 4, SCHED_REQUIREMENTS="ID = 1")
    yield from _forever()


def stops_to_change_hosts(me: Player) -> Moves:
    """Stop the VM repeatedly, so that it is placed on the emptier host."""
    vm = me.vm()
    yield 2 * PERIOD_S
    while True:
        me.act(vm, "stop")
        yield 10
        me.act(vm, "resume")
        yield 2 * PERIOD_S - 10


def leaves_each_host_before_the_look(me: Player) -> Moves:
    """Run two VMs in turns on two hosts, each gone before its second observation."""
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
    """Spend the whole balance before each renewal."""
    vm = me.vm(FAIR_BID)
    while True:
        yield RENEWAL_S - PERIOD_S
        me.set(vm, MERKAT_BID_CPU=9_000)
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=FAIR_BID)


def empty_at_each_renewal(me: Player) -> Moves:
    """Keep all credits in a platform during each renewal."""
    platform = me.platform(1, start=LATER)
    me.vm(2 * FAIR_BID)
    while True:
        yield PERIOD_S / 2
        me.move_all_to(platform)
        yield RENEWAL_S - PERIOD_S
        me.set_budget_of(platform, 1)
        yield PERIOD_S / 2


def a_platform_for_each_renewal(me: Player) -> Moves:
    """Move each renewal into a new platform."""
    me.vm(FAIR_BID)
    while True:
        yield RENEWAL_S
        with suppress(LedgerError):  # all credits may be reserved
            me.platform(max(me.credits - 50, 1), start=LATER)


RENEWALS: dict[str, Play] = {
    play.__name__: play
    for play in (bids_all_before_each_renewal, empty_at_each_renewal, a_platform_for_each_renewal)
}


def check(outcome: Outcome, beyond: float = 0.001) -> None:
    """Check that the player pays the honest price and others pay their bids at most."""
    assert not outcome.got_something or outcome.price_ratio >= LEAST, (outcome.price_ratio, outcome)
    assert outcome.fair_paid <= outcome.fair_bids * (1 + beyond), outcome


def play_strategy(arena: Arena, name: str, play: Play) -> Outcome:
    """Play a strategy; return its outcome."""
    try:
        return arena.play({name: play}, PERIODS)[name]
    finally:
        arena.close()


@cache
def play_on_two_hosts(names: tuple[str, ...], rule: PriceRule) -> Mapping[str, Outcome]:
    """Play strategies of different tenants in one cloud; the first two periods do not count."""
    arena = Arena(rule, hosts=2)
    try:
        return arena.play({name: HOSTS[name] for name in names}, PERIODS, uncounted=2)
    finally:
        arena.close()


@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for name in HOSTS for rule in (RULES if SOAK else RULES[:1])]
)
def test_several_hosts_give_a_strategy_no_advantage(name: str, rule: PriceRule) -> None:
    """Honest tenants fill both of two hosts. `make soak` plays each strategy alone."""
    names = (name,) if SOAK else tuple(HOSTS)
    check(play_on_two_hosts(names, rule)[name])


@pytest.mark.parametrize("rule", rules_of(1))
def test_high_bids_on_one_host_do_not_raise_charges_on_another_above_the_bid(
    rule: PriceRule,
) -> None:
    """The price is the market's and the share the host's, so the bid bounds the charge."""

    def bound(me: Player) -> Moves:
        for _ in range(3):
            me.vm(200, SCHED_REQUIREMENTS="ID = 1")
        while True:
            yield PERIOD_S

    outcome = play_strategy(Arena(rule, hosts=2), "bound", bound)
    assert outcome.fair_paid <= outcome.fair_bids * 1.001, outcome


@pytest.mark.parametrize(
    ("name", "rule"),
    [(name, rule) for at, name in enumerate(RENEWALS) for rule in rules_of(at + 1)],
)
def test_renewals_give_a_strategy_no_advantage(name: str, rule: PriceRule) -> None:
    """No tenant holds more than its part of the supply."""
    arena = Arena(
        rule, money=MoneySettings(supply=SUPPLY, starting_credits=0.0, renewal_s=RENEWAL_S)
    )
    most = 0.0

    def watched(me: Player) -> Moves:
        nonlocal most
        for wait_s in RENEWALS[name](me):
            most = max(most, me.holdings)
            yield wait_s

    check(play_strategy(arena, name, watched))
    assert 0 < most <= SUPPLY / 3 + 1e-6


# -- many tiny shares ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules_of(0))
def test_a_crowd_without_bids_computes_no_more_than_its_least_limits(rule: PriceRule) -> None:
    """A hundredth of a core a VM and a fiftieth for helpers are the least limits, and free.

    This is free once a VM, regardless of its virtual CPUs. It bounds the total work of the VMs and
    the loss of honest tenants.
    """
    count = 10

    def crowd(me: Player) -> Moves:
        for _ in range(count):
            me.vm(0, VCPU=CORES)
        yield from _forever()

    outcome = play_strategy(Arena(rule), "crowd", crowd)
    whole_s = CORES * PERIOD_S * PERIODS
    least = LEAST_QUOTA_US / CpuSettings().quota_period_us + 1 / HELPERS_LEAST
    assert 0 < outcome.core_s <= outcome.ran_s * least * 1.05
    assert outcome.fair_paid <= outcome.fair_bids * 1.001
    assert whole_s - outcome.fair_core_s <= outcome.core_s * 1.05
    assert outcome.price_ratio >= LEAST or outcome.core_s <= 0.05 * whole_s


@pytest.mark.parametrize("rule", rules_of(0))
def test_uncontended_cores_cost_the_reserve_price(rule: PriceRule) -> None:
    """A low bid buys no more than it pays for at that price."""

    def tiny(me: Player) -> Moves:
        me.vm(0.2)
        while True:
            yield PERIOD_S

    arena = Arena(rule, neighbours=1, neighbours_cores=4)
    outcome = play_strategy(arena, "tiny", tiny)
    worth = (outcome.core_s - 0.01 * outcome.ran_s) * 100 * RESERVE / PERIOD_S
    assert outcome.paid >= 0.95 * worth, outcome
