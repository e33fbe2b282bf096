"""Questions about the present: hosts, VMs, applications, and what bids get and cost."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa

from merkatd.api.questions import bidding, lists
from merkatd.api.questions.explaining import explained
from merkatd.api.questions.prepared import Preparing
from merkatd.api.questions.present import Present
from merkatd.api.questions.purses import Purses, purses
from merkatd.api.questions.quoting import new_subject, quoted, vm_subject
from merkatd.api.questions.words import Arguments, vm_row
from merkatd.currency import MICRO
from merkatd.database.scheduler import bid_store, journal
from merkatd.scheduler.context import World
from merkatd.scheduler.period import Scheduler


class PresentQuestions:
    """What the latest period found and decided, and what would be if somebody bid otherwise."""

    def __init__(self, scheduler: Scheduler, preparing: Preparing) -> None:
        self._scheduler = scheduler
        self.preparing = preparing
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "hosts": self.hosts,
            "vms": self.vms,
            "applications": self._applications,
            "accounts": self._accounts,
            "explain": self._explain,
            "bid": self._bid,
            "quote": self._quote,
        }

    async def hosts(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every host."""
        drained = self._scheduler.drained
        return await self._from_present(lambda now: lists.hosts(now, drained))

    async def vms(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every VM."""
        return await self._from_present(lists.vms)

    async def _applications(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every application, and every tenant's VMs that belong to none."""
        purses = await self._purses()
        return await self._from_present(lambda now: lists.applications(now, purses))

    async def _explain(self, arguments: Arguments) -> dict[str, Any]:
        """One VM: `vm` is its id or its name."""
        now = await self._now()
        row = vm_row(now.snapshot, arguments)
        return await explanation(self._scheduler.world, now, row)

    async def _bid(self, arguments: Arguments) -> dict[str, Any]:
        """A new bid for `vm` where `cpu`, `memory` ... is given, else the present one."""
        prepared = await self.preparing.prepared()
        now = prepared.now
        world = self._scheduler.world
        row = vm_row(now.snapshot, arguments)
        vm = int(now.snapshot.vms.id[row])

        def say(connection: sa.Connection) -> bidding.Offer:
            word = bid_store.current(connection, [vm]).get(vm)
            offer = bidding.offered(now, row, arguments, word)
            if offer.changes:
                bidding.keep(connection, offer, world.now())
            return offer

        offer = await world.database.run(say)
        return {
            "id": vm,
            "name": now.snapshot.vms.name[row],
            "changed": offer.changes,
            "resources": bidding.expected(prepared, row, offer),
        }

    async def _quote(self, arguments: Arguments) -> dict[str, Any]:
        """What bids would get and cost `vm`, or one that there is not yet."""
        prepared = await self.preparing.prepared()
        if arguments.get("vm") is None:
            markets = self._scheduler.world.markets
            return quoted(new_subject(prepared, markets, arguments), arguments)
        row = vm_row(prepared.now.snapshot, arguments)
        return quoted(vm_subject(prepared, row), arguments)

    async def _accounts(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every tenant's balance in credits."""
        tenants = (await self._purses()).tenants
        return [
            {"owner": owner, "credits": account.balance / MICRO}
            for owner, account in tenants.items()
        ]

    async def _now(self) -> Present:
        return (await self.preparing.prepared()).now

    async def _from_present(
        self, rows: Callable[[Present], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Rows made where they hold nobody up."""
        now = await self._now()
        return await self._scheduler.world.executor.run(lambda: rows(now))

    async def _purses(self) -> Purses:
        """Everybody's credits."""
        return await self._scheduler.world.database.read(purses)


async def explanation(world: World, now: Present, row: int) -> dict[str, Any]:
    """All that can be said of the VM in this row."""
    vms = now.snapshot.vms
    vm, owner, application = int(vms.id[row]), int(vms.owner[row]), int(vms.application[row])
    word, steps, balance = await world.database.read(
        lambda connection: (
            bid_store.current(connection, [vm]).get(vm),
            journal.history(connection, vm),
            purses(connection).credits(owner, application),
        )
    )
    return await world.executor.run(partial(explained, now, row, word, steps, balance))
