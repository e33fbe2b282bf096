"""The control socket's questions about limit orders."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from merkatd.api.values.limit_order_rows import (
    book_row,
    limit_order_row,
    limit_quote_row,
    vms_named,
)
from merkatd.api.values.market_arguments import amounts_of
from merkatd.api.values.market_rows import Row
from merkatd.service.base.arguments import Arguments, text, whole
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodView
from merkatd.service.limit_quotes import Bundle, QuotedTerms
from merkatd.service.services import DaemonServices


class LimitOrderQuestions:
    """The questions about limit orders."""

    def __init__(self, services: DaemonServices) -> None:
        self._services = services
        self._orders = services.limit_orders
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "limit_order_book": self._book,
            "limit_order_change": self._change,
            "limit_order_delete": self._delete,
            "limit_order_quote": self._quote,
            "limit_order_set": self._set,
            "limit_orders": self._list,
        }

    async def _list(self, _arguments: Arguments) -> list[Row]:
        """Return all limit orders."""
        orders = await self._orders.orders(LOCAL, await self._now())
        return [limit_order_row(order) for order in orders]

    async def _book(self, arguments: Arguments) -> list[Row]:
        """Return the limit orders of a `market`, by default the first, by height."""
        market = text(arguments, "market")
        return [
            book_row(order) for order in await self._orders.book(LOCAL, await self._now(), market)
        ]

    async def _set(self, arguments: Arguments) -> Row:
        """State a limit order of `vms`, ids or names, and return it."""
        view = await self._now()
        terms = {name: arguments[name] for name in ("least_run_s", "factor") if name in arguments}
        vms = vms_named(view.snapshot, arguments.get("vms"))
        order = await self._orders.state(LOCAL, view, vms, arguments.get("limit"), **terms)
        return limit_order_row(order)

    async def _change(self, arguments: Arguments) -> Row:
        """Change `limit`, `least_run_s` or `factor` of `order`, and return the limit order."""
        id_ = _order(arguments)
        terms = {name: arguments.get(name) for name in ("limit", "least_run_s", "factor")}
        return limit_order_row(await self._orders.change(LOCAL, await self._now(), id_, **terms))

    async def _delete(self, arguments: Arguments) -> Row:
        """Delete `order`, and return it as it was."""
        id_ = _order(arguments)
        return limit_order_row(await self._orders.withdraw(LOCAL, await self._now(), id_))

    async def _quote(self, arguments: Arguments) -> Row:
        """Return the quote of an order of `vms`, or of amounts: `cpu`, `memory` ..., `market`."""
        view = await self._services.views.prepared()
        given = arguments.get("vms")
        if given:
            bundle = Bundle(vms=vms_named(view.now.snapshot, given))
        else:
            bundle = Bundle(market=text(arguments, "market"), amounts=amounts_of(arguments))
        names = ("limits", "work_s", "within_s")
        terms = QuotedTerms(**{name: arguments.get(name) for name in names})
        return limit_quote_row(await self._services.limit_quotes.quote(LOCAL, view, bundle, terms))

    async def _now(self) -> PeriodView:
        return (await self._services.views.prepared()).now


def _order(arguments: Arguments) -> int:
    order = whole(arguments, "order")
    if order is None:
        raise InvalidRequestError("order: must be the id of a limit order")
    return order
