"""What a platform declares of its application, and the application's state, in words."""

import math
from dataclasses import replace

import sqlalchemy as sa

from merkatd.base.quantities import amount_text, duration_text, utc_text
from merkatd.cluster import Snapshot, VmState
from merkatd.cluster.columns import row_of
from merkatd.database.fleets import job_run_store
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.platforms.declarations.application_terms import (
    ApplicationTerms,
    JobTerms,
    ServiceTerms,
)
from merkatd.platforms.lifecycle.application_state import goal_s, template_key
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.profiles.job_runs import KnownProfile, known_profile, stage_terms


def declaration_text(
    connection: sa.Connection, terms: ApplicationTerms, platform: PlatformRow
) -> str:
    """Return what the platform declares, in short, or what earlier runs show of it."""
    if isinstance(terms, JobTerms):
        source = ""
        if not terms.stages:
            terms, runs = _profiled(connection, terms, platform)
            source = f", from {runs} earlier run{'s' if runs > 1 else ''}"
        count = len(terms.stages)
        stages = f"in {count} stage{'s' if count > 1 else ''}{source}"
        work = f"{amount_text(terms.work)} core-seconds {stages}" if count else "unknown work"
        end_s = goal_s(terms, platform.submitted_s, platform.deadline_s)
        return f"job: {work}" + ("" if end_s is None else f", goal {utc_text(end_s)}")
    if isinstance(terms, ServiceTerms):
        return (
            f"service: answers within {duration_text(terms.response_goal_s)}, measured in cluster"
            f" {terms.cluster}"
        )
    return (
        f"replicated: {terms.tasks} live tasks for {duration_text(terms.run_time_s)} with"
        f" reliability {terms.reliability:g}"
    )


def _profiled(
    connection: sa.Connection, terms: JobTerms, platform: PlatformRow
) -> tuple[JobTerms, int]:
    """Return a job's terms with the stages from earlier runs, and the number of these runs.

    Once its run has begun, they are those that were known then.
    """
    run = job_run_store.of_platform(connection, platform.id)
    if run is None:
        key = template_key(parsed(platform.template), platform.vm_templates)
        known = known_profile(connection, platform.owner, key)
    else:
        known = KnownProfile(run.profile, run.from_runs)
    return replace(terms, stages=stage_terms(known.stages)), known.runs


def state_text(terms: ApplicationTerms, account: int | None, snapshot: Snapshot | None) -> str:
    """Return the state of an application in the snapshot of the latest period."""
    if snapshot is None or account is None or not (snapshot.vms.application == account).any():
        return "no VM of it exists yet"
    if isinstance(terms, JobTerms):
        return _job(account, snapshot)
    if isinstance(terms, ServiceTerms):
        return _service(account, snapshot)
    vms = snapshot.vms
    live = int(((vms.application == account) & (vms.state == VmState.RUNNING)).sum())
    return f"{live} of {terms.tasks} needed tasks run"


def _job(account: int, snapshot: Snapshot) -> str:
    row = row_of(snapshot.jobs.application, account)
    work = 0.0 if row is None else float(snapshot.stages.work[snapshot.stages.job == row].sum())
    done = 0.0 if row is None else float(snapshot.jobs.work_done[row])
    if row is None or done == 0.0:
        return "its progress is unknown"
    part = f"{done / work:.0%} of its work is done"
    started_s = float(snapshot.jobs.started_s[row])
    return part if math.isnan(started_s) else f"{part}, started {utc_text(started_s)}"


def _service(account: int, snapshot: Snapshot) -> str:
    services = snapshot.services
    row = row_of(services.application, account)
    known = []
    if row is not None and not math.isnan(services.arrivals_per_s[row]):
        known.append(f"{amount_text(services.arrivals_per_s[row])} requests per second")
    if row is not None and not math.isnan(services.response_s[row]):
        known.append(f"answered in {duration_text(services.response_s[row])}")
    return ", ".join(known) or "its monitor has not reported its requests lately"
