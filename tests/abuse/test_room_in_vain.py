"""A host makes room for a waiting VM that never comes, a few times only."""

from collections.abc import Callable

import pytest

from merkatd.market.price import PriceRule
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.terms import refused_deployments
from tests.abuse.memory import HIGH, HOST_MIB, SIZE_MIB, Hoarder, Memory, Moves

PERIODS = 40
OTHER = "other"
"""A market without hosts."""


def claiming(me: Hoarder) -> int:
    """A VM that claims half of the host, which no period frees at once."""
    return me.vm(HIGH, MERKAT_MIN_MEMORY=SIZE_MIB)


def tell(me: Hoarder, vm: int, **attributes: object) -> None:
    """Change the VM's user template."""
    text = "\n".join(f'{name}="{value}"' for name, value in attributes.items())
    me.memory.site.bench.raw("one.vm.update", vm, text, 1, session=me.session)


def ended(me: Hoarder) -> Moves:
    """In every second period a new VM, which ends while it waits."""
    while True:
        vm = claiming(me)
        yield
        me.act(vm, "terminate-hard")
        yield


def held(me: Hoarder) -> Moves:
    """In every second period the VM is on hold."""
    vm = claiming(me)
    while True:
        yield
        me.act(vm, "hold")
        yield
        me.act(vm, "release")


def claims_now_and_then(me: Hoarder) -> Moves:
    """In every second period no host is good enough, and nothing is claimed."""
    vm = claiming(me)
    while True:
        yield
        tell(me, vm, MERKAT_MIN_MEMORY=0, SCHED_REQUIREMENTS="NAME = nowhere")
        yield
        tell(me, vm, MERKAT_MIN_MEMORY=SIZE_MIB, SCHED_REQUIREMENTS="")


def requires_now_and_then(me: Hoarder) -> Moves:
    """In every second period no host is good enough."""
    vm = claiming(me)
    while True:
        yield
        tell(me, vm, SCHED_REQUIREMENTS="NAME = nowhere")
        yield
        tell(me, vm, SCHED_REQUIREMENTS="")


def bids_then_nothing(me: Hoarder) -> Moves:
    """Each VM bids nothing once room was made for it; then it comes, and ends."""
    while True:
        vm = claiming(me)
        yield
        me.bid(vm, 0)
        yield
        me.act(vm, "terminate-hard")
        yield


def shrinks(me: Hoarder) -> Moves:
    """Each VM is made tiny once room was made for it; then it comes, and ends."""
    while True:
        vm = claiming(me)
        yield
        raw = me.memory.site.bench.raw
        raw("one.vm.resize", vm, 'MEMORY="128"', False, session=me.session)
        yield
        me.act(vm, "terminate-hard")


def elsewhere_now_and_then(me: Hoarder) -> Moves:
    """In every second period the VM is in a market without hosts."""
    vm = claiming(me)
    while True:
        yield
        tell(me, vm, MERKAT_MARKET=OTHER)
        yield
        tell(me, vm, MERKAT_MARKET="default")


@pytest.mark.parametrize(
    "play",
    [
        ended,
        held,
        claims_now_and_then,
        requires_now_and_then,
        bids_then_nothing,
        shrinks,
        elsewhere_now_and_then,
    ],
)
def test_neighbours_keep_the_memory_that_they_pay_for(play: Callable[[Hoarder], Moves]) -> None:
    """Nine of ten parts at least."""
    memory = Memory(PriceRule.CLEARING, MarketRules(name=OTHER, clusters=frozenset({99})))
    try:
        memory.neighbours()
        memory.site.periods(6)
        found = memory.play(play(Hoarder(memory)), PERIODS)
    finally:
        memory.close()
    assert found.fair_held >= 0.9 * HOST_MIB * PERIODS, found


def prefers_each_host_in_turn(me: Hoarder, vm: int) -> Moves:
    """Before each period the VM ranks the two equal hosts the other way round."""
    while True:
        tell(me, vm, SCHED_RANK="ID")
        yield
        tell(me, vm, SCHED_RANK="- ID")
        yield


@pytest.mark.parametrize(("most", "state"), [(1, "RUNNING"), (0, "PENDING")])
def test_a_vm_comes_where_a_host_made_room(
    monkeypatch: pytest.MonkeyPatch, most: int, state: str
) -> None:
    """Hosts that make room in turn for a VM that never comes would get nothing for it.

    After the most periods at a host the VM may go to another one.
    """
    monkeypatch.setattr(refused_deployments, "MOST_PERIODS_AT_A_HOST", most)
    memory = Memory(PriceRule.CLEARING, hosts=2)
    try:
        memory.neighbours()
        memory.neighbours()
        memory.site.periods(6)
        me = Hoarder(memory)
        vm = claiming(me)
        memory.play(prefers_each_host_in_turn(me, vm), 3)
        assert memory.site.state(vm) == state
    finally:
        memory.close()


def test_a_vm_that_keeps_waiting_comes() -> None:
    """What its owner changes in its favour is no withdrawal."""
    memory = Memory(PriceRule.CLEARING)
    try:
        memory.neighbours()
        memory.site.periods(6)
        me = Hoarder(memory)
        vm = claiming(me)
        memory.site.periods(1)
        me.bid(vm, HIGH + 1)
        memory.site.periods(1)
        me.bid(vm, HIGH - 1)
        memory.site.periods(1)
        assert memory.site.state(vm) == "RUNNING"
    finally:
        memory.close()
