"""Doing: what a period does with what it saw, as its mode allows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twisted.logger import Logger

from merkatd.cluster import Migrate
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import StoredPlan
from merkatd.scheduler.act import Acted, act
from merkatd.scheduler.afford import Afforded, beside
from merkatd.scheduler.approving import approved, propose
from merkatd.scheduler.decide import Decided, decide
from merkatd.scheduler.handing import NOTHING, Asking, Wanted, answer, narrowed
from merkatd.scheduler.leave import Leave
from merkatd.scheduler.mend import mend
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.shadow import Shadow
from merkatd.scheduler.world import World

_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """What was decided, and what was done of it."""

    seen: Seen
    decided: Decided
    acted: Acted


async def watch(world: World, affordable: Afforded, leave: Leave, shadow: Shadow) -> Done:
    """Decide and do nothing; beside another scheduler, compare."""
    seen = affordable.seen
    decided = await decide(world, seen, affordable.unpaid, leave)
    if leave.mode is Mode.SHADOW:
        await shadow.look(world, seen, decided.decision.plan.of(Migrate))
    else:
        shadow.rest()
    _log.info(
        "Mode {mode}: {steps} steps would be sent, and none is",
        mode=str(leave.mode),
        steps=len(decided.limits.plan),
    )
    for step in decided.limits.plan:
        _log.debug(
            "{mode}: {kind} of VM {vm} is not done: {reason}",
            mode=str(leave.mode),
            kind=step.kind,
            vm=step.vm,
            reason=step.reason,
        )
    told = await _told_beside(world, decided, affordable.messages)
    return Done(seen, told, Acted(0, 0, 0))


async def carry_out(
    world: World, affordable: Afforded, leave: Leave, asking: Asking | None
) -> Done:
    """Decide, and do all of it for which there is leave."""
    seen = affordable.seen
    if leave.mode is Mode.ASK:
        return await _with_approval(world, affordable, asking)
    scene = narrowed(seen, _wanted(asking)) if world.handing else seen
    decided = await decide(world, scene, affordable.unpaid, leave)
    decided = await _told_beside(world, decided, affordable.messages)
    return await _done(world, seen, scene, decided, asking)


async def _with_approval(world: World, affordable: Afforded, asking: Asking | None) -> Done:
    """Do what was approved of, and say what would be done besides."""
    seen, given = affordable.seen, await approved(world)
    scene = given.scene(seen, _wanted(asking) if world.handing else None)
    decided = await decide(world, scene, given.unpaid(affordable.unpaid), given.leave)
    decided = await _told_beside(world, decided, affordable.messages)
    done = await _done(world, seen, scene, decided, asking)
    if world.handing and asking is None and given.plan is not None:
        return done  # it is carried out when OpenNebula asks
    standing = await propose(world, seen, affordable.unpaid, given, done.decided)
    if standing is None:
        return done
    waiting = await world.executor.run(lambda: waiting_for(standing))
    return replace(done, decided=await _told_beside(world, done.decided, waiting))


async def _done(
    world: World, seen: Seen, scene: Seen, decided: Decided, asking: Asking | None
) -> Done:
    handed: frozenset[str] = frozenset()
    if asking is not None:
        handed = await answer(world, scene, decided, asking)
    mended = await mend(world, seen, decided.steps)
    decided = await _told_beside(world, decided, mended.messages)
    acted = await act(world, seen, decided, handed, mended.steps)
    return Done(seen, await _told_beside(world, decided, acted.refusals), acted)


def _wanted(asking: Asking | None) -> Wanted:
    return NOTHING if asking is None else asking.wanted


def waiting_for(plan: StoredPlan) -> Mapping[int, str]:
    """By VM id: what owners of VMs that are to be placed are told."""
    return {
        step.vm: f"plan {plan.id} places it, once an administrator approves"
        for step in plan.steps
        if step.kind == "deploy" and not step.skipped
    }


async def _told_beside(world: World, decided: Decided, messages: Mapping[int, str]) -> Decided:
    """Return what `told_also` does, computed beside the reactor: every VM may have a reason."""
    if not messages:
        return decided
    return await world.executor.run(lambda: told_also(decided, messages))


def told_also(decided: Decided, messages: Mapping[int, str]) -> Decided:
    """The same, where VMs' owners are told these too."""
    decision = decided.decision
    reasons = {**decision.reasons, **beside(decision.reasons, messages)}
    return replace(decided, decision=replace(decision, reasons=reasons))
