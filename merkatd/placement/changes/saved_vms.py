"""Resumptions that are taken out of a plan: of VMs that their owners or platforms keep saved.

# Note [Who resumes a VM]

A strategy that states what each VM gets suspends, stops and resumes VMs. It may resume those that a
step has saved, but not those that their owners have suspended, stopped or powered off, nor those of
a platform that is suspended or ends. Those have `placeable` false, and steps that resume them are
taken out, in the daemon and in a decision from a file. A strategy may still move them: they stay
saved.

In all other markets platforms and limit orders resume their VMs.
"""

from collections.abc import Collection, Sequence

import numpy as np

from merkatd.cluster import RESTING, Bools, Plan, Resume, Snapshot, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.placement.changes.plan_changes import ChangedPlan, permitted_steps
from merkatd.placement.contract import Allocation, StrategyEntry

_WHY = "its owner or its platform keeps it saved"


def without_resumptions(
    snapshot: Snapshot,
    strategies: Sequence[StrategyEntry],
    plan: Plan,
    proposed: Collection[int] = (),
) -> ChangedPlan:
    """Return the plan without steps of strategies that resume VMs which others keep saved.

    `strategies` are those of the markets, in order. VMs with a `proposed` step of a platform have
    no step of a strategy.
    """
    if not plan.of(Resume):
        return ChangedPlan(plan)
    vms = snapshot.vms
    kept = rests_under_own(snapshot, strategies) & ~vms.placeable & ~is_one_of(vms.id, proposed)
    ids = frozenset(vms.id[kept].tolist())
    left = [step.vm for step in plan.of(Resume) if step.vm in ids]
    if not left:
        return ChangedPlan(plan)
    steps = permitted_steps(plan, lambda step: not isinstance(step, Resume) or step.vm not in ids)
    return ChangedPlan(Plan(tuple(steps)), dict.fromkeys(left, _WHY))


def rests_under_own(snapshot: Snapshot, strategies: Sequence[StrategyEntry]) -> Bools:
    """Return [vms]: whether the VM is saved, off or held, and its strategy states amounts."""
    vms = snapshot.vms
    rows = [row for row, entry in enumerate(strategies) if entry.allocates is Allocation.OWN]
    if not rows:
        return np.zeros(len(vms), dtype=bool)
    return is_one_of(vms.state, (*RESTING, VmState.ABSENT)) & is_one_of(vms.market, rows)
