"""Hold time: a VM that was migrated stays where it is for a while, so that nothing ping-pongs.

OpenNebula keeps no record of when a VM was moved, so the strategy's memory does; where the
snapshot knows better, the later of the two counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Migrate, Plan, Snapshot

MEMORY_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The VMs that were moved not long ago."""

    vms: Bools
    """[vms] of the snapshot."""
    moved_at_s: Mapping[int, float]
    """By VM id, those alone whose hold time has not passed."""

    @classmethod
    def recall(cls, snapshot: Snapshot, memory: Mapping[str, Any], hold_s: float) -> "Held":
        """What the memory and the snapshot know; a memory of another version knows nothing."""
        known = memory.get("moved_at_s", {}) if memory.get("version") == MEMORY_VERSION else {}
        moved_at_s = snapshot.vms.moved_at_s.copy()
        ids = snapshot.vms.id
        for text, at_s in known.items():
            row = int(np.searchsorted(ids, int(text)))
            if row < len(ids) and ids[row] == int(text):
                moved_at_s[row] = np.fmax(moved_at_s[row], at_s)
        held = snapshot.now_s - moved_at_s < hold_s
        rows = np.flatnonzero(held)
        return cls(held, dict(zip(ids[rows].tolist(), moved_at_s[rows].tolist(), strict=True)))

    def remember(self, snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
        """The memory for the next period, as JSON has it: the held ones and those moved now."""
        moved = dict(self.moved_at_s)
        moved.update({step.vm: snapshot.now_s for step in plan.of(Migrate)})
        return {
            "version": MEMORY_VERSION,
            "moved_at_s": {str(vm): at_s for vm, at_s in sorted(moved.items())},
        }
