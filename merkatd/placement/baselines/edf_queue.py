"""Baseline `edf`: the VM whose job has the earliest deadline first; those without one last.

A VM without room is passed over. VMs that run are not displaced.
"""

import numpy as np

from merkatd.placement.baselines.job_ends import deadlines_s
from merkatd.placement.baselines.size_fitting import SizeRoom, first_host, in_order


def edf(room: SizeRoom) -> None:
    """Place VMs in order of deadlines, and then of arrival."""
    rows = room.problem.view.vms[room.queue]
    due_s = deadlines_s(room.problem.snapshot, rows)
    order = room.queue[np.argsort(due_s, kind="stable")]
    in_order(room, order, first_host, "is the first host with room, in order of deadlines")
