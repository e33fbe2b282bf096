"""Reports as plain dicts."""

from typing import Any

from merkatd.api.values.market_rows import Row, flat_row
from merkatd.api.values.plan_rows import plan_row
from merkatd.service.reports.capacity import CapacityReport, HostVacancy, MarketVacancy
from merkatd.service.reports.tenant_reports import TenantShare
from merkatd.service.reports.what_if import ComparedPlans


def share_row(share: TenantShare) -> Row:
    """Return a tenant's share, with its amounts and parts by resource."""
    columns = flat_row(share)
    del columns["amounts"], columns["parts"]
    for name, amount in share.amounts.items():
        columns[name] = amount
        columns[f"part_{name}"] = share.parts[name]
    return columns


def capacity_row(capacity: CapacityReport) -> Row:
    """Return the room for VMs of a size, by market and host."""
    return {
        "size": dict(capacity.size),
        "markets": [_market_row(market) for market in capacity.markets],
    }


def _market_row(market: MarketVacancy) -> Row:
    return {**flat_row(market), "hosts": [_host_row(host) for host in market.hosts]}


def _host_row(host: HostVacancy) -> Row:
    columns = flat_row(host)
    del columns["free"], columns["bid"]
    for name, amount in host.free.items():
        columns[f"free_{name}"] = amount
        columns[f"bid_{name}"] = host.bid[name]
    return columns


def comparison_row(compared: ComparedPlans) -> Row:
    """Return the plans of the cloud now and of the changed cloud, with their differences."""
    now, then = plan_row(compared.now), plan_row(compared.then)
    before = {vm["id"]: vm for vm in now["vms"]}
    return {
        "without": list(compared.without),
        "more": list(compared.more),
        "budgets": dict(compared.budgets),
        "prices": [
            {
                "market": name,
                "resource": resource,
                "now": price,
                "then": then["markets"][name]["price"][resource],
            }
            for name, market in now["markets"].items()
            for resource, price in market["price"].items()
        ],
        "vms": [_compared(before.get(vm["id"], {}), vm) for vm in then["vms"]],
        "now": now,
        "then": then,
    }


def _compared(now: Row, then: Row) -> Row:
    columns: dict[str, Any] = {"id": then["id"], "name": then["name"]}
    for moment, vm in (("now", now), ("then", then)):
        columns[f"host_{moment}"] = vm.get("host")
        for name, share in vm.get("share", {}).items():
            columns[f"{name}_{moment}"] = share
        columns[f"cost_{moment}"] = vm.get("cost")
    return columns
