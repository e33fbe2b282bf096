"""Merkat with a strategy that creates and ends VMs too, as services above it do.

It requests each creation again in several later periods, regardless of the outcome. The journal
and the adapter must ensure that no VM is created twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID, uuid5

import numpy as np

from merkatd import cli
from merkatd.cluster import Create, Decision, Plan, Snapshot, Step, Terminate, VmState
from merkatd.placement.registry import DEFAULT, STRATEGIES
from tests.daemon.tenants import FIRST_USER

_NAMES = UUID(int=0)
_PREFIX = "made-"
_MOST = 3
_ASKED_AGAIN = 4
_PERIODS_EACH = 3


def decide(
    snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
) -> Decision:
    """Return the default strategy's decision with some creations and ends."""
    decision = _PLAIN.strategy(snapshot, settings, memory, random)
    steps = [*decision.plan, *_creations(snapshot.period), *_ends(snapshot)]
    return replace(decision, plan=Plan.ordered(steps))


def _creations(period: int) -> list[Step]:
    newest = period // _PERIODS_EACH
    return [
        Create(
            period=period,
            reason="one is wanted every few periods",
            key=str(uuid5(_NAMES, str(number))),
            template=f'NAME="{_PREFIX}{number}"\nCPU="0.25"\nVCPU="1"\nMEMORY="256"',
            owner=FIRST_USER,
        )
        for number in range(max(newest - _ASKED_AGAIN, 0), newest + 1)
    ]


def _ends(snapshot: Snapshot) -> list[Step]:
    """Return ends of the oldest created VMs if there are many."""
    made = [
        int(vm)
        for vm, name, state in zip(
            snapshot.vms.id, snapshot.vms.name, snapshot.vms.state, strict=True
        )
        if name.startswith(_PREFIX) and state == VmState.RUNNING
    ]
    return [
        Terminate(period=snapshot.period, vm=vm, reason="enough of them")
        for vm in made[: max(len(made) - _MOST, 0)]
    ]


_PLAIN = STRATEGIES[DEFAULT]


def main(words: Sequence[str]) -> int:
    """Run a command of merkatd with this strategy, in a process used for nothing else."""
    cast("dict[str, Any]", STRATEGIES)[DEFAULT] = replace(_PLAIN, strategy=decide)
    return cli.main(words)
