"""Which VMs may begin to run before the next period, and the limits that each is to have then.

Those are VMs that the period places, and VMs that are off and that their owners may resume. A VM
that is resumed has no share: it gets what its charge pays for, as far as its payer has credits
left, and weighs no more than that beside neighbours, which paid for all of the host. Pure, but for
the one question what payers have left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd import ledger
from merkatd.cluster import RESTING, Deploy, Floats, Limit, OnHost, Snapshot, Throttle, VmState
from merkatd.currency import MICRO
from merkatd.database import accounts, allocations
from merkatd.limits.in_force import InForce
from merkatd.limits.limiting import limit_steps
from merkatd.limits.scene import scene_of
from merkatd.market.view import NOWHERE
from merkatd.scheduler.decide import Decided
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.owed import costs, in_a_market
from merkatd.scheduler.using import CPU, by_use
from merkatd.scheduler.world import World


@dataclass(frozen=True, slots=True)
class Arrivals:
    """VMs that may begin to run, and the other VMs on their hosts."""

    host: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the id of the host where it will run."""
    steps: Mapping[int, tuple[OnHost, ...]] = field(default_factory=dict)
    """By VM id: what the host is to be told then."""
    others: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the hosts of all VMs that ran when the period looked."""


async def arrivals(world: World, seen: Seen, decided: Decided) -> Arrivals:
    """Return the VMs that may begin to run after this period has acted."""
    placed = await world.executor.run(lambda: _placed(decided))
    off = np.isin(seen.snapshot.vms.state, RESTING) & (seen.snapshot.vms.market != NOWHERE)
    returning: dict[int, tuple[OnHost, ...]] = {}
    if off.any():
        means = await world.database.read(lambda c: _means(c, world, seen.period))
        returning = await world.executor.run(lambda: _returning(world, seen, decided, means))
    steps = {**{vm: some for vm, (_, some) in placed.items()}, **returning}
    if not steps:
        return Arrivals()
    vms, places = seen.observation.vm_id.tolist(), seen.observation.vm_host.tolist()
    where = dict(zip(vms, places, strict=True))
    runs = np.isin(seen.observation.vm_state, (VmState.RUNNING, VmState.BUSY))
    others = {vm: where[vm] for vm in seen.observation.vm_id[runs].tolist() if where[vm] >= 0}
    host = {vm: placed[vm][0] if vm in placed else where[vm] for vm in steps}
    return Arrivals(host, steps, others)


def _placed(decided: Decided) -> dict[int, tuple[int, tuple[OnHost, ...]]]:
    """By id of each VM that is deployed: its host, and the limits that come after."""
    deploys = {step.id: step for step in decided.steps if isinstance(step, Deploy)}
    found: dict[int, tuple[int, tuple[OnHost, ...]]] = {}
    for step in decided.limits.plan if deploys else ():
        if isinstance(step, Limit | Throttle) and step.after and deploys.keys() >= set(step.after):
            before = found.get(step.vm, (0, ()))[1]
            found[step.vm] = (deploys[step.after[0]].host, (*before, step))
    return found


@dataclass(frozen=True, slots=True)
class _Means:
    """What a VM can have of cores if its owner resumes it."""

    units: float
    """Percent of a core that its bid buys,"""
    weighs: float
    """and what that costs in a period, in credits."""


def _means(connection: sa.Connection, world: World, period: int) -> Mapping[int, _Means]:
    """By id, of VMs that are off: what each can pay for. All of a payer share what it has left."""
    arrays = allocations.load(connection, period)
    if arrays is None or "resumed" not in arrays:
        return {}
    could = (arrays["resumed"] > 0).any(axis=1) & in_a_market(arrays, world.markets)
    rows = np.flatnonzero(could & ~by_use(world.markets, arrays["market"]))
    owed = costs(arrays, rows, world.markets)
    payers, owners = arrays["account"][rows], arrays["owner"][rows]
    part = _paid_part(connection, world, payers, owed.sum(axis=1))
    part[np.isin(owners, list(ledger.debts_of(connection)))] = 0.0
    units, weighs = arrays["resumed"][rows, CPU] * part, owed[:, CPU] * part
    columns = zip(arrays["vm"][rows].tolist(), units.tolist(), weighs.tolist(), strict=True)
    return {vm: _Means(*one) for vm, *one in columns}


def _paid_part(connection: sa.Connection, world: World, payers: Any, owed: Floats) -> Floats:
    """[rows]: the part of what is owed for as long as a charge can be for that can be paid."""
    known = accounts.get(connection, [one for one in set(payers.tolist()) if one >= 0])
    part = np.zeros(len(owed))
    for account, one in known.items():
        mine = payers == account
        most = float(owed[mine].sum()) * world.rhythm.most_periods_charged
        part[mine] = min(max(one.free, 0) / MICRO / most, 1.0) if most > 0 else 1.0
    return part


def _returning(
    world: World, seen: Seen, decided: Decided, means: Mapping[int, _Means]
) -> dict[int, tuple[OnHost, ...]]:
    """By VM id: the limit of each VM that is off now, as it is to be once it runs."""
    snapshot, vms = seen.snapshot, seen.snapshot.vms
    off = np.isin(vms.state, RESTING) & np.isin(vms.id, list(means))
    if not off.any():
        return {}
    scene = scene_of(snapshot, decided.decision.plan)
    there = scene.bidding & (vms.market != NOWHERE) & (scene.then != NOWHERE)
    highest = np.zeros(len(snapshot.hosts))
    np.maximum.at(highest, scene.then[there], vms.bid[there, CPU])
    share, bid = decided.decision.allocations[:, CPU].copy(), vms.bid.copy()
    for row in np.flatnonzero(off).tolist():
        own, beside = means[int(vms.id[row])], float(highest[scene.then[row]])
        share[row] = own.units
        # Weights of neighbours stay unchanged: no VM can weigh more than the first of them.
        bid[row, CPU] = min(own.weighs, beside) if beside > 0 else own.weighs
    state = np.where(off, int(VmState.RUNNING), vms.state)
    after = replace(snapshot, vms=replace(vms, bid=bid, state=state))
    steps = _limits(world, after, decided, share, seen.in_force)
    ids = set(vms.id[off].tolist())
    return {step.vm: (step,) for step in steps if step.vm in ids}


def _limits(
    world: World, snapshot: Snapshot, decided: Decided, share: Floats, in_force: InForce
) -> list[Limit]:
    scene = scene_of(snapshot, decided.decision.plan)
    return list(limit_steps(snapshot, scene, share, frozenset(), in_force, world.limits.cpu))
