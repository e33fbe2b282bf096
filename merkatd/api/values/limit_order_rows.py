"""Limit orders and their quotes as plain dicts, and the VMs that calls name."""

from collections.abc import Mapping
from typing import Any

from merkatd.api.values.market_rows import Row, flat_row
from merkatd.cluster import Snapshot
from merkatd.service.base.limit_terms import MOST_VMS
from merkatd.service.base.period_view import as_id, vm_named
from merkatd.service.limit_quotes import QuotedLimit
from merkatd.service.market.stated_orders import BookedOrder, ListedOrder
from merkatd.service.platform_quotes import QuotedPlatform


def limit_order_row(order: ListedOrder) -> Row:
    """Return a limit order."""
    return flat_row(order) | {"vms": list(order.vms)}


def book_row(order: BookedOrder) -> Row:
    """Return a limit order of the book, with the amount of each resource in its bundle."""
    row = flat_row(order)
    bundle: Mapping[str, float | None] = row.pop("bundle")
    return {**row, **bundle}


def limit_quote_row(quoted: QuotedLimit) -> Row:
    """Return the quote of a limit order, with the amount of each resource in its bundle."""
    row = flat_row(quoted)
    bundle: Mapping[str, float | None] = row.pop("bundle")
    odds = [flat_row(each) for each in quoted.odds]
    return {**row, **bundle, "vms": list(quoted.vms), "odds": odds}


def platform_quote_row(quoted: QuotedPlatform) -> Row:
    """Return the quote of a platform, with the members of its limit order's quote."""
    row = limit_quote_row(quoted.order)
    del row["vms"]
    return {**row, "size": quoted.size, "limit": quoted.limit, "takes": quoted.takes}


def vms_named(snapshot: Snapshot, given: Any) -> Any:
    """Return the ids of VMs that are given as ids or names; the service checks all else."""
    if not isinstance(given, list) or len(given) > MOST_VMS:
        return given
    return [_id_of(snapshot, vm) if isinstance(vm, str) else vm for vm in given]


def _id_of(snapshot: Snapshot, named: str) -> int:
    """Return the VM's id; an id is found without a search through all names."""
    id_ = as_id(named)
    if id_ is not None:
        try:
            return int(snapshot.vms.id[snapshot.vm_row(id_)])
        except KeyError:
            pass  # a name may consist of digits
    return vm_named(snapshot, named)
