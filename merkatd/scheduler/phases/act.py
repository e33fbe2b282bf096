"""Acting: the only module that sends steps; each step is in the journal before it is sent.

Hosts answer their steps at once (limits, pins, balloons, throttles), and the answer is final.
OpenNebula's steps take time: such a step stays sent, whatever the answer was, until a later
observation shows its outcome. A step that depends on an unfinished step is not sent in this period;
the next period decides again.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial

from twisted.logger import Logger

from merkatd.cluster import Deploy, Migrate, OnHost, Step
from merkatd.database.scheduler import journal, period_store
from merkatd.placement.changes.migration_waves import migration_waves
from merkatd.placement.changes.plan_changes import ready_steps
from merkatd.scheduler.base.ports import ReplyKind
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.decide import PeriodDecision
from merkatd.scheduler.phases.requests import RequestTally, send_requests

_log = Logger()

_COMES = Deploy | Migrate


@dataclass(frozen=True, slots=True)
class Acted:
    """The results of a period's steps."""

    sent: int
    refused: int
    postponed: int
    not_done: Mapping[str, str] = field(default_factory=dict)
    """By step id: `refused` or `postponed`; all other steps were sent."""
    refusals: Mapping[int, str] = field(default_factory=dict)
    """By id of each waiting VM: why OpenNebula refused to deploy it."""
    unplaced: Mapping[int, str] = field(default_factory=dict)
    """The same, with VMs that left their waiting state, but without refusals because of a host."""
    unmoved: bool = False
    """Whether a migration was refused, or not sent after one without an answer: the limits on its
    hosts are those for the VM's move."""


async def act(
    context: PeriodContext,
    observed: Observed,
    decided: PeriodDecision,
    elsewhere: AbstractSet[str] = frozenset(),
    retries: Mapping[str, Deploy] | None = None,
) -> Acted:
    """Apply the steps on hosts, then ask OpenNebula for all steps that are ready.

    Other software carries out the steps in `elsewhere`. `retries` restart VMs that failed to boot.
    """
    done: set[str] = set()
    aside = context.executor.run
    # A period can have a step for each of a hundred thousand VMs. So loops over all steps run
    # outside the reactor, which meanwhile answers other requests.
    steps, on_hosts = await aside(lambda: _sorted_out(decided.steps, elsewhere))
    refused = await _tell_hosts(context, on_hosts, done)
    ready, late = await aside(lambda: ready_steps(steps.values(), done, refused))
    at_s = context.now()
    await context.database.run(lambda connection: journal.expire(connection, late, at_s))
    again = retries or {}
    known = await aside(lambda: _known(observed, [*decided.steps, *again.values()]))
    sent_now, plan = list(ready.values()), decided.decision.plan
    in_waves = await context.executor.run(
        lambda: migration_waves(context.markets, observed.snapshot, plan, sent_now)
    )
    asked = await send_requests(context, {**ready, **again}, known, again.keys(), in_waves)
    at_s = context.now()
    await context.database.run(
        lambda connection: period_store.acted(connection, observed.period, at_s)
    )
    sent = len(done) + len(elsewhere) + len(ready) + len(again) - len(asked.never_sent)
    return await aside(lambda: _acted(sent, refused, late, {**ready, **again}, again.keys(), asked))


def _acted(
    sent: int,
    refused: AbstractSet[str],
    late: Mapping[str, str],
    steps: Mapping[str, Step],
    again: AbstractSet[str],
    asked: RequestTally,
) -> Acted:
    turned_down, put_off = refused | asked.refused.keys(), late.keys() | asked.never_sent
    not_done = dict.fromkeys(put_off, "postponed") | dict.fromkeys(turned_down, "refused")
    refusals = _refusals(steps, asked.refused)
    unplaced = {
        steps[step_id].vm: asked.refused[step_id]
        for step_id in asked.by_its_vm - again
        if steps[step_id].kind == Deploy.kind
    }
    unmoved = asked.broken_off or any(
        steps[step_id].kind == Migrate.kind for step_id in asked.refused
    )
    return Acted(sent, len(turned_down), len(put_off), not_done, refusals, unplaced, unmoved)


def _sorted_out(
    decided: Sequence[Step], elsewhere: AbstractSet[str]
) -> tuple[dict[str, Step], dict[str, OnHost]]:
    """Return this daemon's steps, by step id, and those of them that hosts carry out."""
    steps = {step.id: step for step in decided if step.id not in elsewhere}
    return steps, {step_id: step for step_id, step in steps.items() if isinstance(step, OnHost)}


def _refusals(steps: Mapping[str, Step], why: Mapping[str, str]) -> dict[int, str]:
    """Return the refusals that a further observation would not change, for waiting VMs."""
    return {
        steps[step_id].vm: f"OpenNebula does not deploy it; {words}"
        for step_id, words in why.items()
        if steps[step_id].kind == Deploy.kind and words.startswith(ReplyKind.REFUSED)
    }


def _known(observed: Observed, steps: Sequence[Step]) -> Mapping[int, set[int]]:
    """Return, by host id, the VMs that were seen there, are unreadable, or on their way there."""
    known: dict[int, set[int]] = {host: set(observed.observation.ailing) for host in _ids(observed)}
    places = zip(
        observed.observation.vm_host.tolist(), observed.observation.vm_id.tolist(), strict=True
    )
    under_way = [stored.step for stored in observed.verdicts.waiting]
    coming = [(step.host, step.vm) for step in (*steps, *under_way) if isinstance(step, _COMES)]
    for host, vm in (*places, *coming):
        known.setdefault(host, set()).add(vm)
    return known


def _ids(observed: Observed) -> list[int]:
    host_ids: list[int] = observed.observation.host_id.tolist()
    return host_ids


async def _tell_hosts(
    context: PeriodContext, steps: Mapping[str, OnHost], done: set[str]
) -> set[str]:
    """Apply host steps in waves; a wave starts when every step it depends on is done."""
    refused: set[str] = set()
    waiting = steps
    while True:
        ready, waiting = await context.executor.run(partial(_wave_of, waiting, done))
        if not ready:
            return refused
        refused |= await _wave(context, ready, done)


def _wave_of(
    steps: Mapping[str, OnHost], done: AbstractSet[str]
) -> tuple[dict[str, OnHost], dict[str, OnHost]]:
    """Return the steps whose dependencies are done, and the others."""
    ready: dict[str, OnHost] = {}
    waiting: dict[str, OnHost] = {}
    for step_id, step in steps.items():
        (ready if all(first in done for first in step.after) else waiting)[step_id] = step
    return ready, waiting


async def _wave(context: PeriodContext, steps: Mapping[str, OnHost], done: set[str]) -> set[str]:
    at_s = context.now()
    await context.database.run(lambda connection: journal.mark_sent(connection, steps, at_s))
    await context.certain()
    why = await context.hypervisors.apply(list(steps.values()))
    fine = await context.executor.run(lambda: [step_id for step_id in steps if step_id not in why])
    at_s = context.now()
    await context.database.run(lambda connection: journal.confirm(connection, fine, at_s))
    await context.database.run(lambda connection: journal.refuse(connection, why, at_s))
    for step_id, reason in why.items():
        _log.warn("A host refused step {step}: {why}", step=step_id, why=reason)
    done.update(fine)
    return set(why)
