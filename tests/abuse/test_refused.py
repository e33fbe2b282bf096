"""A deployment that OpenNebula refuses takes nothing from neighbours, and delays no other VM.

An owner can have refusals at will (a lock, an image that is gone), and OpenNebula has some of its
own: a VM that was refused once for no fault of its owner runs soon afterwards.
"""

from collections.abc import Callable, Iterator

import pytest

from merkatd.database.scheduler import period_store
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import OneVmState
from merkatd.market.price import PriceRule
from merkatd.scheduler.terms.refused_deployments import FREE
from tests.abuse.arena import CORES, FAIR_BID, NEIGHBOURS, PERIOD_S, Arena, Player, fair_vm
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves
from tests.lengths import shorten
from tests.scheduler.frontend import PASSWORD

PERIODS = shorten(30, 15)
DELETE = 3
"""How `one.vm.recover` ends a VM that failed."""


@pytest.fixture
def arena() -> Iterator[Arena]:
    """One host, full of honest tenants' VMs."""
    found = Arena(PriceRule.CLEARING)
    yield found
    found.close()


def refuses(arena: Arena, vm: int, count: int = -1) -> None:
    """Have OpenNebula refuse to deploy it, for so many times."""
    fault = Fault(FaultKind.REFUSE, "one.vm.deploy", vm=vm, count=count, text="no such image")
    arena.cloud.faults.add(fault)


def is_placed(me: Player, vm: int) -> bool:
    """Whether it is on a host, or on its way there."""
    return me.arena.cloud.world.vms.rows[vm].state is OneVmState.ACTIVE


def locked(me: Player) -> Moves:
    """Waits, locked, with the highest bid of all."""
    me.ask("one.vm.lock", me.vm(9_000), 4, True)
    while True:
        yield PERIOD_S


def one_after_the_other(me: Player) -> Moves:
    """In each period another VM that can't be deployed."""
    while True:
        refuses(me.arena, me.vm(9_000))
        yield PERIOD_S


def many(me: Player) -> Moves:
    """A hundred VMs that can't be deployed."""
    for _ in range(100):
        refuses(me.arena, me.vm(90))
    while True:
        yield PERIOD_S


@pytest.mark.parametrize("play", [locked, one_after_the_other, many])
def test_neighbours_lose_no_more_than_moments(
    arena: Arena, play: Callable[[Player], Moves]
) -> None:
    """Of all cores they keep nine of ten parts at least, and pay their bids at most."""
    found = arena.play({"eve": play}, PERIODS)["eve"]
    assert found.fair_core_s >= 0.9 * CORES * PERIOD_S * PERIODS, found
    assert found.fair_paid <= found.fair_bids * 1.001
    assert found.core_s == 0


def one_runs_now_and_then(me: Player) -> Moves:
    """One with the highest bid is refused always; a small one once, and then it runs and ends."""
    refuses(me.arena, me.vm(9_000))
    small = me.vm(0.01)
    refuses(me.arena, small, 1)
    while True:
        yield PERIOD_S
        if is_placed(me, small):
            me.ask("one.vm.action", "terminate-hard", small)
            small = me.vm(0.01)
            refuses(me.arena, small, 1)


def test_one_that_runs_now_and_then_does_not_begin_anew_with_the_others(arena: Arena) -> None:
    """The rest between two attempts goes on growing."""
    found = arena.play({"eve": one_runs_now_and_then}, 2 * PERIODS)["eve"]
    assert found.fair_core_s >= 0.97 * CORES * PERIOD_S * 2 * PERIODS, found


@pytest.mark.parametrize("ends", [True, False])
def test_a_copy_that_fails_costs_what_neighbours_lose(arena: Arena, ends: bool) -> None:
    """In each period another VM whose image can't be copied, ended before the next look or not."""

    def play(me: Player) -> Moves:
        yield AFTER_S
        while True:
            vm = me.vm(300)
            me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="PROLOG"))
            yield AFTER_S
            if ends:
                me.arena.bench.raw("one.vm.recover", vm, DELETE)
            yield BEFORE_S

    found = arena.play({"eve": play}, PERIODS)["eve"]
    lost_core_s = CORES * PERIOD_S * PERIODS - found.fair_core_s
    assert found.paid >= lost_core_s * NEIGHBOURS * FAIR_BID / (CORES * PERIOD_S), found
    assert found.fair_paid <= found.fair_bids * 1.001


def test_a_locked_vm_that_failed_to_boot_wakes_nobody(arena: Arena) -> None:
    """It is tried again where it is, and takes nothing from its neighbours: no period is early."""

    def number() -> int:
        newest = arena.read(period_store.newest)
        assert newest is not None
        return int(newest.number)

    def broken(me: Player) -> Moves:
        vm = me.vm(20)
        me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="BOOT", count=1))
        yield PERIOD_S + AFTER_S
        assert me.arena.bench.vm(vm).lcm.name == "BOOT_FAILURE"
        me.ask("one.vm.lock", vm, 4, True)
        before = number()
        yield 3 * PERIOD_S
        assert number() <= before + 3
        yield PERIOD_S

    arena.play({"eve": broken}, 5)


def test_a_vm_that_was_refused_once_runs_soon(arena: Arena) -> None:
    """And its owner's other VMs don't wait for it."""

    def unlucky(me: Player) -> Moves:
        first = me.vm(20)
        refuses(me.arena, first, count=1)
        yield 1
        second = me.vm(20)
        yield 2 * PERIOD_S
        assert is_placed(me, second)
        yield 2 * PERIOD_S
        assert is_placed(me, first)
        while True:
            yield PERIOD_S

    arena.play({"eve": unlucky}, 6)


def test_a_vm_that_was_refused_once_does_not_wait_for_those_that_always_are(arena: Arena) -> None:
    """Twenty of its owner's."""

    def unlucky(me: Player) -> Moves:
        for _ in range(20):
            refuses(me.arena, me.vm(1))
        good = me.vm(20)
        refuses(me.arena, good, count=1)
        yield 5 * PERIOD_S
        assert is_placed(me, good)
        while True:
            yield PERIOD_S

    arena.play({"eve": unlucky}, 6)


def test_an_owner_of_many_refused_vms_runs_the_others_later(arena: Arena) -> None:
    """Ten minutes later at most; VMs of others are placed as ever."""

    def broken(me: Player) -> Moves:
        for _ in range(FREE + 2):
            refuses(me.arena, me.vm(20))
        yield 2 * PERIOD_S
        good = me.vm(20)
        other = fair_vm(me.arena, f"ann:{PASSWORD}")
        yield PERIOD_S
        assert is_placed(me, other)
        assert "within an hour" in me.arena.bench.vm(good).user_template.get("SCHED_MESSAGE")
        yield 11 * PERIOD_S
        assert is_placed(me, good)
        while True:
            yield PERIOD_S

    arena.play({"eve": broken}, 16)
