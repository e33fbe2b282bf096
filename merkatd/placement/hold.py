"""Hold time: a VM that was migrated stays where it is for a while, so that nothing ping-pongs.

Only a migration that was seen to end holds its VM. A step that was refused, given up or never
sent holds nothing: the next period may decide it anew.
"""

import numpy as np

from merkatd.cluster import Bools, Snapshot


def held(snapshot: Snapshot, hold_s: float) -> Bools:
    """Return [vms] of the snapshot: whether a VM was moved less than `hold_s` seconds ago.

    A migration that a clock dated further ahead holds nothing.
    """
    recently: Bools = np.abs(snapshot.now_s - snapshot.vms.moved_at_s) < hold_s
    return recently
