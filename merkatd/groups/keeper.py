"""The keeper of groups: hands the steps of their VMs to the period, and takes users' orders.

It changes nothing in the cloud and remembers nothing itself: all is in the database.
"""

from collections.abc import Callable, Sequence
from functools import partial
from uuid import uuid4

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Step
from merkatd.database.fleets.group_store import Group
from merkatd.groups import ordering
from merkatd.groups.keeping import read_all, tend
from merkatd.groups.ordering import Creation, Edit
from merkatd.platforms.vm_text import named
from merkatd.scheduler.base.ports import Transactions
from merkatd.scheduler.base.troubles import Kind
from merkatd.scheduler.context import World
from merkatd.scheduler.observation.observed import Seen


class Keeper:
    """Keeps all groups."""

    def __init__(self, world: World, rng: np.random.Generator | None = None) -> None:
        self.world = world
        self._rng = rng or world.rng
        self._has_read = False
        """Whether the texts of all living groups were read since the daemon started."""

    # -- for the period -----------------------------------------------------------------------

    async def proposals(self, database: Transactions, seen: Seen) -> Sequence[Step]:
        """The steps that groups need in this period."""
        if not self._has_read:
            # Outside of the period's transaction, in which nobody else can write.
            await database.read(read_all)
            self._has_read = True
        at_s, entropy = self.world.now(), self._rng.bytes(32)
        most = self.world.rhythm.new_vms
        tended = await database.run(
            partial(tend, seen=seen, at_s=at_s, entropy=entropy, new_vms=most)
        )
        self.world.troubles.note(Kind.GROUP, "looked after", tended.failed)
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
    ) -> Group:
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
        await self.world.executor.run(lambda: named(template))
        return await self._run(lambda c: ordering.create(c, given, money, at_s))

    async def edit(self, group: int, new: Edit) -> Group:
        """Another spending rate or number of VMs. Raises LedgerError."""
        return await self._run(lambda c: ordering.edit(c, group, new))

    async def delete(self, group: int) -> Group:
        """End it and its VMs. Raises LedgerError."""
        return await self._run(lambda c: ordering.delete(c, group))

    async def change(self, group: int, **values: int | str) -> Group:
        """Another name, owner, group or permissions. Raises LedgerError."""
        return await self._run(lambda c: ordering.change(c, group, **values))

    async def _run(self, work: Callable[[sa.Connection], Group]) -> Group:
        return await self.world.database.run(work)
