"""The execution of a decision in each mode, with another attempt for failed boots.

OpenNebula keeps a VM that failed to boot charged to its host and waits for a recovery. Recreating
it would lose the data on its disks, so the daemon only retries the boot. It retries only if the
VM's floor fits on the host beside the floors of all other VMs and the memory that their balloons
still hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import Deploy, Floats, Migrate, Step, VmState
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import StoredPlan
from merkatd.scheduler.base.settings import RESOURCES
from merkatd.scheduler.context import PeriodContext, all_proposals
from merkatd.scheduler.execution.approval import (
    Approved,
    OrderRoom,
    approved_plan,
    propose_plan,
    room_for_orders,
)
from merkatd.scheduler.execution.delegation import (
    NOTHING,
    HandoverRequest,
    PendingHandover,
    answer_handover,
    restricted_to_request,
)
from merkatd.scheduler.execution.shadow import ShadowMode
from merkatd.scheduler.observation.failed_boots import FAILED, attempts_at, is_retried
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import MEMORY
from merkatd.scheduler.phases.act import Acted, act
from merkatd.scheduler.phases.decide import FreeDecision, PeriodDecision, decide, decide_freely
from merkatd.scheduler.phases.permission import Permission
from merkatd.scheduler.terms.affordability import Afforded, messages_after_reasons


@dataclass(frozen=True, slots=True)
class BootRetries:
    """The attempts for VMs that failed to boot."""

    steps: Mapping[str, Deploy] = field(default_factory=dict)
    """By id: further attempts, in the journal and not sent yet."""
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: the message for the owner."""


async def retry_failed_boots(
    context: PeriodContext, observed: Observed, decided: Sequence[Step]
) -> BootRetries:
    """Record another attempt for each failed VM that has attempts left.

    `decided` are this period's other steps; they bring VMs to hosts too.
    """
    words, hosts = observed.observation.vm_words, observed.observation.vm_host
    rows = [row for row, word in enumerate(words) if word == FAILED and hosts[row] >= 0]
    if not rows:
        return BootRetries()
    return await context.database.run(
        lambda connection: _store(connection, context, observed, rows, decided)
    )


def _store(
    connection: sa.Connection,
    context: PeriodContext,
    observed: Observed,
    rows: list[int],
    decided: Sequence[Step],
) -> BootRetries:
    steps, messages = [], {}
    names = dict(
        zip(observed.observation.host_id.tolist(), observed.observation.host_name, strict=True)
    )
    failed = {row: attempts_at(connection, int(observed.snapshot.vms.id[row])) for row in rows}
    rooms = _Rooms(observed, decided, [row for row, count in failed.items() if count is not None])
    for row, count in failed.items():
        if count is None:
            continue
        vm, host = int(observed.observation.vm_id[row]), int(observed.observation.vm_host[row])
        where = f"it failed to boot on {names.get(host, f'host {host}')}"
        if not is_retried(count, context.rhythm.boot_retries):
            messages[vm] = f"{where}: an administrator must recover it (onevm recover {vm})"
        elif not rooms.take(row):
            messages[vm] = f"{where}; it is retried once its floor fits there again"
        else:
            reason = f"{where}: attempt {count + 1}"
            steps.append(Deploy(period=observed.period, vm=vm, host=host, reason=reason))
            messages[vm] = f"{where}; it is retried"
    recorded = journal.record(connection, steps, context.now()).recorded
    return BootRetries({step.id: step for step in recorded if isinstance(step, Deploy)}, messages)


class _Rooms:
    """The free CPU and memory of hosts while failed VMs start again."""

    def __init__(self, observed: Observed, decided: Sequence[Step], failed: list[int]) -> None:
        """`failed` are the rows of the VMs that use nothing until they are retried."""
        snapshot, own = observed.snapshot, slice(len(RESOURCES))
        vms = snapshot.vms
        outside = (vms.market < 0)[:, np.newaxis]
        self._amount: Floats = np.where(outside, vms.cap, vms.floor)[:, own]
        self._held = self._amount.copy()  # memory not yet given back by balloons is not free
        self._held[:, MEMORY] = np.fmax(self._held[:, MEMORY], vms.held[:, MEMORY])
        self._host = vms.host
        self._left: Floats = observed.observation.host_capacity[:, own].copy()
        holds = (vms.host >= 0) & (vms.state != VmState.PENDING)
        holds[failed] = False
        for host, there in ((vms.host, holds), (vms.source, holds & (vms.source >= 0))):
            np.subtract.at(self._left, host[there], self._held[there])
        for step in decided:
            if isinstance(step, Deploy | Migrate) and step.vm in vms.id:
                self._reserve(observed, step)

    def _reserve(self, observed: Observed, step: Deploy | Migrate) -> None:
        """Subtract the resources of a VM that comes from another host."""
        row, at = observed.snapshot.vm_row(step.vm), observed.snapshot.host_row(step.host)
        if at != self._host[row]:
            self._left[at] -= (self._held if isinstance(step, Migrate) else self._amount)[row]

    def take(self, row: int) -> bool:
        """Reserve the floor of the VM in this row on its host; return whether it fits."""
        host = int(self._host[row])
        left = self._left[host] - self._amount[row]
        if (left < 0).any():
            return False
        self._left[host] = left
        return True


_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class PeriodResult:
    """A decision and its execution."""

    seen: Observed
    decided: PeriodDecision
    acted: Acted


async def decide_only(
    context: PeriodContext, affordable: Afforded, leave: Permission, shadow: ShadowMode
) -> PeriodResult:
    """Decide without acting; in mode shadow, compare with the other scheduler."""
    seen = affordable.seen
    decided = await decide(context, seen, affordable.unpaid, leave)
    if leave.mode is Mode.SHADOW:
        await shadow.look(context, seen, decided)
    else:
        shadow.rest()
    _log.info(
        "Mode {mode}: none of {steps} decided steps is sent",
        mode=str(leave.mode),
        steps=len(decided.limits.plan),
    )
    await context.executor.run(lambda: _log_decided(leave.mode, decided))
    explained = await _told_beside(context, decided, affordable.reasons, affordable.messages)
    return PeriodResult(seen, explained, Acted(0, 0, 0))


def _log_decided(mode: Mode, decided: PeriodDecision) -> None:
    for step in decided.limits.plan:
        _log.debug(
            "{mode}: {kind} of {target} is not done: {reason}",
            mode=str(mode),
            kind=step.kind,
            target=step.target,
            reason=step.reason,
        )


async def execute(
    context: PeriodContext, affordable: Afforded, leave: Permission, asking: PendingHandover | None
) -> PeriodResult:
    """Decide, and carry out all permitted steps."""
    seen = affordable.seen
    if leave.mode is Mode.ASK:
        return await _with_approval(context, affordable, asking)
    scene = seen
    if context.handing:
        wanted = _wanted(asking)
        scene = await context.executor.run(lambda: restricted_to_request(seen, wanted))
    decided = await decide(context, scene, affordable.unpaid, leave)
    decided = await _told_beside(context, decided, affordable.reasons, affordable.messages)
    return await _done(context, seen, scene, decided, asking)


async def _with_approval(
    context: PeriodContext, affordable: Afforded, asking: PendingHandover | None
) -> PeriodResult:
    """Carry out the approved steps, and propose a plan with the others."""
    seen, given = affordable.seen, await approved_plan(context)
    free = await decide_freely(context, seen, affordable.unpaid, Mode.ASK)
    asked = _wanted(asking) if context.handing else None
    # An approved plan can have thousands of steps, each with hosts of its own.
    possible, room, scene = await context.executor.run(
        lambda: _approved_scene(seen, given, free, asked)
    )
    world = replace(context, proposals=all_proposals(context.proposals, room.proposals))
    decided = await decide(world, scene, possible.unpaid(affordable.unpaid), possible.leave, free)
    if given.plan is None:
        decided = replace(decided, proposed_from=free.decision.decided_from)
    decided = await _told_beside(context, decided, affordable.reasons, affordable.messages)
    # The waves of migrations, too, must take the VMs of a reversal for VMs that must leave.
    judged = OrderRoom(leaving=possible.undone).in_scene(seen)
    done = replace(await _done(context, judged, scene, decided, asking), seen=seen)
    if context.handing and asking is None and given.plan is not None:
        return done  # OpenNebula's next request carries out the plan
    postponed = {step for step, what in done.acted.not_done.items() if what == "postponed"}
    standing = await propose_plan(context, seen, given, done.decided, free, postponed)
    if standing is None:
        return done
    waiting = await context.executor.run(lambda: waiting_messages(standing))
    return replace(done, decided=await _told_beside(context, done.decided, waiting))


def _approved_scene(
    seen: Observed, given: Approved, free: FreeDecision, asked: HandoverRequest | None
) -> tuple[Approved, OrderRoom, Observed]:
    """Return the steps that are still possible, those that make room, and the cloud with them."""
    possible = given.possible(seen)
    room = room_for_orders(seen, possible, free)
    return possible, room, room.in_scene(possible.scene(seen, asked))


async def _done(
    context: PeriodContext,
    observed: Observed,
    scene: Observed,
    decided: PeriodDecision,
    asking: PendingHandover | None,
) -> PeriodResult:
    handed: Mapping[str, bool] = {}
    if asking is not None:
        handed = await answer_handover(context, scene, decided, asking)
    retries = await retry_failed_boots(context, observed, decided.steps)
    decided = await _told_beside(context, decided, retries.messages)
    acted = await act(context, observed, decided, handed.keys(), retries.steps)
    left_out = {step: "postponed" for step, given in handed.items() if not given}
    acted = replace(acted, not_done={**acted.not_done, **left_out})
    return PeriodResult(observed, await _told_beside(context, decided, acted.refusals), acted)


def _wanted(asking: PendingHandover | None) -> HandoverRequest:
    return NOTHING if asking is None else asking.wanted


NO_MESSAGES: Mapping[int, str] = MappingProxyType({})


def waiting_messages(plan: StoredPlan) -> Mapping[int, str]:
    """Return, by VM id, messages for owners of VMs that the plan places."""
    return {
        step.vm: f"plan {plan.id} places it, once an administrator approves"
        for step in plan.steps
        if step.kind == "deploy" and not step.skipped
    }


async def _told_beside(
    context: PeriodContext,
    decided: PeriodDecision,
    reasons: Mapping[int, str],
    messages: Mapping[int, str] = NO_MESSAGES,
) -> PeriodDecision:
    """Call `with_messages` outside the reactor, since every VM may have a reason."""
    if not reasons and not messages:
        return decided
    return await context.executor.run(lambda: with_messages(decided, reasons, messages))


def with_messages(
    decided: PeriodDecision, reasons: Mapping[int, str], messages: Mapping[int, str] = NO_MESSAGES
) -> PeriodDecision:
    """Return the decision with these reasons of VMs and messages to their owners added."""
    decision = decided.decision
    reasons = {**decision.reasons, **messages_after_reasons(decision.reasons, reasons)}
    return replace(
        decided,
        decision=replace(decision, reasons=reasons),
        messages={**decided.messages, **messages},
    )
