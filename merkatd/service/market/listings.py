"""Lists of hosts, VMs, applications and balances, as the latest period found them."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from merkatd.base.quantities import finite
from merkatd.cluster import Floats, HostState, Ints, VmState
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.currency import MICRO
from merkatd.market.error import errors
from merkatd.market.market_view import market_view
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.payer_balances import PayerBalances, payer_balances
from merkatd.service.base.period_view import PeriodView
from merkatd.service.base.visibility import visible_host_rows, visible_vm_rows

HOST_STATES = {
    HostState.ON: "on",
    HostState.DRAINED: "drain",
    HostState.OFF: "off",
    HostState.DISABLED: "dsbl",
}
"""The short names of `onehost list`; a host in error is shown as off."""
_ASLEEP = "asleep: a strategy has switched it off"
_RUNS = (VmState.RUNNING, VmState.BUSY)


@dataclass(frozen=True, slots=True)
class HostUse:
    """What all tenants together have on a host, which only administrators see."""

    vms: int
    note: str | None
    given: Mapping[str, float] = field(default_factory=dict)
    """The sums of the allocations by resource."""
    bids: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float | None] = field(default_factory=dict)
    """The last observed use."""


@dataclass(frozen=True, slots=True)
class ListedHost:
    """A host."""

    id: int
    name: str
    state: str
    market: str | None
    capacity: Mapping[str, float | None]
    """Its capacity by resource; None if it is unknown."""
    use: HostUse | None
    """None for callers that are not administrators."""


@dataclass(frozen=True, slots=True)
class VmAmounts:
    """What a VM bids for a resource and gets of it."""

    share: float
    bid: float
    floor: float
    cap: float
    first: float
    """Its share if its market were a single host."""
    held: float | None


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM with its host, bids, shares, cost, and the message to its owner."""

    id: int
    name: str
    owner: int | None
    owner_name: str | None
    group: str | None
    """The name of its group of users."""
    application: int | None
    state: str
    host: str | None
    market: str | None
    vcpus: int
    running_s: float | None
    """The seconds for which its guest has run, by OpenNebula's last record of the VM."""
    rate: float | None
    """The credits per core used for a period, if its market charges for use."""
    cost: float
    error: float
    """Its largest allocation error."""
    message: str | None
    amounts: Mapping[str, VmAmounts]
    """By resource."""


@dataclass(frozen=True, slots=True)
class ApplicationUse:
    """The VMs of an application, or a tenant's VMs outside of applications."""

    application: int | None
    name: str | None
    owner: int | None
    owner_name: str | None
    vms: int
    running: int
    pending: int
    cost: float
    balance: float | None
    """The balance of the payer."""
    lasts: float | None
    """The number of periods for which the balance lasts."""
    shares: Mapping[str, float]
    """The sums of the shares by resource."""
    bids: Mapping[str, float]


class ListingService:
    """The lists of a period."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def hosts(self, caller: Caller, view: PeriodView) -> list[ListedHost]:
        """Return the hosts that the caller may see: all, or those with VMs of its own."""
        drained = self._scheduler.drained

        def rows() -> list[ListedHost]:
            rows = host_rows(view, visible_host_rows(caller, view), drained)
            return rows if caller.is_admin else [replace(host, use=None) for host in rows]

        return await self._scheduler.world.executor.run(rows)

    async def vms(self, caller: Caller, view: PeriodView) -> list[ListedVm]:
        """Return the VMs that the caller may see: all, or its own."""
        return await self._scheduler.world.executor.run(
            lambda: vm_rows(view, visible_vm_rows(caller, view))
        )

    async def applications(self, caller: Caller, view: PeriodView) -> list[ApplicationUse]:
        """Return the applications that the caller may see, and tenants' VMs outside of them."""
        balances = await self._scheduler.world.database.read(payer_balances)
        return await self._scheduler.world.executor.run(
            lambda: application_rows(view, visible_vm_rows(caller, view), balances)
        )

    async def balances(self, caller: Caller) -> Mapping[int, float]:
        """Return every tenant's balance in credits, by owner. Raise NotPermittedError."""
        require_admin(caller, "ADMIN USERS")
        balances = await self._scheduler.world.database.read(payer_balances)
        return {owner: account.balance / MICRO for owner, account in balances.tenants.items()}


def host_rows(
    view: PeriodView, rows: Sequence[int], drained: AbstractSet[int] = frozenset()
) -> list[ListedHost]:
    """Return the hosts in these rows; `drained` are the ids of the hosts that an order drains."""
    table, snapshot = view.snapshot.hosts, view.snapshot
    there = np.flatnonzero(view.host != NO_HOST)
    count = np.bincount(view.host[there], minlength=len(table))
    bidding, gets = snapshot.vms.bidding, view.given()
    bids = np.where(bidding[:, np.newaxis], snapshot.vms.bid, 0.0)[there]
    names = snapshot.resources
    given_sums = [_sums(view, there, gets[there, column]) for column in range(len(names))]
    bid_sums = [_sums(view, there, bids[:, column]) for column in range(len(names))]

    def by_resource(sums: Sequence[Floats], row: int) -> dict[str, float]:
        return {name: float(column[row]) for name, column in zip(names, sums, strict=True)}

    def measured(values: Floats) -> dict[str, float | None]:
        return {name: finite(value) for name, value in zip(names, values, strict=True)}

    return [
        ListedHost(
            id=host,
            name=table.name[row],
            state=host_state(view, row, drained),
            market=view.market_name(int(table.market[row])),
            capacity=measured(table.capacity[row]),
            use=HostUse(
                vms=int(count[row]),
                note=view.limits.overfull.get(host)
                or view.failing_to_leave.get(host)
                or _drained(host in drained, int(count[row]))
                or (_ASLEEP if table.asleep[row] else None),
                given=by_resource(given_sums, row),
                bids=by_resource(bid_sums, row),
                used=measured(table.used[row]),
            ),
        )
        for row, host in zip(rows, table.id[list(rows)].tolist(), strict=True)
    ]


def host_state(view: PeriodView, row: int, drained: AbstractSet[int]) -> str:
    """Return the state of the host in this row, as `onehost list` writes it."""
    table = view.snapshot.hosts
    if int(table.id[row]) in drained:
        return "drain"
    return HOST_STATES[HostState(int(table.state[row]))]


def _drained(drained: bool, vms: int) -> str | None:
    if not drained:
        return None
    return f"drained, {vms} VMs left" if vms else "drained and empty"


def _sums(view: PeriodView, there: Ints, values: Floats) -> Any:
    """Return the sums of the values of the VMs in the rows `there`, on each host: [hosts]."""
    return np.bincount(view.host[there], values, len(view.snapshot.hosts))


def vm_rows(view: PeriodView, rows: Sequence[int]) -> list[ListedVm]:
    """Return the VMs in these rows."""
    table, snapshot = view.snapshot.vms, view.snapshot
    first = _first(view)
    given = view.decision.allocations
    error = displayed_errors(first, given, table.cap).max(axis=1, initial=0.0)

    def amounts(row: int) -> dict[str, VmAmounts]:
        return {
            name: VmAmounts(
                share=float(given[row, column]),
                bid=float(table.bid[row, column]),
                floor=float(table.floor[row, column]),
                cap=float(table.cap[row, column]),
                first=float(first[row, column]),
                held=finite(table.held[row, column]),
            )
            for column, name in enumerate(snapshot.resources)
        }

    return [
        ListedVm(
            id=int(table.id[row]),
            name=table.name[row],
            owner=_known(table.owner[row]),
            owner_name=view.owner_names.get(int(table.owner[row])),
            group=view.group_names.get(int(table.id[row])),
            application=_known(table.application[row]),
            state=view.states[row],
            host=view.host_name(row),
            market=view.market_name(int(table.market[row])),
            vcpus=int(table.vcpus[row]),
            running_s=finite(max(view.at_s - float(table.started_s[row]), 0.0)),
            rate=finite(view.rate[row]),
            cost=float(view.cost[row].sum()),
            error=float(error[row]),
            message=view.messages.get(int(table.id[row])),
            amounts=amounts(row),
        )
        for row in rows
    ]


_CLOSE = 1e-9


def displayed_errors(first: Floats, given: Floats, cap: Floats) -> Floats:
    """Return Eq. 2 for each VM and resource; 0 for a resource that the VM has in full.

    A VM can get its cap on its host although it would get less if its market were one host. Eq. 2
    counts that surplus as an error, but nothing is wrong with the VM.
    Example: a VM with a cap of 100 gets 100 on its host, and would get 67 of the whole market. Its
    error is |67 - 100| / 67 = 0.5, and the displayed one 0.
    """
    return np.where(given >= cap * (1 - _CLOSE), 0.0, errors(first, given))


def _first(now: PeriodView) -> Floats:
    """Return the VMs' shares if their market were a single host: [vms, resources]."""
    snapshot = now.snapshot
    allocation: Floats = np.zeros_like(snapshot.vms.bid)
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        allocation[view.vms] = view.first(now.host[view.vms] != NO_HOST).allocation
    return allocation


def application_rows(
    view: PeriodView, rows: Sequence[int], balances: PayerBalances
) -> list[ApplicationUse]:
    """Return the applications of the VMs in these rows, and tenants' VMs outside of them."""
    table, snapshot = view.snapshot.vms, view.snapshot
    groups: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        groups.setdefault((int(table.owner[row]), int(table.application[row])), []).append(row)
    applications: list[ApplicationUse] = []
    for (owner, application), members in sorted(groups.items()):
        state = table.state[members]
        bidding = table.bidding[members]
        cost = float(view.cost[members].sum())
        balance = balances.credits(owner, application)
        applications.append(
            ApplicationUse(
                application=_known(application),
                name=balances.name(application),
                owner=_known(owner),
                owner_name=view.owner_names.get(owner),
                vms=len(members),
                running=int(is_one_of(state, _RUNS).sum()),
                pending=int((state == VmState.PENDING).sum()),
                cost=cost,
                balance=balance,
                lasts=None if balance is None or cost <= 0 else balance / cost,
                shares={
                    name: float(view.decision.allocations[members, column].sum())
                    for column, name in enumerate(snapshot.resources)
                },
                bids={
                    name: float(np.where(bidding, table.bid[members, column], 0.0).sum())
                    for column, name in enumerate(snapshot.resources)
                },
            )
        )
    return applications


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)
