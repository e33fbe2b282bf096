"""What the jobs of VMs declare of their ends: deadlines, and the time that they still need."""

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_ROW, rows_of


def deadlines_s(snapshot: Snapshot, rows: Ints) -> Floats:
    """Return the deadline of the job of each VM; infinite without one."""
    goals = np.append(np.nan_to_num(snapshot.jobs.goal_s, nan=np.inf), np.inf)
    return goals[_jobs_of(snapshot, rows)]


def remaining_s(snapshot: Snapshot, rows: Ints) -> Floats:
    """Return the time that the job of each VM needs at its greatest speed; infinite without one."""
    jobs, stages = snapshot.jobs, snapshot.stages
    left_s = np.zeros(len(jobs) + 1)
    left_s[-1] = np.inf
    done = jobs.work_done.copy()
    for stage, job in enumerate(stages.job.tolist()):
        finished = min(float(done[job]), float(stages.work[stage]))
        done[job] -= finished
        rest, speed = float(stages.work[stage]) - finished, float(stages.greatest_speed[stage])
        left_s[job] += 0.0 if rest <= 0 else rest / speed if speed > 0 else np.inf
    return left_s[_jobs_of(snapshot, rows)]


def _jobs_of(snapshot: Snapshot, rows: Ints) -> Ints:
    """Return the row of each VM's job; -1 without one."""
    if not len(snapshot.jobs):
        return np.full(len(rows), NO_ROW)
    application = snapshot.vms.application[rows]
    found: Ints = np.where(
        application == NO_ROW, NO_ROW, rows_of(snapshot.jobs.application, application)
    )
    return found
