"""Saved VMs that a strategy may resume, in markets whose strategies state what each VM gets.

See Note [Who resumes a VM] in `merkatd/placement/changes/saved_vms.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from merkatd.cluster import Snapshot
from merkatd.cluster.columns import is_one_of
from merkatd.database.vm_history_store import VmHistories
from merkatd.placement.changes.saved_vms import rests_under_own
from merkatd.scheduler.base.settings import MarketRules

_DOWN = frozenset({"suspending", "suspended", "stopping", "done", "cancelled", "failed"})
"""The states of platforms whose VMs must not run."""


def with_resumable_vms(
    snapshot: Snapshot, markets: Sequence[MarketRules], histories: VmHistories
) -> Snapshot:
    """Return the cloud in which strategies must not resume VMs that others keep saved."""
    rests = rests_under_own(snapshot, [market.entry for market in markets])
    if not rests.any():
        return snapshot
    vms = snapshot.vms
    resumable = [vm for vm, state in histories.saved.items() if state not in _DOWN]
    kept = rests & ~is_one_of(vms.id, resumable)
    return replace(snapshot, vms=replace(vms, placeable=vms.placeable & ~kept))
