"""A host makes room for a waiting VM that never arrives a few times only."""

from collections.abc import Callable

import pytest

from merkatd.currency import micro
from merkatd.ledger import Ledger
from merkatd.market.price import PriceRule
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.terms import refused_deployments
from tests.abuse.arena import LATER
from tests.abuse.memory import HIGH, HOST_MIB, SIZE_MIB, Hoarder, Memory, Moves
from tests.lengths import SOAK, shorten
from tests.platforms.site import template

PERIODS = shorten(40, 13)
SHORT = shorten(40, 8)
"""The periods after which it is plain that one VM has to wait; new ones take longer."""
LEAST = 0.9 if SOAK else 0.85
"""The part of their memory that neighbours keep; each of the first withdrawals takes some."""
OTHER = "other"
"""A market without hosts."""


def create_claim(me: Hoarder) -> int:
    """Create a VM with a claim to half of the host, which takes several periods to free."""
    return me.vm(HIGH, MERKAT_MIN_MEMORY=SIZE_MIB)


def begin_to_make_room(memory: Memory) -> tuple[Hoarder, int]:
    """Return an owner and its VM for which a host full of neighbours has begun to make room."""
    memory.add_neighbours()
    memory.site.periods(6)
    me = Hoarder(memory)
    vm = create_claim(me)
    memory.site.periods(1)
    return me, vm


def change_template(me: Hoarder, vm: int, **attributes: object) -> None:
    """Change the VM's user template."""
    text = "\n".join(f'{name}="{value}"' for name, value in attributes.items())
    me.memory.site.bench.raw("one.vm.update", vm, text, 1, session=me.session)


def ended(me: Hoarder) -> Moves:
    """Create a VM in every second period, and end it while it waits."""
    while True:
        vm = create_claim(me)
        yield
        me.act(vm, "terminate-hard")
        yield


def held(me: Hoarder) -> Moves:
    """Put the VM on hold in every second period."""
    vm = create_claim(me)
    while True:
        yield
        me.act(vm, "hold")
        yield
        me.act(vm, "release")


def claims_now_and_then(me: Hoarder) -> Moves:
    """Drop the claim and exclude all hosts in every second period."""
    vm = create_claim(me)
    while True:
        yield
        change_template(me, vm, MERKAT_MIN_MEMORY=0, SCHED_REQUIREMENTS="NAME = nowhere")
        yield
        change_template(me, vm, MERKAT_MIN_MEMORY=SIZE_MIB, SCHED_REQUIREMENTS="")


def requires_now_and_then(me: Hoarder) -> Moves:
    """Exclude all hosts in every second period."""
    vm = create_claim(me)
    while True:
        yield
        change_template(me, vm, SCHED_REQUIREMENTS="NAME = nowhere")
        yield
        change_template(me, vm, SCHED_REQUIREMENTS="")


def bids_then_nothing(me: Hoarder) -> Moves:
    """Drop each VM's bid once it has room; then it is placed and ended."""
    while True:
        vm = create_claim(me)
        yield
        me.bid(vm, 0)
        yield
        me.act(vm, "terminate-hard")
        yield


def shrinks(me: Hoarder) -> Moves:
    """Shrink each VM once it has room; then it is placed and ended."""
    while True:
        vm = create_claim(me)
        yield
        raw = me.memory.site.bench.raw
        raw("one.vm.resize", vm, 'MEMORY="128"', False, session=me.session)
        yield
        me.act(vm, "terminate-hard")


def elsewhere_now_and_then(me: Hoarder) -> Moves:
    """Move the VM to a market without hosts in every second period."""
    vm = create_claim(me)
    while True:
        yield
        change_template(me, vm, MERKAT_MARKET=OTHER)
        yield
        change_template(me, vm, MERKAT_MARKET="default")


def moves_its_credits(me: Hoarder) -> Moves:
    """Move all credits to an idle platform once the VM has room; then it is placed and ended."""
    site, eve = me.memory.site, me.memory.eve
    platform = site.take(eve, template(budget="[budget]\ncredits = 1", start=LATER))
    account = site.platform(platform).account
    assert account is not None
    ledger = Ledger(site.scheduler.world.database, site.clock.seconds)

    def park(credits_: float) -> None:
        site.wait(ledger.set_budget(account, micro(credits_), None, "eve"))

    while True:
        vm = create_claim(me)
        yield
        park(1 + site.balances()[eve])
        yield
        me.act(vm, "terminate-hard")
        site.clock.advance(3)
        yield
        park(1)


@pytest.mark.parametrize(
    ("play", "periods", "least"),
    [
        (moves_its_credits, shorten(40, 16), max(LEAST, 0.86)),
        (ended, PERIODS, LEAST),
        (held, SHORT, LEAST),
        (claims_now_and_then, SHORT, LEAST),
        (requires_now_and_then, SHORT, LEAST),
        (bids_then_nothing, PERIODS, LEAST),
        (shrinks, PERIODS, LEAST),
        (elsewhere_now_and_then, SHORT, LEAST),
    ],
)
def test_neighbours_keep_the_memory_that_they_pay_for(
    play: Callable[[Hoarder], Moves], periods: int, least: float
) -> None:
    """They keep nearly all of it, once their owner's VMs have to wait."""
    memory = Memory(PriceRule.CLEARING, MarketRules(name=OTHER, clusters=frozenset({99})))
    try:
        memory.add_neighbours()
        memory.site.periods(3)
        found = memory.play(play(Hoarder(memory)), periods)
    finally:
        memory.close()
    assert found.fair_held >= least * HOST_MIB * periods, found


def prefers_each_host_in_turn(me: Hoarder, vm: int) -> Moves:
    """Reverse the rank of the two equal hosts before each period."""
    while True:
        change_template(me, vm, SCHED_RANK="ID")
        yield
        change_template(me, vm, SCHED_RANK="- ID")
        yield


@pytest.mark.parametrize(("most", "state"), [(1, "RUNNING"), (0, "PENDING")])
def test_a_vm_is_placed_on_the_host_that_made_room(
    monkeypatch: pytest.MonkeyPatch, most: int, state: str
) -> None:
    """Hosts that make room in turns for a VM elsewhere would gain nothing.

    After the most periods at a host the VM may use another one.
    """
    monkeypatch.setattr(refused_deployments, "MOST_INTERVALS_AT_A_HOST", most)
    memory = Memory(PriceRule.CLEARING, hosts=2)
    try:
        memory.add_neighbours()
        memory.add_neighbours()
        memory.site.periods(6)
        me = Hoarder(memory)
        vm = create_claim(me)
        memory.play(prefers_each_host_in_turn(me, vm), 3)
        assert memory.site.state(vm) == state
    finally:
        memory.close()


def test_a_patient_vm_is_placed() -> None:
    """Its owner's changes in its favour do not count as a withdrawal."""
    memory = Memory(PriceRule.CLEARING)
    try:
        me, vm = begin_to_make_room(memory)
        me.bid(vm, HIGH + 1)
        memory.site.periods(1)
        me.bid(vm, HIGH - 1)
        memory.site.periods(1)
        assert memory.site.state(vm) == "RUNNING"
    finally:
        memory.close()


def test_a_vm_that_is_held_during_a_pause_is_not_withdrawn() -> None:
    """No host takes memory from its VMs meanwhile, so it does not wait once it is released."""
    memory = Memory(PriceRule.CLEARING)
    try:
        me, vm = begin_to_make_room(memory)
        memory.site.clock.advance(3600.0)
        me.act(vm, "hold")
        memory.site.periods(1)
        me.act(vm, "release")
        memory.site.periods(2)
        assert memory.site.state(vm) == "RUNNING"
    finally:
        memory.close()
