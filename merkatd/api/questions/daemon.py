"""The questions of a daemon with its scheduler, by name."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

import sqlalchemy as sa

from merkatd.api.questions import bidding, history, limits, lists
from merkatd.api.questions.explaining import explained
from merkatd.api.questions.money import MoneyQuestions
from merkatd.api.questions.money_rows import Names
from merkatd.api.questions.ordering import order_host, who
from merkatd.api.questions.platforms import PlatformQuestions
from merkatd.api.questions.prepared import Preparing
from merkatd.api.questions.present import Present
from merkatd.api.questions.purses import Purses, purses
from merkatd.api.questions.quoting import new_subject, quoted, vm_subject
from merkatd.api.questions.rehearsal import rehearsed
from merkatd.api.questions.words import (
    Arguments,
    NotNowError,
    QuestionError,
    as_id,
    finite,
    host_row,
    one_of,
    shown,
    text,
    vm_row,
    whole,
)
from merkatd.cluster.json_form import dumps
from merkatd.currency import MICRO
from merkatd.database import audit, bids, decisions, periods
from merkatd.database.orders import Order
from merkatd.ledger import Ledger
from merkatd.scheduler.period import Scheduler

TREND = 60
"""Periods that a trend of prices shows."""
NEWEST_STEPS = 20
"""Steps that an overview tells of."""


class Questions(Protocol):
    """Answers questions by name."""

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """A value that JSON can carry. Raises QuestionError."""


class DaemonQuestions:
    """The questions of a daemon with its scheduler."""

    def __init__(
        self,
        scheduler: Scheduler,
        platforms: PlatformQuestions | None = None,
    ) -> None:
        """`platforms` answers about platforms, where any are kept."""
        self._scheduler = scheduler
        self.platforms = platforms
        self.preparing = Preparing(scheduler)
        self._known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "status": self._status,
            "pause": self._pause,
            "resume": self._resume,
            "drain": self._drain,
            "undrain": self._undrain,
            "snapshot": self._snapshot,
            "steps": self._steps,
            "accounts": self._accounts,
            "hosts": self._hosts,
            "vms": self._vms,
            "applications": self._applications,
            "price": self._price,
            "price_history": self._price_history,
            "explain": self._explain,
            "bid": self._bid,
            "quote": self._quote,
            "plan": self._plan,
            "limits": self._limits,
            "release": self._release,
            "overview": self._overview,
        }
        world = scheduler.world
        ledger = Ledger(world.database, world.now, world.money)
        money = MoneyQuestions(ledger, world.now, self.names)
        self._known = {**self._known, **money.known}
        if self.platforms is not None:
            self._known = {**self._known, **self.platforms.known}

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """The answer to a question of this name."""
        found = self._known.get(question)
        if found is None:
            known = ", ".join(sorted(self._known))
            raise QuestionError(f"nobody knows the question {shown(question)}; known are {known}")
        return await found(arguments)

    # -- the daemon itself --------------------------------------------------------------------

    async def _status(self, _arguments: Arguments) -> dict[str, Any]:
        """How the daemon is, and the latest prices."""
        scheduler = self._scheduler
        latest = scheduler.latest
        reach = scheduler.world.hypervisors.reach()

        def read(connection: sa.Connection) -> dict[str, Any]:
            newest = periods.newest(connection)
            return {
                "outstanding_steps": len(decisions.outstanding(connection)),
                "newest_period": None if newest is None else newest.number,
                "newest_state": None if newest is None else str(newest.state),
                "accounts_sound": audit.total(connection) == 0,
            }

        stored = await scheduler.world.database.read(read)
        return stored | {
            "paused": scheduler.paused,
            "standby": scheduler.standby,
            "drained_hosts": sorted(scheduler.drained),
            "failures": scheduler.failures,
            "interval_s": scheduler.world.rhythm.interval_s,
            "now_s": scheduler.world.now(),
            "period": None if latest is None else latest.period,
            "at_s": None if latest is None else latest.at_s,
            "prices": None if latest is None else _by_market(latest.prices),
            "hosts": None if latest is None else len(latest.seen.snapshot.hosts),
            "vms": None if latest is None else len(latest.seen.snapshot.vms),
            "hosts_away": {str(host): why for host, why in reach.away.items()},
            "drift": reach.drift,
        }

    async def _pause(self, arguments: Arguments) -> bool:
        """Begin no more periods until told to resume; false where that was so before."""
        return await self._scheduler.order(Order.PAUSE, who(arguments))

    async def _resume(self, arguments: Arguments) -> bool:
        """Go on; false where there was no pause."""
        return await self._scheduler.order(Order.RESUME, who(arguments))

    async def _drain(self, arguments: Arguments) -> dict[str, Any]:
        """Empty `host` and put nothing there."""
        return await self._order_host(Order.DRAIN, arguments)

    async def _undrain(self, arguments: Arguments) -> dict[str, Any]:
        """Use `host` again."""
        return await self._order_host(Order.UNDRAIN, arguments)

    async def _order_host(self, what: Order, arguments: Arguments) -> dict[str, Any]:
        return await order_host(self._scheduler, what, arguments)

    async def _snapshot(self, _arguments: Arguments) -> str:
        """What the latest decision was made from, as JSON text."""
        snapshot = self.preparing.latest.seen.snapshot
        return await self._scheduler.world.executor.run(lambda: dumps(snapshot))

    async def _plan(self, _arguments: Arguments) -> dict[str, Any]:
        """What a period that begins now would do."""
        return await rehearsed(self._scheduler.world)

    async def _limits(self, arguments: Arguments) -> list[dict[str, Any]]:
        """Limits wanted, set and used, of all VMs or those that `of` names."""
        prepared = await self.preparing.prepared()
        seen = prepared.latest.seen
        return await limits.limits(self._scheduler.world, prepared.now, seen, arguments)

    async def _release(self, arguments: Arguments) -> Any:
        """Pause, and say which VMs there are; then give `vms` their full size back."""
        return await limits.release(self._scheduler, arguments, who(arguments))

    # -- the present --------------------------------------------------------------------------

    async def _hosts(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every host."""
        drained = self._scheduler.drained
        return await self._from_present(lambda now: lists.hosts(now, drained))

    async def _vms(self, _arguments: Arguments) -> list[dict[str, Any]]:
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
        vm = int(now.snapshot.vms.id[row])
        word, steps = await self._scheduler.world.database.read(
            lambda connection: (
                bids.current(connection, [vm]).get(vm),
                decisions.history(connection, vm),
            )
        )
        vms = now.snapshot.vms
        balance = (await self._purses()).credits(int(vms.owner[row]), int(vms.application[row]))
        work = partial(explained, now, row, word, steps, balance)
        return await self._scheduler.world.executor.run(work)

    async def _bid(self, arguments: Arguments) -> dict[str, Any]:
        """A new bid for `vm` where `cpu`, `memory` ... is given, else the present one."""
        prepared = await self.preparing.prepared()
        now = prepared.now
        world = self._scheduler.world
        row = vm_row(now.snapshot, arguments)
        vm = int(now.snapshot.vms.id[row])

        def say(connection: sa.Connection) -> tuple[bidding.Offer, bool]:
            word = bids.current(connection, [vm]).get(vm)
            offer = bidding.offered(now, row, arguments, word)
            stored = not offer.changes or bidding.keep(connection, offer, world.now())
            return offer, stored

        offer, stored = await world.database.run(say)
        if not stored:
            raise NotNowError(f"VM {vm}: somebody has said a newer word on its bid; look again")
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

    async def _overview(self, _arguments: Arguments) -> dict[str, Any]:
        """All that a live view shows, of one moment."""
        status = await self._status({})
        if self._scheduler.latest is None:
            return {"status": status, "price": [], "hosts": [], "vms": [], "steps": []}
        return {
            "status": status,
            "price": await self._price({}),
            "hosts": await self._hosts({}),
            "vms": await self._vms({}),
            "steps": await self._steps({"limit": NEWEST_STEPS}),
        }

    # -- what was -----------------------------------------------------------------------------

    async def _price(self, arguments: Arguments) -> list[dict[str, Any]]:
        """The present price of each resource in one `market` or in all, with its trend."""
        latest = self.preparing.latest
        chosen = one_of(arguments, "market", list(latest.prices))
        past = await self._price_history({"periods": TREND})
        rows = []
        for market, by_resource in latest.prices.items():
            for resource, price in by_resource.items() if chosen in {None, market} else ():
                trend = [row.get(resource) for row in past if row["market"] == market]
                known = [one for one in trend if one is not None]
                rows.append(
                    {
                        "market": market,
                        "resource": resource,
                        "price": finite(price),
                        "before": trend[-2] if len(trend) > 1 else None,
                        "least": min(known, default=None),
                        "most": max(known, default=None),
                        "trend": trend,
                        "period": latest.period,
                        "at_s": latest.at_s,
                    }
                )
        return rows

    async def _price_history(self, arguments: Arguments) -> list[dict[str, Any]]:
        """The prices of the newest `periods`, of one `market` or of all."""
        world = self._scheduler.world
        names = [market.name for market in world.markets]
        return await world.database.read(
            history.price_history(arguments, names, world.goods.resources)
        )

    async def _steps(self, arguments: Arguments) -> list[dict[str, Any]]:
        """The newest steps, newest first, filtered by vm, host, kind, state, periods, time."""
        latest = self._scheduler.latest
        snapshot = None if latest is None else latest.seen.snapshot
        vm = self._id("vm", arguments)
        host = self._id("host", arguments)
        wanted, limit = history.wanted_steps(arguments, vm, host)
        rows = await self._scheduler.world.database.read(
            lambda connection: decisions.recent(connection, wanted, limit)
        )
        return history.step_rows(rows, snapshot)

    async def _accounts(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every tenant's balance in credits."""
        tenants = (await self._purses()).tenants
        return [
            {"owner": owner, "credits": account.balance / MICRO}
            for owner, account in tenants.items()
        ]

    # -- what they have in common -------------------------------------------------------------

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

    def names(self) -> Names:
        """What users and groups are called, as far as the last period saw."""
        latest = self._scheduler.latest
        if latest is None:
            return Names()
        return Names(latest.seen.observation.owner_name, latest.seen.observation.group_name)

    def _id(self, what: str, arguments: Arguments) -> int | None:
        """The id of a VM or host, which may be gone by now; None where none is named."""
        if isinstance(arguments.get(what), int):
            return whole(arguments, what)
        wanted = text(arguments, what)
        if wanted is None:
            return None
        number = as_id(wanted)
        if number is not None:
            return whole({what: number}, what)
        snapshot = self.preparing.latest.seen.snapshot
        if what == "vm":
            return int(snapshot.vms.id[vm_row(snapshot, arguments)])
        return int(snapshot.hosts.id[host_row(snapshot.hosts.id, snapshot.hosts.name, arguments)])


def _by_market(
    prices: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float | None]]:
    """JSON has no infinity: no price clears is null."""
    return {
        market: {name: finite(one) for name, one in by_resource.items()}
        for market, by_resource in prices.items()
    }
