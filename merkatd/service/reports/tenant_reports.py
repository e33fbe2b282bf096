"""Reports by tenant: what each used and paid in past months, and what each has of the cloud now."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from merkatd.base.quantities import quoted_value
from merkatd.cluster import HostState
from merkatd.ledger import MICRO, Ledger, Month, MonthTotal, month_of, parse_month
from merkatd.service.account_rows import KnownNames, TenantStanding, standing_of
from merkatd.service.base.callers import Caller, require_tenant
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.ledger_errors import ledger_errors_translated
from merkatd.service.base.period_view import PeriodView

MOST_MONTHS = 24
"""The most months in a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantMonth:
    """A tenant's month; amounts in credits."""

    month: str
    id: int
    name: str | None
    group_name: str | None
    vms: int
    """The number of VMs that were charged."""
    hours: float
    """The charged running time of all VMs together."""
    cpu_hours: float
    memory_hours: float
    cpu_cost: float
    memory_cost: float
    network_cost: float
    disk_cost: float
    cost: float
    part: float | None
    """The part of all tenants' costs in the month; None for a caller that sees only itself."""
    income: float
    """The credits that renewals and grants added."""
    refunds: float
    micro: int
    """The cost in micro-credits."""
    difference: int
    """The micro-credits by which VMs' costs differ from the charges; always 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantShare:
    """What a tenant may have of the cloud, and what it has now."""

    id: int
    name: str | None
    group_name: str | None
    weight: float
    entitled: float | None
    """The part of all weights; None for a retired tenant."""
    budget: float
    """The credits to which a renewal tops it up."""
    used: float
    """The credits that it paid in this month."""
    left: float
    """The credits in its account and its applications."""
    debt: float
    vms: int
    cost: float
    """The credits of a period."""
    lasts: float | None
    """The number of periods for which its credits last at this cost."""
    amounts: Mapping[str, float]
    """Its allocations by resource."""
    parts: Mapping[str, float | None]
    """Its part of the capacity of all reachable hosts, by resource."""


class TenantReports:
    """The reports by tenant."""

    def __init__(
        self, ledger: Ledger, now: Callable[[], float], names: Callable[[], KnownNames]
    ) -> None:
        """`names` returns OpenNebula's present names of users and groups."""
        self._ledger = ledger
        self._now = now
        self._names = names

    async def months(
        self, caller: Caller, last: str | None, count: int, owner: int | None = None
    ) -> list[TenantMonth]:
        """Return `count` months up to `last` (default: this month), the oldest first.

        Administrators get all tenants, or `owner`; others only themselves. Raise RequestError.
        """
        if not 1 <= count <= MOST_MONTHS:
            raise InvalidRequestError(
                f"months: must be a whole number from 1 to {MOST_MONTHS} (got {count})"
            )
        wanted = _months(_month(last, self._now()), count)
        only = owner if caller.is_admin else caller.uid if owner is None else owner
        if only is not None:
            require_tenant(caller, only)
        totals = await self._ledger.month_totals(wanted, only if not caller.is_admin else None)
        names, known = await self._ledger.names(), self._names()
        tenants = {tenant.owner: tenant for tenant in await self._ledger.tenants()}
        costs: dict[Month, int] = {}
        for total in totals:
            costs[total.month] = costs.get(total.month, 0) + total.cost
        return [
            _row(
                total,
                names.get(total.owner),
                known.group(tenants[total.owner].group) if total.owner in tenants else None,
                costs[total.month] if caller.is_admin else None,
            )
            for total in totals
            if only in {None, total.owner}
        ]

    async def shares(
        self, caller: Caller, view: PeriodView, owner: int | None = None
    ) -> list[TenantShare]:
        """Return the shares of all tenants, or of `owner`; others see only themselves.

        Raise RequestError.
        """
        only = owner if caller.is_admin else caller.uid if owner is None else owner
        if only is not None:
            require_tenant(caller, only)
            with ledger_errors_translated():
                await self._ledger.tenant(only)
        names = self._names()
        standings = [standing_of(tenant, names) for tenant in await self._ledger.tenants()]
        month = month_of(self._now())
        paid = {
            total.owner: -total.movements.get("charge", 0) / MICRO
            for total in await self._ledger.month_totals([month], only)
        }
        weights = sum(tenant.weight for tenant in standings if tenant.retired_s is None)
        return [
            _share(view, tenant, weights, paid.get(tenant.id, 0.0))
            for tenant in standings
            if only in {None, tenant.id}
            and (only is not None or tenant.retired_s is None or tenant.id in paid)
        ]


def _months(last: Month, count: int) -> list[Month]:
    number = last.year * 12 + last.month - 1
    months = [divmod(one, 12) for one in range(number - count + 1, number + 1)]
    return [Month(year, month + 1) for year, month in months if year >= 1970]


def _month(text: str | None, now_s: float) -> Month:
    if not text:
        return month_of(now_s)
    try:
        return parse_month(text)
    except ValueError:
        raise InvalidRequestError(
            f"month: must be like 2026-05 (got {quoted_value(text)})"
        ) from None


def _row(
    total: MonthTotal, name: str | None, group_name: str | None, of_all: int | None
) -> TenantMonth:
    moved = total.movements
    return TenantMonth(
        month=str(total.month),
        id=total.owner,
        name=name,
        group_name=group_name,
        vms=total.vms,
        hours=total.seconds / 3600,
        cpu_hours=total.cpu_core_s / 3600,
        memory_hours=total.memory_gib_s / 3600,
        cpu_cost=total.cpu_cost / MICRO,
        memory_cost=total.memory_cost / MICRO,
        network_cost=total.network_cost / MICRO,
        disk_cost=total.disk_cost / MICRO,
        cost=total.cost / MICRO,
        part=total.cost / of_all if of_all else None,
        income=(moved.get("income", 0) + moved.get("grant", 0)) / MICRO,
        refunds=moved.get("refund", 0) / MICRO,
        micro=total.cost,
        difference=total.difference,
    )


def _share(view: PeriodView, tenant: TenantStanding, weights: float, used: float) -> TenantShare:
    snapshot = view.snapshot
    rows = np.flatnonzero(snapshot.vms.owner == tenant.id)
    given = view.given()[rows].sum(axis=0)
    reachable = snapshot.hosts.state != int(HostState.OFF)
    capacity = np.nansum(snapshot.hosts.capacity[reachable], axis=0)
    cost = float(view.cost[rows].sum())
    active = tenant.retired_s is None
    return TenantShare(
        id=tenant.id,
        name=tenant.name,
        group_name=tenant.group_name,
        weight=tenant.weight,
        entitled=tenant.weight / weights if active and weights > 0 else None,
        budget=tenant.entitlement,
        used=used,
        left=tenant.holdings,
        debt=tenant.debt,
        vms=len(rows),
        cost=cost,
        lasts=tenant.holdings / cost if cost > 0 else None,
        amounts={
            name: float(amount) for name, amount in zip(snapshot.resources, given, strict=True)
        },
        parts={
            name: float(amount / full) if full > 0 else None
            for name, amount, full in zip(snapshot.resources, given, capacity, strict=True)
        },
    )
