"""Looks at VMs, as the tests of their running time need them."""

from typing import Any

import numpy as np

from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import GuestRecord
from merkatd.scheduler.observation.looks import Look

NEVER = GuestRecord(-1)


def looked(at_s: float, *vms: tuple[int, bool, GuestRecord], ended: Any = None) -> Look:
    """Return a look at VMs: their ids, whether each runs, and their last records."""
    return Look(
        at_s,
        np.array([vm for vm, _, _ in vms], dtype=np.int64),
        np.array([runs for _, runs, _ in vms], dtype=bool),
        LastRecords.of({vm: record for vm, _, record in vms} | (ended or {})),
    )
