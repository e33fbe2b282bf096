"""A refused deployment takes nothing from neighbours and delays no other VM.

An owner can cause refusals at will, by a lock or a missing image, and OpenNebula has causes of its
own. A VM refused once without its owner's fault runs soon afterwards.
"""

from collections.abc import Iterator

import pytest

from merkatd.database.scheduler import period_store
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import OneVmState
from merkatd.market.price import PriceRule
from merkatd.scheduler.terms.refused_deployments import FREE
from tests.abuse.arena import CORES, FAIR_BID, NEIGHBOURS, PERIOD_S, Arena, Player, fair_vm
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves
from tests.lengths import SOAK, shorten
from tests.scheduler.frontend import PASSWORD

PERIODS = shorten(30, 10)
DELETE = 3
"""The operation of `one.vm.recover` that deletes a failed VM."""


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Return one host full of honest tenants' VMs."""
    new_arena = Arena(PriceRule.CLEARING)
    yield new_arena
    new_arena.close()


def refuse_deployments(arena: Arena, vm: int, count: int = -1) -> None:
    """Let OpenNebula refuse to deploy the VM, this number of times."""
    fault = Fault(FaultKind.REFUSE, "one.vm.deploy", vm=vm, count=count, text="no such image")
    arena.cloud.faults.add(fault)


def is_placed(me: Player, vm: int) -> bool:
    """Return whether the VM is on a host or in transit to it."""
    return me.arena.cloud.world.vms.rows[vm].state is OneVmState.ACTIVE


def locked(me: Player) -> Moves:
    """Keep a locked pending VM with the highest bid."""
    me.ask("one.vm.lock", me.vm(9_000), 4, True)
    while True:
        yield PERIOD_S


def one_after_the_other(me: Player) -> Moves:
    """Create another undeployable VM in each period."""
    while True:
        refuse_deployments(me.arena, me.vm(9_000))
        yield PERIOD_S


def many(me: Player) -> Moves:
    """Create many undeployable VMs."""
    for _ in range(shorten(100, 30)):
        refuse_deployments(me.arena, me.vm(90))
    while True:
        yield PERIOD_S


PLAYS = {"eve": locked, "cyd": one_after_the_other, "dan": many}


@pytest.mark.parametrize("names", [*PLAYS] if SOAK else ["".join(PLAYS)])
def test_neighbours_lose_little_to_refused_vms(arena: Arena, names: str) -> None:
    """They keep at least nine tenths of all cores, and pay their bids at most."""
    plays = {name: play for name, play in PLAYS.items() if name in names}
    for outcome in arena.play(plays, PERIODS).values():
        assert outcome.fair_core_s >= 0.9 * CORES * PERIOD_S * PERIODS, outcome
        assert outcome.fair_paid <= outcome.fair_bids * 1.001
        assert outcome.core_s == 0


def one_runs_now_and_then(me: Player) -> Moves:
    """Keep a high bid that is always refused, beside small VMs that are refused only once."""
    refuse_deployments(me.arena, me.vm(9_000))
    small = me.vm(0.01)
    refuse_deployments(me.arena, small, 1)
    while True:
        yield PERIOD_S
        if is_placed(me, small):
            me.ask("one.vm.action", "terminate-hard", small)
            small = me.vm(0.01)
            refuse_deployments(me.arena, small, 1)


def test_a_vm_that_runs_does_not_reset_the_delays_of_others(arena: Arena) -> None:
    """The delay between two attempts keeps growing."""
    periods = shorten(60, 16)
    outcome = arena.play({"eve": one_runs_now_and_then}, periods)["eve"]
    assert outcome.fair_core_s >= 0.97 * CORES * PERIOD_S * periods, outcome


@pytest.mark.parametrize("ends", [True, False])
def test_a_failed_copy_costs_the_neighbours_loss(arena: Arena, ends: bool) -> None:
    """In each period the image copy of another VM fails, with or without an end of that VM."""

    def play(me: Player) -> Moves:
        yield AFTER_S
        while True:
            vm = me.vm(300)
            me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="PROLOG"))
            yield AFTER_S
            if ends:
                me.arena.bench.raw("one.vm.recover", vm, DELETE)
            yield BEFORE_S

    outcome = arena.play({"eve": play}, PERIODS)["eve"]
    lost_core_s = CORES * PERIOD_S * PERIODS - outcome.fair_core_s
    assert outcome.paid >= lost_core_s * NEIGHBOURS * FAIR_BID / (CORES * PERIOD_S), outcome
    assert outcome.fair_paid <= outcome.fair_bids * 1.001


def test_a_locked_vm_that_failed_to_boot_starts_no_early_period(arena: Arena) -> None:
    """It is retried on its host, and takes nothing from its neighbours."""

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


def test_a_vm_refused_once_runs_soon(arena: Arena) -> None:
    """Its owner's other VMs do not wait for it."""

    def unlucky(me: Player) -> Moves:
        first = me.vm(20)
        refuse_deployments(me.arena, first, count=1)
        yield 1
        second = me.vm(20)
        yield 2 * PERIOD_S
        assert is_placed(me, second)
        yield 2 * PERIOD_S
        assert is_placed(me, first)
        while True:
            yield PERIOD_S

    arena.play({"eve": unlucky}, 6)


def test_a_vm_refused_once_does_not_wait_for_vms_refused_always(arena: Arena) -> None:
    """Its owner has twenty of those."""

    def unlucky(me: Player) -> Moves:
        for _ in range(20):
            refuse_deployments(me.arena, me.vm(1))
        good = me.vm(20)
        refuse_deployments(me.arena, good, count=1)
        yield 5 * PERIOD_S
        assert is_placed(me, good)
        while True:
            yield PERIOD_S

    arena.play({"eve": unlucky}, 6)


def test_other_vms_of_an_owner_with_many_refused_ones_run_later(arena: Arena) -> None:
    """They run ten minutes later at most; other owners' VMs are placed as usual."""

    def broken(me: Player) -> Moves:
        for _ in range(FREE + 2):
            refuse_deployments(me.arena, me.vm(20))
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
