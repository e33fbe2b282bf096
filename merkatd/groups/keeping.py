"""A period's look after all groups: which VMs are gone, and the steps that follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Create, Step, VmState
from merkatd.database.base.savepoints import Apart
from merkatd.database.fleets import fleet_store, group_store, group_vm_store
from merkatd.database.fleets.group_store import Group
from merkatd.database.fleets.group_vm_store import GroupVm
from merkatd.database.scheduler import journal
from merkatd.groups.fleet import Sight, losses, orders
from merkatd.groups.making import created, numbered
from merkatd.platforms.vm_text import named
from merkatd.scheduler.observation.observed import Seen
from merkatd.scheduler.terms.creation_turns import Room


@dataclass(frozen=True, slots=True)
class Tended:
    """What came of a look after all."""

    steps: Sequence[Step] = ()
    failed: Mapping[int, Exception] = field(default_factory=dict)
    """By group, why one could not be looked after."""


_NOTHING: Sequence[Step] = ()


def read_all(connection: sa.Connection) -> None:
    """Read the texts of all living groups, so that what they say is known from then on."""
    apart = Apart(connection)
    for group in group_store.living(connection):
        apart.look(group.id, partial(named, group.template), False)


def tend(
    connection: sa.Connection, seen: Seen, at_s: float, entropy: bytes, new_vms: int
) -> Tended:
    """The steps that the groups' VMs need, with at most so many `new_vms` of each owner.

    All of it is one transaction before any step is recorded: after a crash the next period finds
    the same keys, and creates nothing twice. Keys are made from the entropy, which is of this
    period alone. Where one group fails it stays as it was, and the others go on.
    """
    # Locked before anything else is read: an edit is seen whole, or not at all.
    living = {one.id: one for one in group_store.living(connection, lock=True)}
    present = group_vm_store.living_group_members(connection)
    # A VM can come into being after its group was thought to be over.
    late = {one.vm_group for one in present} - living.keys()
    living |= {one.id: one for one in group_store.of_ids(connection, late)}
    if not living:
        return Tended()
    members: dict[int, list[GroupVm]] = {group: [] for group in living}
    for one in present:
        members.get(one.vm_group, []).append(one)
    sight, highest = (
        _sight(connection, seen, present),
        group_vm_store.highest_group_numbers(connection),
    )
    room, apart, steps = Room(new_vms), Apart(connection), list[Step]()
    for group in living.values():
        naming, left = (highest.get(group.id, 0), entropy), room.of(group.owner)
        work = partial(_tend_one, connection, group, members[group.id], sight, at_s, naming, left)
        found = apart.run(group.id, work, _NOTHING)
        room.count(group.owner, found)
        steps += found
    return Tended(steps, apart.failed)


def _sight(connection: sa.Connection, seen: Seen, present: Sequence[GroupVm]) -> Sight:
    observation, snapshot = seen.observation, seen.snapshot
    # Where OpenNebula deploys, VMs whose turn it is not are out of the snapshot's sight.
    busy = snapshot.vms.state == int(VmState.BUSY)
    state = np.where(busy, int(VmState.BUSY), observation.vm_state)
    states = zip(observation.vm_id.tolist(), state.tolist(), strict=True)
    unmade = [one.create_key for one in present if one.vm is None]
    creating = {
        stored.step.key
        for stored in journal.outstanding(connection)
        if isinstance(stored.step, Create)
    }
    return Sight(
        period=seen.period,
        states={vm: VmState(state) for vm, state in states},
        ailing=observation.ailing.keys(),
        creating=creating,
        refused=fleet_store.refusals(connection, unmade),
        deaf=journal.deaf(
            connection, [one.vm for one in present if one.leaving and one.vm is not None]
        ),
    )


def _tend_one(
    connection: sa.Connection,
    group: Group,
    known: Sequence[GroupVm],
    sight: Sight,
    at_s: float,
    naming: tuple[int, bytes],
    room: int,
) -> Sequence[Step]:
    """Let go of what is gone, then see to the rest; a group without any VM left is over."""
    lost = losses(known, sight)
    group_vm_store.mark_group_gone(connection, lost.keys, at_s)
    members = [one for one in known if one.create_key not in set(lost.keys)]
    group = _fewer(connection, group, lost.unasked, lost.why)
    if group.ending and not members:
        group_store.change(connection, group.id, ended_s=at_s)
        return ()
    result = orders(
        group,
        members,
        sight,
        new=numbered(group, *naming),
        make=lambda one: created(group, one, sight.period),
        room=room,
    )
    group_vm_store.add_group_members(connection, result.add)
    group_vm_store.mark_group_leaving(connection, result.leave)
    return result.steps


def _fewer(connection: sa.Connection, group: Group, count: int, why: str) -> Group:
    """A group goes on without the VMs that ended unasked: none is started in their place."""
    if not count or group.ending:
        return group
    values: Mapping[str, int | str] = {"nvm": max(group.nvm - count, 0), "why": why}
    group_store.change(connection, group.id, **values)
    found = group_store.get(connection, group.id)
    return group if found is None else found
