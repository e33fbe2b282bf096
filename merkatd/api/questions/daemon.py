"""The questions of a daemon with its scheduler, by name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import sqlalchemy as sa

from merkatd.api.questions import bidding, history, lists
from merkatd.api.questions.explaining import explained
from merkatd.api.questions.present import Present, present
from merkatd.api.questions.rehearsal import rehearsed
from merkatd.api.questions.words import (
    Arguments,
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
from merkatd.database import accounts, audit, bids, decisions, periods
from merkatd.database.accounts import AccountKind
from merkatd.scheduler.charge import MICRO
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.tell import Announcement

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

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._present: tuple[Announcement, Present] | None = None
        self._known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "status": self._status,
            "pause": self._pause,
            "resume": self._resume,
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
            "plan": self._plan,
            "overview": self._overview,
        }

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

        def read(connection: sa.Connection) -> dict[str, Any]:
            newest = periods.newest(connection)
            return {
                "outstanding_steps": len(decisions.outstanding(connection)),
                "newest_period": None if newest is None else newest.number,
                "newest_state": None if newest is None else str(newest.state),
                "accounts_sound": audit.audit(connection).sound,
            }

        stored = await scheduler.world.database.read(read)
        return stored | {
            "paused": scheduler.paused,
            "failures": scheduler.failures,
            "interval_s": scheduler.world.rhythm.interval_s,
            "now_s": scheduler.world.now(),
            "period": None if latest is None else latest.period,
            "at_s": None if latest is None else latest.at_s,
            "prices": None if latest is None else _by_market(latest.prices),
            "hosts": None if latest is None else len(latest.seen.snapshot.hosts),
            "vms": None if latest is None else len(latest.seen.snapshot.vms),
        }

    async def _pause(self, _arguments: Arguments) -> bool:
        """Begin no more periods until told to resume."""
        self._scheduler.paused = True
        return True

    async def _resume(self, _arguments: Arguments) -> bool:
        """Go on."""
        self._scheduler.paused = False
        return True

    async def _snapshot(self, _arguments: Arguments) -> str:
        """What the latest decision was made from, as JSON text."""
        snapshot = self._latest().seen.snapshot
        return await self._scheduler.world.executor.run(lambda: dumps(snapshot))

    async def _plan(self, _arguments: Arguments) -> dict[str, Any]:
        """What a period that begins now would do."""
        return await rehearsed(self._scheduler.world)

    # -- the present --------------------------------------------------------------------------

    async def _hosts(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every host."""
        return await self._from_present(lists.hosts)

    async def _vms(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every VM."""
        return await self._from_present(lists.vms)

    async def _applications(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Every application, and every tenant's VMs that belong to none."""
        balances = await self._balances()
        return await self._from_present(lambda now: lists.applications(now, balances))

    async def _explain(self, arguments: Arguments) -> dict[str, Any]:
        """One VM: `vm` is its id or its name."""
        now = self._now()
        row = vm_row(now.snapshot, arguments)
        vm = int(now.snapshot.vms.id[row])
        word, steps = await self._scheduler.world.database.read(
            lambda connection: (
                bids.current(connection, [vm]).get(vm),
                decisions.history(connection, vm),
            )
        )
        balance = (await self._balances()).get(int(now.snapshot.vms.owner[row]))
        return explained(now, row, word, steps, balance)

    async def _bid(self, arguments: Arguments) -> dict[str, Any]:
        """A new bid for `vm` where `cpu` or `memory` is given, else the present one."""
        now = self._now()
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
            raise QuestionError(f"VM {vm}: somebody has said a newer word on its bid; look again")
        market = world.markets[int(now.snapshot.vms.market[row])]
        return {
            "id": vm,
            "name": now.snapshot.vms.name[row],
            "changed": offer.changes,
            "resources": bidding.expected(now, row, market, offer),
        }

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
        latest = self._latest()
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
        return await world.database.read(history.price_history(arguments, names))

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
        balances = await self._balances()
        return [{"owner": owner, "credits": balance} for owner, balance in balances.items()]

    # -- what they have in common -------------------------------------------------------------

    def _latest(self) -> Announcement:
        if self._scheduler.latest is None:
            raise QuestionError("there was no period yet: try again in a moment")
        return self._scheduler.latest

    def _now(self) -> Present:
        """Worked out once a period."""
        latest = self._latest()
        if self._present is None or self._present[0] is not latest:
            self._present = (latest, present(latest, self._scheduler.world.markets))
        return self._present[1]

    async def _from_present(
        self, rows: Callable[[Present], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Rows made where they hold nobody up."""
        now = self._now()
        return await self._scheduler.world.executor.run(lambda: rows(now))

    async def _balances(self) -> dict[int, float]:
        """Credits by owner."""
        rows = await self._scheduler.world.database.read(
            lambda connection: accounts.every(connection, AccountKind.TENANT)
        )
        return {row.owner: row.balance / MICRO for row in rows if row.owner is not None}

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
        snapshot = self._latest().seen.snapshot
        if what == "vm":
            return int(snapshot.vms.id[vm_row(snapshot, arguments)])
        return int(snapshot.hosts.id[host_row(snapshot, arguments)])


def _by_market(
    prices: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float | None]]:
    """JSON has no infinity: no price clears is null."""
    return {
        market: {name: finite(one) for name, one in by_resource.items()}
        for market, by_resource in prices.items()
    }
