"""Answers to the commands' questions about limit orders and platforms, and orders to them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from merkat.answers.json_rows import json_row
from merkat.answers.tenant_names import TenantNames
from merkatd.client import LimitOrders, Merkat, Platforms
from merkatd.commands.terminal.command_parser import NotDoneError

_SIZES = ("cpu", "memory", "network", "disk", "market")


class OrderAnswers:
    """The answers about limit orders and platforms."""

    def __init__(self, merkat: Merkat, names: TenantNames) -> None:
        self._names = names
        self._orders = LimitOrders(merkat)
        self._platforms = Platforms(merkat)
        self.known: Mapping[str, Callable[..., Any]] = {
            "limit_order_book": self._book,
            "limit_order_change": self._change,
            "limit_order_delete": self._delete,
            "limit_order_quote": self._quote,
            "limit_order_set": self._set,
            "limit_orders": self._list,
            "platform": lambda platform: json_row(self._platforms.show(platform)),
            "platform_quote": self._platform_quote,
            "platform_resume": self._resume,
            "platform_stop": self._stop,
            "platform_submit": self._submit,
            "platform_suspend": self._suspend,
            "platform_update": self._update,
            "platforms": self._platform_list,
        }

    # -- limit orders -------------------------------------------------------------------------

    def _list(self, market: str = "") -> Any:
        del market  # as the control socket does: only the book is of one market
        return [json_row(order) for order in self._orders.list()]

    def _book(self, market: str = "") -> Any:
        return [json_row(order) for order in self._orders.book(market)]

    def _set(
        self, vms: Sequence[str], limit: float, least_run_s: float = 0.0, factor: float = 1.0
    ) -> Any:
        ids = [self._names.vm(vm) for vm in vms]
        return self._row(self._orders.set(ids, limit=limit, least_run_s=least_run_s, factor=factor))

    def _change(self, order: int, **terms: float) -> Any:
        return self._row(self._orders.change(order, **terms))

    def _delete(self, order: int) -> Any:
        row = self._row(order)
        self._orders.delete(order)
        return row

    def _quote(
        self,
        vms: Sequence[str] = (),
        limits: Sequence[float] | None = None,
        work_s: float | None = None,
        within_s: float | None = None,
        **size: Any,
    ) -> Any:
        ids = [self._names.vm(vm) for vm in vms]
        given = {name: value for name, value in size.items() if name in _SIZES}
        quote = self._orders.quote(ids, size=given, work_s=work_s, within_s=within_s, limits=limits)
        return json_row(quote)

    def _row(self, order: int) -> Any:
        for row in self._orders.list():
            if row.id == order:
                return json_row(row)
        raise NotDoneError(f"limit order {order} does not exist or is not yours")

    # -- platforms ----------------------------------------------------------------------------

    def _platform_list(self, tenant: str | None = None) -> Any:
        return [json_row(row) for row in self._platforms.list(self._names.tenant(tenant))]

    def _platform_quote(self, template: str, tenant: str | None = None) -> Any:
        quote = self._platforms.quote(template, self._names.tenant(tenant))
        return json_row(quote)

    def _submit(self, template: str, tenant: str | None = None, who: str = "") -> Any:
        del who  # the interface records the login's user
        return json_row(self._platforms.submit(template, self._names.tenant(tenant)))

    def _update(self, platform: int, who: str = "", **change: Any) -> Any:
        del who
        return json_row(self._platforms.update(platform, **change))

    def _suspend(self, platform: int, who: str = "") -> Any:
        del who
        return json_row(self._platforms.suspend(platform))

    def _resume(self, platform: int, who: str = "") -> Any:
        del who
        return json_row(self._platforms.resume(platform))

    def _stop(self, platform: int, who: str = "") -> Any:
        del who
        return json_row(self._platforms.stop(platform))
