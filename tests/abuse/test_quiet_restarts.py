"""On a host with idle cores, a guest that restarts repeatedly pays for its use.

A new guest has no limits until the daemon finds it, some seconds later.
"""

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, RESERVE, Arena, Player
from tests.abuse.counting import Outcome
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves
from tests.lengths import shorten

LITTLE = 0.001
LEAST = 0.95
PERIODS = shorten(10, 6)

Play = Callable[[Player], Moves]


def steady(me: Player) -> Moves:
    """Leave the VM alone."""
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
    """Power off and on as often as OpenNebula allows."""
    vm = me.vm(LITTLE)
    yield PERIOD_S
    while True:
        me.act(vm, "poweroff-hard")
        yield 5
        me.act(vm, "resume")
        yield 5


def off_at_each_look(me: Player) -> Moves:
    """Run only between observations."""
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
    """Be off without a bid at each observation, and start right afterwards."""
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
    """Replace the VM in each period."""
    while True:
        vm = me.vm(LITTLE)
        yield PERIOD_S + AFTER_S
        me.end(vm)
        yield BEFORE_S


def rebooted(me: Player) -> Moves:
    """Reboot repeatedly; the domain stays."""
    vm = me.vm(LITTLE)
    yield PERIOD_S
    while True:
        me.act(vm, "reboot-hard")
        yield 10


def reverted(me: Player) -> Moves:
    """Revert to a snapshot repeatedly, also right before each observation."""
    vm = me.vm(LITTLE)
    yield PERIOD_S
    while True:
        yield 10
        me.revert(vm)
        yield AFTER_S - 10
        me.revert(vm)
        yield BEFORE_S


def small_at_each_look(me: Player) -> Moves:
    """Have one virtual CPU at each observation, and all of them at each start."""
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
    "reverted": reverted,
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


BY_USE = tuple(PLAYS.keys() - {"bids_nothing_while_off"})


@cache
def play_each(names: tuple[str, ...], strategy: str | None = None) -> Mapping[str, Outcome]:
    """Play each on a host with one honest VM of two cores; return the outcomes."""
    site = Arena(
        PriceRule.CLEARING,
        hosts=len(names),
        strategy=strategy,
        neighbours=1,
        neighbours_cores=2,
        apart=True,
    )
    try:
        return site.play({name: PLAYS[name] for name in names}, PERIODS)
    finally:
        site.close()


@pytest.mark.parametrize("name", PLAYS)
def test_idle_cores_cost_the_reserve_price(name: str) -> None:
    """This includes the seconds in which the guest has more than its share."""
    outcome = play_each(tuple(PLAYS))[name]
    bought_s = outcome.core_s - 0.01 * outcome.ran_s
    worth = bought_s / PERIOD_S * 100 * RESERVE
    assert outcome.core_s < PERIOD_S or outcome.paid >= LEAST * worth, (
        outcome.paid,
        worth,
        outcome,
    )
    assert outcome.fair_paid <= FAIR_BID * len(PLAYS) * (PERIODS + 1)
    assert outcome.core_s <= CORES * outcome.ran_s


@pytest.mark.parametrize("name", sorted(BY_USE))
def test_idle_cores_cost_the_rate_in_a_market_by_use(name: str) -> None:
    """Guests that end before their counter is read pay as well."""
    outcome = play_each(BY_USE, "groups")[name]
    assert outcome.core_s > 60, outcome
    assert outcome.paid >= LEAST * LITTLE * outcome.core_s / PERIOD_S, outcome
    assert outcome.fair_paid <= FAIR_BID * 2 * len(BY_USE) * (PERIODS + 1)


def test_no_guest_is_cheaper_because_it_is_not_seen() -> None:
    """One VM has one virtual CPU and is off at each observation, and its guests end before.

    Another one is reverted to a snapshot after each start, before its counter is read.
    """

    def grows(me: Player) -> Moves:
        vm = me.vm(LITTLE, VCPU=1)
        yield AFTER_S
        me.act(vm, "poweroff-hard")
        yield 10
        while True:
            for _ in range(9):
                me.ask("one.vm.resize", vm, f"VCPU={CORES}", False)
                me.act(vm, "resume")
                yield 3
                me.act(vm, "poweroff-hard")
                yield 2
            me.ask("one.vm.resize", vm, "VCPU=1", False)
            yield PERIOD_S - 45

    def reverted(me: Player) -> Moves:
        vm = me.vm(LITTLE)
        yield AFTER_S
        while True:
            me.act(vm, "poweroff-hard")
            yield 1
            me.act(vm, "resume")
            yield 3
            me.revert(vm)
            yield 1

    site = Arena(
        PriceRule.CLEARING, hosts=2, neighbours=1, neighbours_cores=2, tick_s=1, apart=True
    )
    try:
        outcomes = site.play({"grows": grows, "reverted": reverted}, 4, uncounted=2)
    finally:
        site.close()
    for outcome in outcomes.values():
        assert outcome.got_something
        bought_s = outcome.core_s - 0.01 * outcome.ran_s
        assert outcome.paid >= LEAST * bought_s / PERIOD_S * 100 * RESERVE, outcomes


def test_a_vm_restarted_once_pays_for_its_use() -> None:
    """It pays at most the reserve price of some seconds of all its virtual CPUs more."""

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

    site = Arena(PriceRule.CLEARING, hosts=2, neighbours=1, neighbours_cores=2, apart=True)
    try:
        outcomes = site.play({"once": once, "never": never}, PERIODS)
    finally:
        site.close()
    assert outcomes["once"].paid <= outcomes["never"].paid * 1.02
