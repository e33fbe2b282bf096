"""A claim costs the price of its own host, even if the rest of the market is cheap."""

from collections.abc import Generator

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import HostSize
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from tests.abuse.arena import FAIR_BID, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves
from tests.abuse.memory import HOST_MIB, RESERVE, Hoarder, Memory
from tests.lengths import SOAK, shorten
from tests.platforms.site import Site
from tests.scheduler.frontend import PASSWORD

HERE = {"SCHED_REQUIREMENTS": "ID = 0"}
"""A requirement as of a cluster or a datastore: the second host stays idle and cheap."""
PERIODS = shorten(10, 5)
RULES = tuple(PriceRule)


def bound(bid: float, **more: object) -> Play:
    """Create a VM of eight cores that only the contended host allows."""

    def play(me: Player) -> Moves:
        me.vm(bid, **HERE, **more)
        while True:
            yield PERIOD_S

    return play


@pytest.mark.parametrize("rule", RULES if SOAK else RULES[1:])
def test_a_claim_on_a_contended_host_costs_that_hosts_price(rule: PriceRule) -> None:
    """The market's price is the reserve price; four VMs bid 80 together on the host."""
    arena = Arena(rule, hosts=2, neighbours=0)
    try:
        arena.honest = [arena.bench.new(*fair(number)) for number in range(4)]
        outcome = arena.play({"eve": bound(1.7, MERKAT_MIN_CPU=790)}, PERIODS)["eve"]
    finally:
        arena.close()
    all_s = outcome.core_s + outcome.fair_core_s
    assert outcome.core_s < 0.2 * all_s, outcome  # the market's price applies in its first period


def in_turns(me: Player) -> Moves:
    """End the VM a moment before each observation and create another one with the same claim."""
    yield PERIOD_S - 5
    vm = me.vm(1.7, MERKAT_MIN_CPU=790, **HERE)
    while True:
        yield PERIOD_S - 1
        me.end(vm)
        yield 1
        vm = me.vm(1.7, MERKAT_MIN_CPU=790, **HERE)


def test_a_new_vm_in_each_period_has_no_unpaid_claim() -> None:
    """Each VM is pending at the observation, so no host's price applies to its claim."""
    arena = Arena(PriceRule.CLEARING, hosts=2, neighbours=0, tick_s=1)
    try:
        arena.honest = [arena.bench.new(*fair(number)) for number in range(4)]
        outcome = arena.play({"eve": in_turns}, PERIODS)["eve"]
    finally:
        arena.close()
    assert outcome.core_s < 0.05 * (outcome.core_s + outcome.fair_core_s), outcome


def fair(number: int) -> tuple[str, str]:
    """Return a VM for all cores of the first host, and its owner's session."""
    lines = {
        "CPU": 0.1,
        "VCPU": 2,
        "MEMORY": 512,
        "MERKAT_BID_CPU": FAIR_BID,
        **HERE,
    }
    text = "\n".join(f'{key}="{value}"' for key, value in lines.items())
    work = 'EMBEDDED=[WORK="10000000",DEMAND="2",MEMORY_USE="64"]'
    return f"{text}\n{work}", f"{('ann', 'bob')[number % 2]}:{PASSWORD}"


def make_two_hosts() -> Memory:
    """Return a site of two hosts, of which all VMs require the first."""
    memory = Memory(PriceRule.CLEARING)
    memory.site.close()
    memory.site = Site(
        hosts=2,
        size=HostSize(800, HOST_MIB),
        markets=(MarketRules(pricing=Pricing(rule=PriceRule.CLEARING, reserve=RESERVE)),),
        money=MoneySettings(supply=100_000_000, renewal_s=1e9),
    )
    memory.eve = memory.site.tenant("eve")
    return memory


CLAIMS: tuple[dict[str, object], ...] = ({}, {"MERKAT_MIN_MEMORY": 8000})


@pytest.mark.parametrize("claim", CLAIMS if SOAK else CLAIMS[1:])
def test_used_memory_costs_the_price_of_its_host(claim: dict[str, object]) -> None:
    """A VM with full memory shrinks once neighbours on its host bid."""
    memory = make_two_hosts()

    def moves() -> Generator[None, None, None]:
        me = Hoarder(memory)
        me.vm(0.82, **HERE, **claim)
        yield
        yield
        memory.fair += [memory.vm(name, FAIR_BID, 64, **HERE) for name in ("ann", "bob", "ann")]
        while True:
            yield

    try:
        outcome = memory.play(moves(), 24)
    finally:
        memory.site.close()
    assert outcome.held[-1] < 1024, outcome.held
