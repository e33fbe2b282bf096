"""The keeper of all groups: each period's review of their VMs, and users' orders.

The keeper stores all its state in the database. It changes nothing in the cloud itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Step
from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.base.transactions import Transactions
from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.fleets.fleet import FleetView, read_fleet_view
from merkatd.fleets.vm_template_text import has_name
from merkatd.groups import group_orders
from merkatd.groups.group_fleet import group_change, group_create_step, group_member_factory, losses
from merkatd.groups.group_orders import Creation, Edit
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.terms.creation_turns import CreationRoom


@dataclass(frozen=True, slots=True)
class GroupReview:
    """The result of a review of all groups."""

    steps: Sequence[Step] = ()
    failed: Mapping[int, Exception] = field(default_factory=dict)
    """The errors of failed reviews, by group id."""


_NOTHING: Sequence[Step] = ()


def read_all(connection: sa.Connection) -> None:
    """Parse the templates of all living groups, so that later reads come from the cache."""
    apart = SeparateWork(connection)
    for group in group_store.living(connection):
        apart.look(group.id, partial(has_name, group.template), False)


def review_groups(
    connection: sa.Connection,
    observed: Observed,
    at_s: float,
    entropy: bytes,
    new_vms: int,
    interval_s: float,
) -> GroupReview:
    """Review all groups and return the steps of their VMs; create `new_vms` per owner at most.

    The review is one transaction, which ends before any step is recorded. So after a crash the next
    period finds the same keys and creates no VM twice. Keys are derived from `entropy`, which is
    new in each period. If the review of a group fails, that group is left unchanged.
    """
    # Lock the groups before reading anything else: then an edit is seen completely or not at all.
    living = {group.id: group for group in group_store.living(connection, lock=True)}
    present = GROUP_MEMBERS.living(connection)
    # A VM may appear after its group was marked as ended.
    late = {member.vm_group for member in present} - living.keys()
    living |= {group.id: group for group in group_store.of_ids(connection, late)}
    if not living:
        return GroupReview()
    members: dict[int, list[GroupMember]] = {group: [] for group in living}
    for member in present:
        members.get(member.vm_group, []).append(member)
    sight, highest = (
        read_fleet_view(connection, observed, present, lambda member: member.owner, interval_s),
        GROUP_MEMBERS.highest_numbers(connection),
    )
    room, apart, steps = CreationRoom(new_vms), SeparateWork(connection), list[Step]()
    for group in living.values():
        naming, left = (highest.get(group.id, 0), entropy), room.of(group.owner)
        work = partial(_tend_one, connection, group, members[group.id], sight, at_s, naming, left)
        done = apart.run(group.id, work, _NOTHING)
        room.count(group.owner, done)
        steps += done
    return GroupReview(steps, apart.failed)


def _tend_one(
    connection: sa.Connection,
    group: GroupRow,
    known: Sequence[GroupMember],
    sight: FleetView,
    at_s: float,
    naming: tuple[int, bytes],
    room: int,
) -> Sequence[Step]:
    """Drop the members that are gone and return the steps of the others.

    A deleted group without any member left ends.
    """
    lost = losses(known, sight, group.owner)
    GROUP_MEMBERS.mark_gone(connection, lost.keys, at_s)
    members = [member for member in known if member.key not in set(lost.keys)]
    group = _fewer(connection, group, lost.unasked, lost.why)
    if group.ending and not members:
        group_store.change(connection, group.id, ended_s=at_s)
        return ()
    result = group_change(
        group,
        members,
        sight,
        new=group_member_factory(group, *naming),
        make=lambda member: group_create_step(group, member, sight.period),
        room=room,
    )
    GROUP_MEMBERS.add(connection, result.add)
    GROUP_MEMBERS.mark_leaving(connection, result.leave)
    return result.steps


def _fewer(connection: sa.Connection, group: GroupRow, count: int, why: str) -> GroupRow:
    """Reduce a group by the VMs that ended unrequested: they are not replaced."""
    if not count or group.ending:
        return group
    values: Mapping[str, int | str] = {"nvm": max(group.nvm - count, 0), "why": why}
    group_store.change(connection, group.id, **values)
    stored = group_store.get(connection, group.id)
    return group if stored is None else stored


class Keeper:
    """Reviews all groups in each period and carries out users' orders."""

    def __init__(self, context: PeriodContext, rng: np.random.Generator | None = None) -> None:
        self.world = context
        self._rng = rng or context.rng
        self._has_read = False
        """Whether the templates of all living groups were parsed since the daemon started."""

    # -- for the period -----------------------------------------------------------------------

    async def proposals(self, database: Transactions, observed: Observed) -> Sequence[Step]:
        """Return the steps of all groups in this period."""
        if not self._has_read:
            # Not in the period's transaction, because that blocks all other writers.
            await database.read(read_all)
            self._has_read = True
        at_s, entropy = self.world.now(), self._rng.bytes(32)
        rhythm = self.world.rhythm
        tended = await database.run(
            partial(
                review_groups,
                observed=observed,
                at_s=at_s,
                entropy=entropy,
                new_vms=rhythm.new_vms,
                interval_s=rhythm.interval_s,
            )
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
        """Create a group and return it. Raise LedgerError."""
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
        # Parse the template outside the transaction: later reads come from the cache.
        await self.world.executor.run(lambda: has_name(template))
        return await self._run(lambda c: group_orders.create(c, given, money, at_s))

    async def edit(self, group: int, new: Edit) -> GroupRow:
        """Change a group's spending rate or number of VMs. Raise LedgerError."""
        return await self._run(lambda c: group_orders.edit(c, group, new))

    async def delete(self, group: int) -> GroupRow:
        """End a group and its VMs. Raise LedgerError."""
        return await self._run(lambda c: group_orders.delete(c, group))

    async def change(self, group: int, **values: int | str) -> GroupRow:
        """Change a group's name, owner, user group or permissions. Raise LedgerError."""
        return await self._run(lambda c: group_orders.change(c, group, **values))

    async def _run(self, work: Callable[[sa.Connection], GroupRow]) -> GroupRow:
        return await self.world.database.run(work)
