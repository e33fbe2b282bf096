"""The control socket's questions about prices, quotes, bids and explanations."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from merkatd.api.values.market_arguments import amounts_of, planned_vm_of
from merkatd.api.values.market_rows import (
    Row,
    bid_change_row,
    explanation_row,
    flat_row,
    past_price_row,
    price_trend_row,
    quote_row,
)
from merkatd.service.base.arguments import Arguments, one_of, text, whole
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import QuotedView, vm_named
from merkatd.service.market.prices import DEFAULT_PERIODS
from merkatd.service.market.quotes import LEAST, MOST, WANTED, ExistingVm, require_sold
from merkatd.service.services import DaemonServices


class MarketQuestions:
    """The questions about prices, quotes, bids and explanations."""

    def __init__(self, services: DaemonServices) -> None:
        self._services = services
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "bid": self._bid,
            "explain": self._explain,
            "explain_application": self._explain_application,
            "explain_price": self._explain_price,
            "explain_refusal": self._explain_refusal,
            "price": self._price,
            "price_history": self._price_history,
            "quote": self._quote,
        }

    async def _price(self, arguments: Arguments) -> list[Row]:
        """Return the present price of each resource in a `market` or in all, with its trend."""
        known = list(self._services.views.latest.prices)
        trends = await self._services.prices.trends(one_of(arguments, "market", known))
        return [price_trend_row(trend) for trend in trends]

    async def _price_history(self, arguments: Arguments) -> list[Row]:
        """Return the prices of the newest `periods` of a `market` or of all."""
        prices = self._services.prices
        market = one_of(arguments, "market", prices.markets())
        periods = whole(arguments, "periods")
        past = await prices.history(DEFAULT_PERIODS if periods is None else periods, market)
        return [past_price_row(price) for price in past]

    async def _bid(self, arguments: Arguments) -> Row:
        """Change the bid of `vm` if `cpu`, `memory` ... is given; return the old and new bid."""
        view = await self._services.views.prepared()
        vm = vm_named(view.now.snapshot, arguments.get("vm"))
        bids = amounts_of(arguments)
        _require_sold_words(view, arguments)
        if bids:
            outcome = await self._services.bids.set_bid(LOCAL, view, vm, bids)
        else:
            outcome = await self._services.bids.read_bid(LOCAL, view, vm)
        row = bid_change_row(outcome)
        return {
            "id": row["id"],
            "name": row["name"],
            "changed": outcome.changed,
            "limit_order": row["limit_order"],
            "resources": row["resources"],
        }

    async def _quote(self, arguments: Arguments) -> Row:
        """Return the quote of bids for `vm`, or for a planned VM if `vm` is not given."""
        view = await self._services.views.prepared()
        bids, wanted = amounts_of(arguments), amounts_of(arguments, WANTED)
        quotes = self._services.quotes
        if arguments.get("vm") is None:
            return quote_row(
                await quotes.quote(LOCAL, view, planned_vm_of(arguments), bids, wanted)
            )
        vm = ExistingVm(vm_named(view.now.snapshot, arguments.get("vm")))
        quoted = await quotes.quote(LOCAL, view, vm, bids, wanted)
        _require_sold_words(view, arguments)
        return quote_row(quoted)

    async def _explain(self, arguments: Arguments) -> Row:
        """Return the explanation of `vm`, an id or a name."""
        view = await self._services.views.prepared()
        vm = vm_named(view.now.snapshot, arguments.get("vm"))
        return explanation_row(await self._services.explanations.explain(LOCAL, view.now, vm))

    async def _explain_application(self, arguments: Arguments) -> Row:
        """Return where the `application` with this id stands."""
        view = await self._services.views.prepared()
        application = whole(arguments, "application")
        if application is None:
            raise InvalidRequestError("application: must be the id of an application")
        standings = self._services.application_standings
        return flat_row(await standings.explain(LOCAL, view.now, application))

    async def _explain_price(self, arguments: Arguments) -> list[Row]:
        """Return how the prices came about, of a `resource` and a `market` or of all."""
        reasons = self._services.price_reasons
        of = text(arguments, "resource"), text(arguments, "market")
        return [flat_row(reason) for reason in await reasons.explain(*of)]

    async def _explain_refusal(self, _arguments: Arguments) -> list[Row]:
        """Return the newest refused requests of all users."""
        return [flat_row(refused) for refused in self._services.refusals.last(LOCAL)]


def _require_sold_words(view: QuotedView, arguments: Arguments) -> None:
    """Raise InvalidRequestError if a word is about a good that is not sold, also an unused word."""
    prefixes = ("", WANTED, MOST, LEAST)
    require_sold(
        view.now.snapshot.resources, {prefix: amounts_of(arguments, prefix) for prefix in prefixes}
    )
