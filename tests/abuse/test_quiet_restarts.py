"""Where a host has idle cores, a guest that its owner starts again and again pays for what it has.

A new guest has no limits until the daemon finds it, some seconds later.
"""

from collections.abc import Callable

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, RESERVE, Arena, Player
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves
from tests.lengths import shorten

LITTLE = 0.001
LEAST = 0.95
PERIODS = shorten(10, 6)

Play = Callable[[Player], Moves]


def steady(me: Player) -> Moves:
    """It is left alone."""
    me.vm(LITTLE)
    while True:
        yield PERIOD_S


def _again(away: str) -> Play:
    def play(me: Player) -> Moves:
        vm = me.vm(LITTLE)
        yield PERIOD_S
        while True:
            me.act(vm, away)
            yield 5
            me.act(vm, "resume")
            yield PERIOD_S - 5

    return play


def in_turns(me: Player) -> Moves:
    """As often as OpenNebula takes it."""
    vm = me.vm(LITTLE)
    yield PERIOD_S
    while True:
        me.act(vm, "poweroff-hard")
        yield 5
        me.act(vm, "resume")
        yield 5


def off_at_each_look(me: Player) -> Moves:
    """It runs in between."""
    vm = me.vm(LITTLE)
    yield PERIOD_S
    me.act(vm, "poweroff-hard")
    yield AFTER_S
    while True:
        yield 10
        me.act(vm, "resume")
        yield 10
        me.act(vm, "poweroff-hard")
        yield 10
        me.act(vm, "resume")
        yield AFTER_S - 30
        me.act(vm, "poweroff-hard")
        yield BEFORE_S


def bids_nothing_while_off(me: Player) -> Moves:
    """It is off at each look, bids nothing then, and is started right after that."""
    vm = me.vm(LITTLE)
    yield PERIOD_S
    me.act(vm, "poweroff-hard")
    me.set(vm, MERKAT_BID_CPU=0)
    yield PERIOD_S
    while True:
        me.act(vm, "resume")
        yield AFTER_S - 5
        me.act(vm, "poweroff-hard")
        yield BEFORE_S + 5


def made_anew(me: Player) -> Moves:
    """Another VM for each period."""
    while True:
        vm = me.vm(LITTLE)
        yield PERIOD_S + AFTER_S
        me.end(vm)
        yield BEFORE_S


def rebooted(me: Player) -> Moves:
    """Its domain stays."""
    vm = me.vm(LITTLE)
    yield PERIOD_S
    while True:
        me.act(vm, "reboot-hard")
        yield 10


def small_at_each_look(me: Player) -> Moves:
    """It has one virtual CPU when the daemon looks, and all of them when it is started."""
    vm = me.vm(LITTLE, VCPU=1)
    yield PERIOD_S
    yield AFTER_S
    while True:
        for _ in range(3):
            me.act(vm, "poweroff-hard")
            yield 5
            me.ask("one.vm.resize", vm, f"VCPU={CORES}", False)
            me.act(vm, "resume")
            yield 10
        me.act(vm, "poweroff-hard")
        yield 5
        me.ask("one.vm.resize", vm, "VCPU=1", False)
        me.act(vm, "resume")
        yield PERIOD_S - 50


PLAYS = {
    "rebooted": rebooted,
    "undeploy": _again("undeploy-hard"),
    "small_at_each_look": small_at_each_look,
    "made_anew": made_anew,
    "steady": steady,
    "poweroff": _again("poweroff-hard"),
    "suspend": _again("suspend"),
    "in_turns": in_turns,
    "off_at_each_look": off_at_each_look,
    "bids_nothing_while_off": bids_nothing_while_off,
}


def _site(strategy: str | None = None) -> Arena:
    """With one honest VM, of two of the cores."""
    return Arena(PriceRule.CLEARING, strategy=strategy, neighbours=1, neighbours_cores=2)


@pytest.mark.parametrize("name", PLAYS)
def test_idle_cores_cost_the_reserve_price(name: str) -> None:
    """For every second in which the guest has more than its share as well."""
    site = _site()
    try:
        found = site.play({name: PLAYS[name]}, PERIODS)[name]
    finally:
        site.close()
    bought_s = found.core_s - 0.01 * found.ran_s
    worth = bought_s / PERIOD_S * 100 * RESERVE
    assert not found.got_something or found.paid >= LEAST * worth, (found.paid, worth, found)
    assert found.fair_paid <= FAIR_BID * (PERIODS + 1)
    assert found.core_s <= CORES * found.ran_s


@pytest.mark.parametrize("name", sorted(PLAYS.keys() - {"bids_nothing_while_off"}))
def test_idle_cores_cost_the_rate_where_use_is_charged(name: str) -> None:
    """Also of guests that have ended before anybody could read what they used."""
    site = _site(strategy="groups")
    try:
        found = site.play({name: PLAYS[name]}, PERIODS)[name]
    finally:
        site.close()
    assert found.core_s > 60, found
    assert found.paid >= LEAST * LITTLE * found.core_s / PERIOD_S, found
    assert found.fair_paid <= FAIR_BID * 2 * (PERIODS + 1)


def test_a_vm_that_is_started_again_once_pays_for_what_it_used() -> None:
    """No more than the reserve price of some seconds of all its virtual CPUs."""

    def once(me: Player) -> Moves:
        vm = me.vm(FAIR_BID / 4, VCPU=2)
        yield 3 * PERIOD_S
        me.act(vm, "poweroff-hard")
        yield 5
        me.act(vm, "resume")
        while True:
            yield PERIOD_S

    def never(me: Player) -> Moves:
        me.vm(FAIR_BID / 4, VCPU=2)
        while True:
            yield PERIOD_S

    paid = {}
    for play in (once, never):
        site = _site()
        try:
            paid[play] = site.play({"eve": play}, PERIODS)["eve"].paid
        finally:
            site.close()
    assert paid[once] <= paid[never] * 1.02
