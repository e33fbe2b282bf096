"""Hosts, VMs and applications of lists as plain dicts."""

from merkatd.api.values.market_rows import Row, flat_row
from merkatd.service.market.listings import ApplicationUse, ListedHost, ListedVm


def host_row(host: ListedHost) -> Row:
    """Return a host; only administrators see what all tenants together have on it."""
    use = host.use
    about = {"id": host.id, "name": host.name, "state": host.state, "market": host.market}
    if use is None:
        return {**about, **host.capacity}
    columns: Row = {**about, "vms": use.vms, "note": use.note}
    for name, capacity in host.capacity.items():
        columns[name] = capacity
        columns[f"given_{name}"] = use.given[name]
        columns[f"bids_{name}"] = use.bids[name]
        columns[f"used_{name}"] = use.used[name]
    return columns


def vm_row(vm: ListedVm) -> Row:
    """Return a VM, with its bids and shares by resource."""
    columns = flat_row(vm)
    del columns["amounts"]
    for name, amount in vm.amounts.items():
        columns[name] = amount.share
        columns[f"bid_{name}"] = amount.bid
        columns[f"floor_{name}"] = amount.floor
        columns[f"cap_{name}"] = amount.cap
        columns[f"first_{name}"] = amount.first
        columns[f"held_{name}"] = amount.held
    return columns


def application_row(application: ApplicationUse) -> Row:
    """Return an application, with its VMs' bids and shares by resource."""
    columns = flat_row(application)
    del columns["shares"], columns["bids"]
    for name, share in application.shares.items():
        columns[name] = share
        columns[f"bid_{name}"] = application.bids[name]
    return columns
