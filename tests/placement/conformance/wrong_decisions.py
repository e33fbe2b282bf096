"""Decisions that each break one rule, and decisions that break none."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import (
    Balloon,
    Decision,
    Deploy,
    HostState,
    Migrate,
    Plan,
    Requirements,
    Resume,
    RolePolicy,
    Roles,
    Scale,
    Snapshot,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.cluster.plan import Sleep, Step, Wake
from tests.clouds import cloud, hosts_table, vms_table

ON, SPARE, DRAINED, FULL, ASLEEP = range(5)
"""The hosts of the cloud of all kinds."""
RUNS, WAITS, SAVED, BUSY, FIXED, LATER = range(6)
"""Its VMs; RUNS and WAITS must be on different hosts."""


def all_kinds() -> Snapshot:
    """Return a cloud with a VM and a host of each kind."""
    states = (
        VmState.RUNNING,
        VmState.PENDING,
        VmState.SUSPENDED,
        VmState.BUSY,
        VmState.RUNNING,
        VmState.PENDING,
    )
    room = np.array([[100.0, 100.0], [400.0, 100.0], [400.0, 100.0], [400.0, 5.0], [0.0, 0.0]])
    hosts = (HostState.ON, HostState.ON, HostState.DRAINED, HostState.ON, HostState.OFF)
    return cloud(
        hosts_table(
            room,
            state=np.array(list(map(int, hosts))),
            can_sleep=np.array([True, True, False, False, True]),
            asleep=np.array([False] * 4 + [True]),
        ),
        vms_table(
            [ON, -1, ON, ON, ON, -1],
            np.ones((6, 2)),
            [[50.0, 10.0]] * 6,
            floor=np.tile([0.0, 10.0], (6, 1)),
            state=np.array(list(map(int, states))),
            movable=np.array([True] * 4 + [False, True]),
            placeable=np.array([True] * 5 + [False]),
            requirement=np.array([0] + [-1] * 5),
            role=np.array([0, 0] + [-1] * 4),
            application=np.array([7] + [-1] * 5),
        ),
        requirements=Requirements(
            name=("ssd",), allowed=np.array([[True, True, False, False, True]])
        ),
        roles=Roles(name=("db",), policy=np.array([int(RolePolicy.APART)])),
        period=5,
    )


def right(*steps: Step, **changes: Any) -> Decision:
    """Return a decision that breaks no rule, with these steps and changes."""
    given = np.zeros((6, 2))
    given[[RUNS, FIXED]], given[[SAVED, BUSY]] = [50.0, 10.0], [0.0, 10.0]
    starts = {step.vm for step in steps if isinstance(step, Deploy)}
    reasons = {} if WAITS in starts else {WAITS: "it has to wait"}
    return replace(Decision(Plan(steps), given, np.zeros((1, 2)), reasons), **changes)


def of(kind: type[Step], vm: int = RUNS, **more: Any) -> Step:
    """Return a step of this period."""
    values: dict[str, Any] = {"period": 5, "vm": vm, "reason": "as a test", **more}
    return kind(**values)


def given(vm: int, *amounts: float) -> Decision:
    """Return the decision that gives this VM other amounts."""
    table = right().allocations.copy()
    table[vm] = amounts
    return right(allocations=table)


def _too_early() -> Decision:
    first = of(Suspend)
    return right(of(Resume, SAVED, after=(first.id,)), first)


_MOVE: Mapping[str, Any] = {"source": ON, "host": SPARE}

WRONG_DECISIONS: Mapping[str, tuple[Callable[[], Decision], ...]] = {
    "only_known_things": (
        lambda: right(of(Suspend, 99)),
        lambda: right(of(Deploy, WAITS, host=99)),
        lambda: right(of(Wake, -1, host=99)),
    ),
    "only_steps_of_strategies": (lambda: right(of(Balloon, memory_mib=64)),),
    "one_step_each": (
        lambda: right(of(Suspend), of(Terminate)),
        lambda: right(of(Sleep, -1, host=SPARE), of(Sleep, -1, host=SPARE)),
    ),
    "in_order": (_too_early,),
    "reasons_in_words": (
        lambda: right(of(Suspend, reason="why not")),
        lambda: right(of(Suspend, reason="")),
        lambda: right(wishes=(Scale(application=7, replicas=2, reason="more"),)),
    ),
    "deployments": (lambda: right(of(Deploy, LATER, host=SPARE)),),
    "live_migrations": (
        lambda: right(of(Migrate, SAVED, **_MOVE)),
        lambda: right(of(Migrate, FIXED, **_MOVE)),
        lambda: right(of(Migrate, source=SPARE, host=ON)),
    ),
    "cold_migrations": (
        lambda: right(of(Migrate, BUSY, live=False, **_MOVE)),
        lambda: right(of(Migrate, FIXED, live=False, **_MOVE)),
    ),
    "suspensions": (lambda: right(of(Suspend, SAVED)),),
    "stops": (lambda: right(of(Stop, WAITS)), lambda: right(of(Stop, BUSY))),
    "terminations": (lambda: right(of(Terminate, BUSY)),),
    "resumptions": (lambda: right(of(Resume)), lambda: right(of(Resume, BUSY))),
    "hosts_that_take_vms": (
        lambda: right(of(Deploy, WAITS, host=DRAINED)),
        lambda: right(of(Resume, SAVED, host=DRAINED)),
        lambda: right(of(Migrate, SAVED, source=ON, host=DRAINED, live=False)),
    ),
    "room_for_floors": (
        lambda: right(of(Deploy, WAITS, host=FULL)),
        lambda: right(of(Resume, SAVED, host=FULL)),
    ),
    "groups_of_vms": (lambda: right(of(Deploy, WAITS, host=ON)),),
    "sleep": (
        lambda: right(of(Sleep, -1, host=ON)),
        lambda: right(of(Sleep, -1, host=DRAINED)),
        lambda: right(of(Sleep, -1, host=SPARE), of(Deploy, WAITS, host=SPARE)),
        lambda: right(of(Sleep, -1, host=SPARE), of(Resume, SAVED, host=SPARE)),
    ),
    "wake": (lambda: right(of(Wake, -1, host=SPARE)),),
    "scale": (
        lambda: right(wishes=(Scale(application=8, replicas=2, reason="its queue grows"),)),
        lambda: right(wishes=(Scale(application=7, replicas=-1, reason="its queue shrinks"),)),
    ),
    "finite_amounts": (
        lambda: given(RUNS, np.nan, 0.0),
        lambda: given(RUNS, np.inf, 0.0),
        lambda: given(RUNS, -1.0, 0.0),
        lambda: given(RUNS, 51.0, 0.0),
        lambda: given(LATER, 1.0, 0.0),
    ),
    "amounts_of_hosts": (lambda: given(BUSY, 50.0, 10.0),),
    "prices": (
        lambda: right(prices=np.full((1, 2), np.nan)),
        lambda: right(prices=np.zeros((2, 2))),
        lambda: right(prices=np.full((1, 2), -1.0)),
    ),
    "reasons_of_waiting_vms": (
        lambda: right(reasons={}),
        lambda: right(of(Deploy, WAITS, host=SPARE), reasons={WAITS: "it has to wait"}),
    ),
}
"""By rule: decisions for the cloud of all kinds that break it."""

ALSO: Mapping[str, frozenset[str]] = {"finite_amounts": frozenset({"amounts_of_hosts"})}
"""Further rules that a decision for the first one breaks."""

RIGHT_DECISIONS: Mapping[str, Callable[[], Decision]] = {
    "none": right,
    "deploy": lambda: right(of(Deploy, WAITS, host=SPARE)),
    "live": lambda: right(of(Migrate, **_MOVE)),
    "cold": lambda: right(of(Migrate, live=False, **_MOVE)),
    "cold, saved": lambda: right(of(Migrate, SAVED, live=False, **_MOVE)),
    "suspend": lambda: right(of(Suspend)),
    "stop": lambda: right(of(Stop)),
    "terminate": lambda: right(of(Terminate, WAITS)),
    "resume": lambda: right(of(Resume, SAVED)),
    "resume elsewhere": lambda: right(of(Resume, SAVED, host=SPARE)),
    "sleep": lambda: right(of(Sleep, -1, host=SPARE)),
    "wake": lambda: right(of(Wake, -1, host=ASLEEP)),
    "scale": lambda: right(wishes=(Scale(application=7, replicas=3, reason="its queue grows"),)),
}
"""Decisions with a step of each kind that break no rule."""
