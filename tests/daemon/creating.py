"""Merkat with a strategy that ends VMs too, and a service that creates them.

The service requests each creation again in several later periods, regardless of the outcome. The
journal and the adapter must ensure that no VM is created twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any, cast
from uuid import UUID, uuid5

import numpy as np

from merkatd import cli
from merkatd.cluster import Create, Decision, Plan, Snapshot, Step, Terminate, VmState
from merkatd.daemon import assembly
from merkatd.database.base.transactions import Transactions
from merkatd.placement.registry import DEFAULT, STRATEGIES
from merkatd.scheduler.context import all_proposals
from merkatd.scheduler.observation.observed import Observed
from tests.daemon.tenants import FIRST_USER

_NAMES = UUID(int=0)
_PREFIX = "made-"
_MOST = 3
_ASKED_AGAIN = 4
_PERIODS_EACH = 3
_in_use = Event()
"""Whether the strategy has decided in this process."""


def decide(
    snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
) -> Decision:
    """Return the default strategy's decision, with ends of VMs in place of other steps for them."""
    _in_use.set()
    decision = _PLAIN.strategy(snapshot, settings, memory, random)
    ends = _ends(snapshot)
    ended = {step.vm for step in ends}
    others = [step for step in decision.plan if step.vm not in ended]
    return replace(decision, plan=Plan.ordered([*others, *ends]))


async def creations(_database: Transactions, observed: Observed) -> Sequence[Step]:
    """Return the creations that are wanted in this period, if a market has the strategy."""
    period = observed.period
    if not _in_use.is_set():
        return ()
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
    """Run a command of merkatd with both, in a process used for nothing else."""
    cast("dict[str, Any]", STRATEGIES)[DEFAULT] = replace(_PLAIN, strategy=decide)
    cast("Any", assembly).all_proposals = partial(all_proposals, creations)
    return cli.main(words)
