"""Limit orders through the interfaces: the cloud of their tests, and what is stored."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import ensureDeferred

from merkatd.cluster.orders import LimitOrder
from merkatd.currency.settings import MoneySettings
from merkatd.database.database import transaction
from merkatd.database.scheduler import limit_order_store
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.period_view import PeriodView
from tests.scheduler.frontend import PASSWORD, Frontend
from tests.service.interfaces import Interfaces, contended

ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"
SET, CHANGE, DELETE = "merkat.order.set", "merkat.order.change", "merkat.order.delete"


def without_orders() -> Iterator[Interfaces]:
    """Yield interfaces with Ann's VMs 0 and 1 and Bob's 2 and 3; all may use VM 1."""
    yield from contended(Frontend(hosts=1, money=MoneySettings(supply=1e6, starting_credits=1e4)))


def owner_of(asked: Interfaces, vm: int) -> int:
    """Return the owner of a VM in the cloud."""
    return asked.frontend.bench.vm(vm).uid


def stored(asked: Interfaces) -> tuple[LimitOrder, ...]:
    """Return all stored limit orders."""
    orders: tuple[LimitOrder, ...] = asked.frontend.read(limit_order_store.living)
    return orders


def view_of(asked: Interfaces) -> PeriodView:
    """Return the view of the latest period."""
    view: PeriodView = asked.frontend.result(ensureDeferred(asked.services.views.prepared())).now
    return view


def write(asked: Interfaces, work: Any) -> Any:
    """Return the result of a function that writes."""
    return transaction(asked.frontend.engine, work)


def state(asked: Interfaces, view: PeriodView, vms: Sequence[Any], limit: Any = 3.5) -> Any:
    """State an order as an administrator, with this view of the latest period."""
    stating = asked.services.limit_orders.state(LOCAL, view, vms, limit)
    return asked.frontend.result(ensureDeferred(stating))


def other(view: PeriodView, **columns: Any) -> PeriodView:
    """Return a view in which VM 1 has these values."""
    vms = view.snapshot.vms
    changed = {}
    for name, value in columns.items():
        column = getattr(vms, name).copy()
        column[1] = value
        changed[name] = column
    return replace(view, snapshot=replace(view.snapshot, vms=replace(vms, **changed)))
