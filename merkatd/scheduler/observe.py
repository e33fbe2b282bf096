"""Observe: read the cloud and its hosts, judge what became of earlier steps, number the period."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import Snapshot, VmState
from merkatd.database import bids, decisions, journal, periods
from merkatd.database.bids import Bid, BidSource
from merkatd.limits import InForce
from merkatd.scheduler.ports import Observation
from merkatd.scheduler.settings import RESOURCES
from merkatd.scheduler.snapshot import Known, in_force_of, snapshot_of
from merkatd.scheduler.verdict import Verdicts, judge
from merkatd.scheduler.wishes import Wishes, text_hash, wishes
from merkatd.scheduler.world import World

_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a period starts from."""

    period: int
    started_s: float
    observation: Observation
    snapshot: Snapshot
    in_force: InForce
    verdicts: Verdicts
    wishes: Mapping[int, Wishes]


async def observe(world: World) -> Seen:
    """Read everything, and store that it was read: from here on the period has a number."""
    started_s = world.now()
    observation = await world.cloud.observe()
    running = np.isin(observation.vm_state, (VmState.RUNNING, VmState.BUSY))
    on_host = running & (observation.vm_host >= 0)
    vms = observation.vm_id[on_host].tolist()
    use = await world.hypervisors.read(
        dict(zip(vms, observation.vm_host[on_host].tolist(), strict=True))
    )
    said = await world.executor.run(partial(_said, observation))
    stored = await world.database.run(
        lambda connection: _store(connection, world, started_s, observation, said)
    )
    known = Known(bids=stored.bids, wishes=said, waiting=stored.verdicts.waiting)
    _report(observation, stored.verdicts)
    return await world.executor.run(
        lambda: Seen(
            period=stored.period,
            started_s=started_s,
            observation=observation,
            snapshot=snapshot_of(stored.period, observation, use, known, world.markets),
            in_force=in_force_of(observation, use),
            verdicts=stored.verdicts,
            wishes=said,
        )
    )


def _said(observation: Observation) -> Mapping[int, Wishes]:
    return {vm: wishes(text, RESOURCES) for vm, text in observation.attributes.items()}


@dataclass(frozen=True, slots=True)
class _Stored:
    period: int
    verdicts: Verdicts
    bids: Mapping[int, Mapping[str, float]]


def _store(
    connection: sa.Connection,
    world: World,
    started_s: float,
    observation: Observation,
    said: Mapping[int, Wishes],
) -> _Stored:
    """One transaction: verdicts on steps, new words from templates, the period's number."""
    verdicts = judge(decisions.outstanding(connection), observation, world.rhythm)
    at_s = observation.at_s
    journal.confirm(connection, verdicts.confirmed, at_s, verdicts.created)
    journal.expire(connection, verdicts.expired, at_s)
    _read_templates(connection, observation, said)
    present = bids.amounts(connection)
    gone = present.keys() - set(observation.vm_id.tolist()) - observation.ailing.keys()
    bids.forget(connection, gone)
    number = periods.begin(
        connection, started_s, at_s, len(observation.host_id), len(observation.vm_id)
    )
    return _Stored(number, verdicts, present)


def _read_templates(
    connection: sa.Connection, observation: Observation, said: Mapping[int, Wishes]
) -> None:
    """A template's bid counts at first sight and again when its text changes."""
    hashes = {vm: text_hash(observation.attributes[vm]) for vm, one in said.items() if one.bid}
    changed = bids.changed_templates(connection, hashes)
    bids.say(
        connection,
        [
            Bid(
                vm=vm,
                bid=said[vm].bid,
                source=BidSource.TEMPLATE,
                at_s=observation.at_s,
                template_hash=hashes[vm],
            )
            for vm in sorted(changed)
        ],
    )


def _report(observation: Observation, verdicts: Verdicts) -> None:
    for step_id, why in verdicts.expired.items():
        _log.warn("Step {step} was given up: {why}", step=step_id, why=why)
    for vm, why in observation.ailing.items():
        _log.warn("VM {vm} can't be read and is left alone: {why}", vm=vm, why=why)
