"""A dry run: what the next period would do if it began now, and nothing of it done or stored."""

import copy
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.api.questions.plans import plan_value
from merkatd.api.questions.words import QuestionError
from merkatd.cluster import VmState
from merkatd.database import bids, decisions, periods
from merkatd.database.steps import StoredStep
from merkatd.scheduler.decide import worked_out
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.ports import Observation, UnreachableError, Use
from merkatd.scheduler.settings import RESOURCES
from merkatd.scheduler.snapshot import Known, in_force_of, snapshot_of
from merkatd.scheduler.verdict import judge
from merkatd.scheduler.wishes import Wishes, text_hash, wishes
from merkatd.scheduler.world import World


async def rehearsed(world: World) -> dict[str, Any]:
    """The plan of a period that begins now, as JSON has it. Raises QuestionError."""
    try:
        observation = await world.cloud.observe()
        use = await _use(world, observation)
    except UnreachableError as error:
        raise QuestionError(f"the cloud can't be reached: {error}") from error
    said = await world.executor.run(
        lambda: {vm: wishes(text, RESOURCES) for vm, text in observation.attributes.items()}
    )
    label = "+".join(market.strategy for market in world.markets)
    stored = await world.database.read(
        lambda connection: (
            _known_bids(connection, observation, said),
            decisions.outstanding(connection),
            periods.memory(connection, label),
            periods.newest(connection),
        )
    )
    present, outstanding, memory, newest = stored
    number = 1 if newest is None else newest.number + 1
    own = replace(world, rng=copy.deepcopy(world.rng))  # the real period draws the same again

    def work() -> dict[str, Any]:
        seen = _seen(own, number, observation, use, said, outstanding, present)
        begin = time.perf_counter()
        decision, limits = worked_out(own, seen, memory)
        took_ms = (time.perf_counter() - begin) * 1e3
        reasons = {**decision.reasons, **limits.postponed}
        value = plan_value(seen.snapshot, decision, limits.plan, label, took_ms, reasons)
        return value | {
            "under_way": [_under_way(one) for one in seen.verdicts.waiting],
            "overfull": {str(host): why for host, why in limits.overfull.items()},
        }

    return await world.executor.run(work)


async def _use(world: World, observation: Observation) -> Use:
    running = np.isin(observation.vm_state, (VmState.RUNNING, VmState.BUSY))
    on_host = running & (observation.vm_host >= 0)
    vms = observation.vm_id[on_host].tolist()
    return await world.hypervisors.read(
        dict(zip(vms, observation.vm_host[on_host].tolist(), strict=True))
    )


def _known_bids(
    connection: sa.Connection, observation: Observation, said: Mapping[int, Wishes]
) -> dict[int, Mapping[str, float]]:
    """The bids in force, with what templates say anew."""
    hashes = {vm: text_hash(observation.attributes[vm]) for vm, one in said.items() if one.bid}
    changed = bids.changed_templates(connection, hashes)
    present: dict[int, Mapping[str, float]] = {
        vm: word.bid for vm, word in bids.current(connection).items()
    }
    return present | {vm: said[vm].bid for vm in changed}


def _seen(
    world: World,
    number: int,
    observation: Observation,
    use: Use,
    said: Mapping[int, Wishes],
    outstanding: tuple[StoredStep, ...],
    present: Mapping[int, Mapping[str, float]],
) -> Seen:
    """What a period would start from; the verdicts on steps are passed, not stored."""
    verdicts = judge(outstanding, observation, world.rhythm)
    known = Known(bids=present, wishes=said, waiting=verdicts.waiting)
    return Seen(
        period=number,
        started_s=observation.at_s,
        observation=observation,
        snapshot=snapshot_of(number, observation, use, known, world.markets),
        in_force=in_force_of(observation, use),
        verdicts=verdicts,
        wishes=said,
    )


def _under_way(stored: StoredStep) -> dict[str, Any]:
    return {
        "id": stored.id,
        "kind": stored.step.kind,
        "vm": stored.step.vm,
        "state": str(stored.state),
    }
