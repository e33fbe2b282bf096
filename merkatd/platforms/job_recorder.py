"""The recorder of jobs: it stores their runs after each period, and ends jobs that are done.

It follows the announcements of periods, so a slow or failing record never delays one. What could
not be stored is stored after a later period; a daemon that dies loses a period at most.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.base.quantities import amount_text
from merkatd.database.base.transactions import Transactions
from merkatd.database.fleets import job_run_store, platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.fleets.job_run_store import EndedRun, JobRun
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.platforms.declared_applications import DeclaredApplications
from merkatd.platforms.lifecycle.application_state import template_key
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.lifecycle.transitions import MANAGER, record_transition
from merkatd.platforms.profiles.job_runs import (
    MeasuredJob,
    RunPart,
    RunParts,
    advanced,
    known_profile,
    stages_of,
)
from merkatd.platforms.rules.lifecycle_events import (
    ATTENDED,
    Event,
    LifecycleEvent,
    PlatformState,
)
from merkatd.platforms.rules.made_iterations import all_finished
from merkatd.policies.job_profile import ProfiledStage
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.leadership import Leadership
from merkatd.scheduler.phases.announce import Announcement

_log = Logger()
_WARNING: Final = "warning"
PARTIAL_RUN: Final = ""
"""The key of a run whose beginning was not measured: it gives no profile."""


class JobRecorder:
    """Records the runs of all jobs."""

    def __init__(
        self,
        declared: DeclaredApplications,
        context: Callable[[], PeriodContext],
        leading: Leadership | None = None,
    ) -> None:
        """Begin without any record.

        `context` returns the present context, whose clock never jumps. `leading` knows whether this
        daemon may act; without it, this is the only daemon.
        """
        self._declared = declared
        self._context = context
        self._leading = leading
        self._parts = RunParts(self._ticks)
        self._busy = False
        self._warned: set[int] = set()
        """The platforms with a VM whose impossible number was reported."""

    def _ticks(self) -> float:
        return self._context().clock.seconds()

    def after_period(self, announcement: Announcement) -> None:
        """Note what jobs did in a period, and store it without making the caller wait."""
        jobs = self._declared.jobs()
        interval_s = self._context().rhythm.interval_s
        self._parts.note(announcement.seen.snapshot, interval_s, jobs)
        if not self._busy:
            ensureDeferred(self._record(jobs, may_act=not announcement.mode.watches))

    async def _record(self, jobs: Mapping[int, MeasuredJob], *, may_act: bool) -> None:
        self._busy = True
        parts = self._parts.take()
        try:
            await self._store(parts)
        except Exception as error:  # noqa: BLE001 - a later period stores it
            self._parts.give_back(parts)
            _log.warn("The runs of jobs could not be stored: {error}", error=str(error))
        else:
            if may_act:
                await self._judge(jobs)
        finally:
            self._busy = False

    async def _store(self, parts: Mapping[int, RunPart]) -> None:
        context = self._context()
        new, over = await context.database.read(partial(_look, jobs=parts.keys()))
        found: list[tuple[EndedRun, Sequence[ProfiledStage]]] = [
            (ended, await context.executor.run(partial(stages_of, ended))) for ended in over
        ]
        if new or found or parts:
            await self._acting().run(partial(_write, new=new, parts=parts, over=found))

    async def _judge(self, jobs: Mapping[int, MeasuredJob]) -> None:
        """End the jobs that are done, and report impossible numbers of iterations."""
        at_s = self._context().now()
        try:
            self._warned &= jobs.keys()
            near = {
                each: job.ends_after for each, job in jobs.items() if job.ends_after is not None
            }
            done = await self._context().database.read(partial(_done, jobs=near)) if near else ()
            for platform in done:
                work = partial(_end_if_done, platform=platform, steps=near[platform], at_s=at_s)
                await self._acting().run(work)
            for platform, job in jobs.items():
                if job.vms.refused and platform not in self._warned:
                    self._warned.add(platform)
                    await self._warn(platform, job.vms.refused, at_s)
        except Exception as error:  # noqa: BLE001 - a later period judges again
            _log.warn("Jobs could not be checked for their end: {error}", error=str(error))

    async def _warn(self, platform: int, numbers: Mapping[int, float], at_s: float) -> None:
        vm = min(numbers)
        others = f", and {len(numbers) - 1} more VMs" if len(numbers) > 1 else ""
        text = (
            f"VM {vm} reports {amount_text(numbers[vm])} iterations{others}: this is impossible,"
            " and counts as none"
        )
        _log.warn("Platform {platform}: {text}", platform=platform, text=text)
        doing = PlatformAction(platform=platform, at_s=at_s, who=MANAGER, what=_WARNING, text=text)
        await self._acting().run(lambda c: platform_store.replace_action(c, doing))

    def _acting(self) -> Transactions:
        """Return the database for writes of the leader; they raise LeaseLostError in others."""
        database = self._context().database
        return database if self._leading is None else self._leading.fenced(database)


def _look(
    connection: sa.Connection, jobs: Collection[int]
) -> tuple[tuple[JobRun, ...], tuple[EndedRun, ...]]:
    """Return the runs that begin now, and those that are over."""
    known = job_run_store.living(connection, jobs)
    begun = platform_store.ids_in(connection, set(jobs) - known.keys(), ATTENDED)
    new = []
    for platform in platform_store.of_ids(connection, begun):
        key = template_key(parsed(platform.template), platform.vm_templates)
        profile = known_profile(connection, platform.owner, key)
        new.append(
            JobRun(
                platform=platform.id,
                owner=platform.owner,
                template=key if platform.first_ran_s is None else PARTIAL_RUN,
                profile=profile.stages,
                from_runs=profile.runs,
            )
        )
    return tuple(new), job_run_store.ended(connection)


def _write(
    connection: sa.Connection,
    new: Sequence[JobRun],
    parts: Mapping[int, RunPart],
    over: Sequence[tuple[EndedRun, Sequence[ProfiledStage]]],
) -> None:
    job_run_store.add(connection, new)
    runs = job_run_store.living(connection, parts)
    after = {each: advanced(run, parts[each]) for each, run in runs.items()}
    job_run_store.advance(connection, [run for each, run in after.items() if run != runs[each]])
    job_run_store.end(connection, over)


def _done(connection: sa.Connection, jobs: Collection[int]) -> list[int]:
    """Return those of these platforms of which each VM has made all iterations."""
    rows = platform_store.of_ids(connection, jobs)
    return [row.id for row in rows if _is_done(connection, row)]


def _is_done(connection: sa.Connection, platform: PlatformRow) -> bool:
    if platform.state != PlatformState.RUNNING:
        return False
    run = job_run_store.of_platform(connection, platform.id)
    members = PLATFORM_VMS.living(connection, platform.id)
    vms = [member.vm for member in members if not member.leaving]
    wanted = sum(platform.sizes.values())
    return run is not None and all_finished(run.finished, vms, wanted)


def _end_if_done(connection: sa.Connection, platform: int, steps: float, at_s: float) -> None:
    """End a platform if each of its VMs has made all iterations, still when its row is locked."""
    row = platform_store.locked(connection, platform)
    if row is not None and _is_done(connection, row):
        why = f"each of its VMs has made all {amount_text(steps)} iterations"
        event = LifecycleEvent(event=Event.STOP, why=why, ending=PlatformState.DONE)
        record_transition(connection, row, event, at_s)
