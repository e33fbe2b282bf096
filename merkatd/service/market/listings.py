"""Lists of hosts, VMs, applications and accounts; questions about the latest period."""

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster import BIDDING, HostState, VmState
from merkatd.cluster.columns import NO_HOST
from merkatd.currency import MICRO
from merkatd.database.scheduler import bid_store
from merkatd.market.error import errors
from merkatd.market.market_view import market_view
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import Arguments
from merkatd.service.base.payer_balances import Purses, purses
from merkatd.service.base.period_view import PeriodView, PeriodViews, vm_row
from merkatd.service.market import bids
from merkatd.service.market.explanations import explanation
from merkatd.service.market.quotes import new_subject, quote_row, vm_subject

Row = dict[str, Any]
HOST_STATES = {
    HostState.ON: "on",
    HostState.DRAINED: "drain",
    HostState.OFF: "off",
    HostState.DISABLED: "dsbl",
}
"""The short names of `onehost list`; a host in error is shown as off."""
_RUNS = (VmState.RUNNING, VmState.BUSY)


def hosts(now: PeriodView, drained: AbstractSet[int] = frozenset()) -> list[Row]:
    """Return every host with its capacity, allocations, bids and last observed use.

    `drained` are the ids of the hosts that an order drains.
    """
    table, snapshot = now.snapshot.hosts, now.snapshot
    there = np.flatnonzero(now.host != NO_HOST)
    count = np.bincount(now.host[there], minlength=len(table))
    bids, gets = np.isin(snapshot.vms.state, BIDDING), now.given()
    rows: list[Row] = [
        {
            "id": int(table.id[row]),
            "name": table.name[row],
            "state": "drain"
            if int(table.id[row]) in drained
            else HOST_STATES[HostState(int(table.state[row]))],
            "market": now.market_name(int(table.market[row])),
            "vms": int(count[row]),
            "note": now.limits.overfull.get(int(table.id[row]))
            or now.failing_to_leave.get(int(table.id[row]))
            or _drained(int(table.id[row]) in drained, int(count[row])),
        }
        for row in range(len(table))
    ]
    for column, name in enumerate(snapshot.resources):
        given = _sums(now, gets[there, column])
        bid = _sums(now, np.where(bids, snapshot.vms.bid[:, column], 0.0)[there])
        for row, found in enumerate(rows):
            found[name] = finite(table.capacity[row, column])
            found[f"given_{name}"] = float(given[row])
            found[f"bids_{name}"] = float(bid[row])
            found[f"used_{name}"] = finite(table.used[row, column])
    return rows


def _drained(drained: bool, vms: int) -> str | None:
    if not drained:
        return None
    return f"drained, {vms} VMs left" if vms else "drained and empty"


def _sums(now: PeriodView, values: Any) -> Any:
    """Return the sums of the values of the VMs on each host: [hosts]."""
    there = np.flatnonzero(now.host != NO_HOST)
    return np.bincount(now.host[there], values, len(now.snapshot.hosts))


def vms(now: PeriodView) -> list[Row]:
    """Return every VM with its host, bids, allocations, cost, and the message to its owner."""
    table, snapshot = now.snapshot.vms, now.snapshot
    first = _first(now)
    given = now.decision.allocations
    error = errors(first, given).max(axis=1, initial=0.0)
    rows: list[Row] = []
    for row, vm in enumerate(table.id.tolist()):
        found: Row = {
            "id": vm,
            "name": table.name[row],
            "owner": _known(table.owner[row]),
            "owner_name": now.owner_names.get(int(table.owner[row])),
            "application": _known(table.application[row]),
            "state": now.states[row],
            "host": now.host_name(row),
            "market": now.market_name(int(table.market[row])),
            "vcpus": int(table.vcpus[row]),
            "rate": finite(now.rate[row]),
            "cost": float(now.cost[row].sum()),
            "error": float(error[row]),
            "message": now.messages.get(vm),
        }
        for column, name in enumerate(snapshot.resources):
            found[name] = float(given[row, column])
            found[f"bid_{name}"] = float(table.bid[row, column])
            found[f"floor_{name}"] = float(table.floor[row, column])
            found[f"cap_{name}"] = float(table.cap[row, column])
            found[f"first_{name}"] = float(first[row, column])
            found[f"held_{name}"] = finite(table.held[row, column])
        rows.append(found)
    return rows


def _first(now: PeriodView) -> Any:
    """Return the VMs' shares if their market were a single host: [vms, resources]."""
    snapshot = now.snapshot
    found = np.zeros_like(snapshot.vms.bid)
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        found[view.vms] = view.first(now.host[view.vms] != NO_HOST).allocation
    return found


def applications(now: PeriodView, purses: Purses) -> list[Row]:
    """Return every application, and for each tenant its VMs outside of applications."""
    table, snapshot = now.snapshot.vms, now.snapshot
    groups: dict[tuple[int, int], list[int]] = {}
    for row, key in enumerate(zip(table.owner.tolist(), table.application.tolist(), strict=True)):
        groups.setdefault(key, []).append(row)
    rows: list[Row] = []
    for (owner, application), members in sorted(groups.items()):
        state = table.state[members]
        bids = np.isin(state, BIDDING)
        cost = float(now.cost[members].sum())
        balance = purses.credits(owner, application)
        found: Row = {
            "application": _known(application),
            "name": purses.name(application),
            "owner": _known(owner),
            "owner_name": now.owner_names.get(owner),
            "vms": len(members),
            "running": int(np.isin(state, _RUNS).sum()),
            "pending": int((state == VmState.PENDING).sum()),
            "cost": cost,
            "balance": balance,
            "lasts": None if balance is None or cost <= 0 else balance / cost,
        }
        for column, name in enumerate(snapshot.resources):
            found[name] = float(now.decision.allocations[members, column].sum())
            found[f"bid_{name}"] = float(np.where(bids, table.bid[members, column], 0.0).sum())
        rows.append(found)
    return rows


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)


class PresentQuestions:
    """The questions about the latest period, and about the outcome of other bids."""

    def __init__(self, scheduler: Scheduler, preparing: PeriodViews) -> None:
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
        """Return every host."""
        drained = self._scheduler.drained
        return await self._from_present(lambda now: hosts(now, drained))

    async def vms(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Return every VM."""
        return await self._from_present(vms)

    async def _applications(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Return every application, and each tenant's VMs outside of applications."""
        purses = await self._purses()
        return await self._from_present(lambda now: applications(now, purses))

    async def _explain(self, arguments: Arguments) -> dict[str, Any]:
        """Return the explanation of `vm`, an id or a name."""
        now = await self._now()
        row = vm_row(now.snapshot, arguments)
        return await explanation(self._scheduler.world, now, row)

    async def _bid(self, arguments: Arguments) -> dict[str, Any]:
        """Change the bid of `vm` if `cpu`, `memory` ... is given; return the old and new bid."""
        prepared = await self.preparing.prepared()
        now = prepared.now
        world = self._scheduler.world
        row = vm_row(now.snapshot, arguments)
        vm = int(now.snapshot.vms.id[row])

        def change_bid(connection: sa.Connection) -> bids.BidChange:
            newest_bid = bid_store.newest_bids(connection, [vm]).get(vm)
            offer = bids.bid_change(now, row, arguments, newest_bid)
            if offer.changes:
                bids.store_bid(connection, offer, world.now())
            return offer

        offer = await world.database.run(change_bid)
        return {
            "id": vm,
            "name": now.snapshot.vms.name[row],
            "changed": offer.changes,
            "resources": bids.expected_outcome(prepared, row, offer),
        }

    async def _quote(self, arguments: Arguments) -> dict[str, Any]:
        """Return the quote of bids for `vm`, or for a planned VM if `vm` is not given."""
        prepared = await self.preparing.prepared()
        if arguments.get("vm") is None:
            markets = self._scheduler.world.markets
            return quote_row(new_subject(prepared, markets, arguments), arguments)
        row = vm_row(prepared.now.snapshot, arguments)
        return quote_row(vm_subject(prepared, row), arguments)

    async def _accounts(self, _arguments: Arguments) -> list[dict[str, Any]]:
        """Return every tenant's balance in credits."""
        tenants = (await self._purses()).tenants
        return [
            {"owner": owner, "credits": account.balance / MICRO}
            for owner, account in tenants.items()
        ]

    async def _now(self) -> PeriodView:
        return (await self.preparing.prepared()).now

    async def _from_present(
        self, rows: Callable[[PeriodView], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Return rows that a thread computes, so that the reactor is not blocked."""
        now = await self._now()
        return await self._scheduler.world.executor.run(lambda: rows(now))

    async def _purses(self) -> Purses:
        """Return the balances of all payers."""
        return await self._scheduler.world.database.read(purses)
