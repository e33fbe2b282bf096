"""A period's look after all groups, and users' orders.

It changes nothing in the cloud and remembers nothing itself: all is in the database.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Create, Step, VmState
from merkatd.database.base.savepoints import Apart
from merkatd.database.base.transactions import Transactions
from merkatd.database.fleets import fleet_store, group_store, group_vm_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GroupMember
from merkatd.database.scheduler import journal
from merkatd.fleets.fleet import FleetView
from merkatd.fleets.vm_template_text import has_name
from merkatd.groups import group_orders
from merkatd.groups.group_fleet import group_change, group_create_step, group_member_factory, losses
from merkatd.groups.group_orders import Creation, Edit
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.terms.creation_turns import Room


@dataclass(frozen=True, slots=True)
class GroupReview:
    """What came of a look after all."""

    steps: Sequence[Step] = ()
    failed: Mapping[int, Exception] = field(default_factory=dict)
    """By group, why one could not be looked after."""


_NOTHING: Sequence[Step] = ()


def read_all(connection: sa.Connection) -> None:
    """Read the texts of all living groups, so that what they say is known from then on."""
    apart = Apart(connection)
    for group in group_store.living(connection):
        apart.look(group.id, partial(has_name, group.template), False)


def review_groups(
    connection: sa.Connection, seen: Observed, at_s: float, entropy: bytes, new_vms: int
) -> GroupReview:
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
        return GroupReview()
    members: dict[int, list[GroupMember]] = {group: [] for group in living}
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
    return GroupReview(steps, apart.failed)


def _sight(connection: sa.Connection, seen: Observed, present: Sequence[GroupMember]) -> FleetView:
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
    return FleetView(
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
    group: GroupRow,
    known: Sequence[GroupMember],
    sight: FleetView,
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
    result = group_change(
        group,
        members,
        sight,
        new=group_member_factory(group, *naming),
        make=lambda one: group_create_step(group, one, sight.period),
        room=room,
    )
    group_vm_store.add_group_members(connection, result.add)
    group_vm_store.mark_group_leaving(connection, result.leave)
    return result.steps


def _fewer(connection: sa.Connection, group: GroupRow, count: int, why: str) -> GroupRow:
    """A group goes on without the VMs that ended unasked: none is started in their place."""
    if not count or group.ending:
        return group
    values: Mapping[str, int | str] = {"nvm": max(group.nvm - count, 0), "why": why}
    group_store.change(connection, group.id, **values)
    found = group_store.get(connection, group.id)
    return group if found is None else found


class Keeper:
    """Keeps all groups."""

    def __init__(self, world: PeriodContext, rng: np.random.Generator | None = None) -> None:
        self.world = world
        self._rng = rng or world.rng
        self._has_read = False
        """Whether the texts of all living groups were read since the daemon started."""

    # -- for the period -----------------------------------------------------------------------

    async def proposals(self, database: Transactions, seen: Observed) -> Sequence[Step]:
        """The steps that groups need in this period."""
        if not self._has_read:
            # Outside of the period's transaction, in which nobody else can write.
            await database.read(read_all)
            self._has_read = True
        at_s, entropy = self.world.now(), self._rng.bytes(32)
        most = self.world.rhythm.new_vms
        tended = await database.run(
            partial(review_groups, seen=seen, at_s=at_s, entropy=entropy, new_vms=most)
        )
        self.world.troubles.note(TroubleKind.GROUP, "looked after", tended.failed)
        return tended.steps

    # -- for users ----------------------------------------------------------------------------

    async def create(
        self,
        *,
        owner: int,
        user_group: int,
        name: str | None,
        market: str,
        template: str,
        spending_rate: float,
        nvm: int,
    ) -> GroupRow:
        """A new group. Raises LedgerError."""
        given = Creation(
            token=uuid4().hex,
            owner=owner,
            user_group=user_group,
            name=name,
            market=market,
            template=template,
            spending_rate=spending_rate,
            nvm=nvm,
        )
        money, at_s = self.world.money, self.world.now()
        # Outside of the transaction: from now on it is known what the text says.
        await self.world.executor.run(lambda: has_name(template))
        return await self._run(lambda c: group_orders.create(c, given, money, at_s))

    async def edit(self, group: int, new: Edit) -> GroupRow:
        """Another spending rate or number of VMs. Raises LedgerError."""
        return await self._run(lambda c: group_orders.edit(c, group, new))

    async def delete(self, group: int) -> GroupRow:
        """End it and its VMs. Raises LedgerError."""
        return await self._run(lambda c: group_orders.delete(c, group))

    async def change(self, group: int, **values: int | str) -> GroupRow:
        """Another name, owner, group or permissions. Raises LedgerError."""
        return await self._run(lambda c: group_orders.change(c, group, **values))

    async def _run(self, work: Callable[[sa.Connection], GroupRow]) -> GroupRow:
        return await self.world.database.run(work)
