"""Each kind of wrong decision is found, and named in words; right ones pass unchanged."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import (
    Balloon,
    Create,
    Decision,
    Deploy,
    HostState,
    Markets,
    Migrate,
    Plan,
    Requirements,
    Resume,
    Scale,
    Snapshot,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.cluster.plan import Sleep, Step, Wake
from merkatd.cluster.snapshot import view_of_market
from merkatd.placement import STRATEGIES
from merkatd.placement.decision_check import WrongDecisionError, checked_decision
from tests.clouds import cloud, hosts_table, tangled, vms_table
from tests.lengths import shorten

RUNS, WAITS, SAVED, BUSY, OTHER, FIXED, LATER = range(7)
"""The VMs of the cloud, by what they are."""
ON, SECOND, DRAINED, ELSEWHERE, FULL = range(5)
"""The hosts."""


def snapshot() -> Snapshot:
    """Return a cloud with a VM and a host of each kind; market 0 is decided."""
    state = [
        VmState.RUNNING,
        VmState.PENDING,
        VmState.SUSPENDED,
        VmState.BUSY,
        VmState.RUNNING,
        VmState.RUNNING,
        VmState.PENDING,
    ]
    none = [[50.0, 10.0]] * 7
    made = cloud(
        hosts_table(
            np.array([[400.0, 100.0]] * 4 + [[400.0, 5.0]]),
            state=np.array([HostState.ON] * 2 + [HostState.DRAINED] + [HostState.ON] * 2),
            market=np.array([0, 0, 0, 1, 0]),
        ),
        vms_table(
            [ON, -1, ON, ON, ELSEWHERE, ON, -1],
            np.ones((7, 2)),
            none,
            floor=np.tile([0.0, 10.0], (7, 1)),
            state=np.array(list(map(int, state))),
            market=np.array([0, 0, 0, 0, 1, 0, 0]),
            movable=np.array([True] * 5 + [False, True]),
            placeable=np.array([True] * 6 + [False]),
            requirement=np.array([0] + [-1] * 6),
        ),
        markets=Markets(name=("default", "other")),
        requirements=Requirements(name=("ssd",), allowed=np.array([[True] * 4 + [False]])),
        period=5,
    )
    return view_of_market(made, 0)


def nothing(**changes: Any) -> Decision:
    """Return a right decision without steps."""
    given = np.zeros((7, 2))
    given[[RUNS, FIXED]] = [50.0, 10.0]
    given[[SAVED, BUSY]] = [0.0, 10.0]
    right = Decision(Plan(()), given, np.zeros((2, 2)))
    return replace(right, **changes)


def of(kind: type[Step], vm: int = RUNS, **more: Any) -> Step:
    """Return a step of this period."""
    values: dict[str, Any] = {"period": 5, "vm": vm, "reason": "as a test", **more}
    return kind(**values)


def steps(*made: Step, **changes: Any) -> Decision:
    """Return the decision with these steps."""
    return nothing(plan=Plan(made), **changes)


def amounts(vm: int, *given: float) -> Decision:
    """Return the decision that gives this VM other amounts."""
    table = nothing().allocations.copy()
    table[vm] = given
    return nothing(allocations=table)


def waiting_for_each_other() -> Decision:
    """Return a decision whose two steps can never start."""
    first, second = of(Suspend), of(Terminate, SAVED)
    return steps(replace(first, after=(second.id,)), replace(second, after=(first.id,)))


MOVE: dict[str, Any] = {"source": ON, "host": SECOND}

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: None, "it is no decision with a plan (NoneType)"),
    "list": (lambda: nothing(plan=[]), "it is no decision with a plan (Decision)"),
    "unknown VM": (lambda: steps(of(Suspend, 99)), "suspend of VM 99: there is no such VM"),
    "unknown host": (
        lambda: steps(of(Deploy, WAITS, host=99)),
        "deploy of VM 1: there is no such host",
    ),
    "another market's VM": (
        lambda: steps(of(Suspend, OTHER)),
        "suspend of VM 4: the VM is not in its market",
    ),
    "another market's host": (
        lambda: steps(of(Deploy, WAITS, host=ELSEWHERE)),
        "deploy of VM 1: the host is not in its market",
    ),
    "another market's host asleep": (
        lambda: steps(of(Sleep, -1, host=ELSEWHERE)),
        "sleep of host 3: the host is not in its market",
    ),
    "two steps for a VM": (
        lambda: steps(of(Suspend), of(Migrate, **MOVE)),
        "VM 0: it has more than one step",
    ),
    "two steps for a host": (
        lambda: steps(of(Sleep, -1, host=ON), of(Wake, -1, host=ON)),
        "host 0: it has more than one step",
    ),
    "creation": (
        lambda: steps(of(Create, -1, key="k", template="", owner=0)),
        "create of a new VM: no strategy may make such a step",
    ),
    "limit": (
        lambda: steps(of(Balloon, memory_mib=64)),
        "balloon of VM 0: no strategy may make such a step",
    ),
    "wish among the steps": (
        lambda: nothing(plan=Plan((Scale(application=1, replicas=2, reason="more"),))),  # type: ignore[arg-type]
        "Scale of ?: no strategy may make such a step",
    ),
    "another period": (
        lambda: steps(of(Suspend, period=4)),
        "suspend of VM 0 (4): the step must be of this period",
    ),
    "no reason": (
        lambda: steps(of(Suspend, reason="")),
        "suspend of VM 0: the step must have a reason in words",
    ),
    "start of a running VM": (
        lambda: steps(of(Deploy, host=SECOND)),
        "deploy of VM 0: the VM is running",
    ),
    "start of a VM that waits": (
        lambda: steps(of(Deploy, LATER, host=SECOND)),
        "deploy of VM 6: the VM may get no host in this period",
    ),
    "step in an operation": (
        lambda: steps(of(Terminate, BUSY)),
        "terminate of VM 3: the VM is busy",
    ),
    "resumption of a running VM": (lambda: steps(of(Resume)), "resume of VM 0: the VM is running"),
    "suspension of a saved VM": (
        lambda: steps(of(Suspend, SAVED)),
        "suspend of VM 2: the VM is suspended",
    ),
    "stop of a pending VM": (lambda: steps(of(Stop, WAITS)), "stop of VM 1: the VM is pending"),
    "migration from elsewhere": (
        lambda: steps(of(Migrate, source=SECOND, host=ON)),
        "migrate of VM 0: the VM is not on the host that it is to leave",
    ),
    "migration to its own host": (
        lambda: steps(of(Migrate, source=ON, host=ON)),
        "migrate of VM 0: the VM is there already",
    ),
    "migration of a fixed VM": (
        lambda: steps(of(Migrate, FIXED, **MOVE)),
        "migrate of VM 5: the VM may not be moved",
    ),
    "live migration of a saved VM": (
        lambda: steps(of(Migrate, SAVED, **MOVE)),
        "migrate of VM 2: a VM that does not run can't be moved live",
    ),
    "drained host": (
        lambda: steps(of(Deploy, WAITS, host=DRAINED)),
        "deploy of VM 1: the host takes no VMs",
    ),
    "resumption on a drained host": (
        lambda: steps(of(Resume, SAVED, host=DRAINED)),
        "resume of VM 2: the host takes no VMs",
    ),
    "requirement": (
        lambda: steps(of(Migrate, source=ON, host=FULL)),
        "migrate of VM 0: the host does not meet the VM's requirements",
    ),
    "no room": (
        lambda: steps(of(Deploy, WAITS, host=FULL)),
        "host host4: a VM comes to a host without room for its floor",
    ),
    "circle": (
        waiting_for_each_other,
        "the steps of VMs 0, 2 wait for each other: steps wait for each other",
    ),
    "too few rows": (
        lambda: nothing(allocations=np.zeros((6, 2))),
        (
            "allocations (float64 [6, 2] instead of [7, 2]):"
            " the table must have a number for each row and resource"
        ),
    ),
    "prices of one market": (
        lambda: nothing(prices=np.zeros((1, 2))),
        (
            "prices (float64 [1, 2] instead of [2, 2]):"
            " the table must have a number for each row and resource"
        ),
    ),
    "unknown amount": (
        lambda: amounts(RUNS, np.nan, 0.0),
        "allocations: a number must be at least 0, and not NaN",
    ),
    "negative amount": (
        lambda: amounts(RUNS, -1.0, 0.0),
        "allocations: a number must be at least 0, and not NaN",
    ),
    "infinite amount": (
        lambda: amounts(RUNS, np.inf, 0.0),
        "allocations: an amount must be finite",
    ),
    "unknown price": (
        lambda: nothing(prices=np.full((2, 2), np.nan)),
        "prices: a number must be at least 0, and not NaN",
    ),
    "another market's VM gets something": (
        lambda: amounts(OTHER, 1.0, 0.0),
        "allocation of VM 4: the VM takes no part in its market, and can't get anything",
    ),
    "more than the cap": (
        lambda: amounts(RUNS, 51.0, 0.0),
        "allocation of VM 0: the VM can't get more than its cap",
    ),
    "reason without words": (lambda: nothing(reasons={RUNS: None}), "reasons: each must be words"),
    "reason for nobody": (
        lambda: nothing(reasons={99: "why"}),
        "reasons: each must be for a VM of the cloud",
    ),
    "wish of half a VM": (
        lambda: nothing(wishes=(Scale(application=1, replicas=0.5, reason="half"),)),  # type: ignore[arg-type]
        "wishes: each must be for a whole number of VMs",
    ),
    "memory of objects": (
        lambda: nothing(memory={"array": np.array([object()])}),
        "memory (array of object): an array must have numbers or flags",
    ),
    "memory of NaN": (
        lambda: nothing(memory={"value": float("nan")}),
        "memory (Out of range float values are not JSON compliant): it can't be stored",
    ),
    "memory of a set": (
        lambda: nothing(memory={"value": {1}}),
        "memory (Object of type set is not JSON serializable): it can't be stored",
    ),
    "no memory at all": (
        lambda: nothing(memory=None),
        "memory ('NoneType' object has no attribute 'items'): it can't be stored",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_decision_is_named_in_words(wrong: str) -> None:
    """The text says which step or number is wrong, and why."""
    make, text = WRONG[wrong]
    with pytest.raises(WrongDecisionError) as raised:
        checked_decision(snapshot(), 0, make())
    assert str(raised.value) == text
    assert raised.value.mistake in text


def test_hosts_give_no_more_than_they_have() -> None:
    """VMs on a host that get its capacity twice."""
    seen = snapshot()
    few = np.full(seen.hosts.capacity.shape, 60.0)
    small = replace(seen, hosts=replace(seen.hosts, capacity=few))
    with pytest.raises(WrongDecisionError, match="host host0: its VMs can't get more than it has"):
        checked_decision(small, 0, nothing())


RIGHT: dict[str, Callable[[], Decision]] = {
    "nothing": nothing,
    "start": lambda: steps(of(Deploy, WAITS, host=SECOND)),
    "live migration": lambda: steps(of(Migrate, **MOVE)),
    "cold migration": lambda: steps(of(Migrate, live=False, **MOVE)),
    "migration of a saved VM": lambda: steps(of(Migrate, SAVED, live=False, **MOVE)),
    "suspension": lambda: steps(of(Suspend)),
    "stop": lambda: steps(of(Stop)),
    "resumption": lambda: steps(of(Resume, SAVED)),
    "resumption elsewhere": lambda: steps(of(Resume, SAVED, host=SECOND)),
    "termination": lambda: steps(of(Terminate, WAITS)),
    "sleep": lambda: steps(of(Sleep, -1, host=SECOND)),
    "wake": lambda: steps(of(Wake, -1, host=SECOND)),
    "wake of a host that is gone": lambda: steps(of(Wake, -1, host=99)),
    "no price clears": lambda: nothing(prices=np.full((2, 2), np.inf)),
    "wish": lambda: nothing(wishes=(Scale(application=1, replicas=2, reason="more"),)),
    "memory": lambda: nothing(memory={"a": {"b": [1]}, "c": np.zeros((2, 3), dtype=np.int32)}),
}


@pytest.mark.parametrize("right", RIGHT)
def test_a_right_decision_passes(right: str) -> None:
    """It is returned as it is."""
    decision = RIGHT[right]()
    assert checked_decision(snapshot(), 0, decision) is decision


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(60, 15)))
def test_decisions_of_strategies_pass(strategy: str, seed: int) -> None:
    """In clouds with all constraints, in each of both markets, also with a memory."""
    entry, memory = STRATEGIES[strategy], dict[str, Any]()
    for market in (0, 1):
        seen = view_of_market(tangled(seed), market)
        memory = dict(checked_decision(seen, market, entry.decide(seen, None, memory)).memory)
