"""Orders stay in the database for a year, so a tenant has a limit per hour."""

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from merkatd.api.xmlrpc.method_table import Method, structs
from merkatd.api.xmlrpc.methods import METHODS
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import RequestError
from merkatd.service.base.identity import Identity
from merkatd.service.base.order_limits import SMALL, OrderCounts

READING = ("book", "info", "list", "history", "explain", "version")
ANN, ADMIN = (
    Caller(Identity(uid, "name", frozenset({group}), group), "") for uid, group in ((5, 1), (0, 0))
)
PER_HOUR = 60.0


class TestLimit:
    def test_an_hours_orders_may_come_at_once(self) -> None:
        """Then one a minute follows; another user has its own limit."""
        clock = Clock()
        orders = OrderCounts(clock, PER_HOUR)
        for _ in range(60):
            orders.count(5, 1.0, [])
        with pytest.raises(RequestError, match="try again in 60 s"):
            orders.count(5, 1.0, [])
        orders.count(6, 1.0, [])
        clock.advance(61.0)
        orders.count(5, 1.0, [])

    def test_a_large_order_counts_as_several(self) -> None:
        """A template of 32 KiB counts as nine; one larger than an hour's orders is allowed."""
        orders = OrderCounts(Clock(), PER_HOUR)
        for _ in range(6):
            orders.count(5, 1.0, ["x" * 32_768])
        with pytest.raises(RequestError):
            orders.count(5, 1.0, ["x" * 32_768])
        orders.count(6, 1.0, ["x" * 1_000_000])

    def test_twenty_bids_count_as_one_order(self) -> None:
        """Two hundred VMs can bid six times an hour."""
        orders = OrderCounts(Clock(), PER_HOUR)
        for _ in range(round(PER_HOUR / SMALL)):
            orders.count(5, SMALL, [])
        with pytest.raises(RequestError):
            orders.count(5, SMALL, [])


class TestMethods:
    @staticmethod
    def ordered(caller: Caller, orders: OrderCounts) -> Any:
        """Return the result of an order."""

        async def function(*_: Any) -> str:
            return "done"

        method = Method("merkat.x", "", (), structs("", {}), "", function, order=1.0)
        house: Any = SimpleNamespace(orders=orders)
        results: list[Any] = []
        ensureDeferred(method.done(house, caller, [])).addBoth(results.append)
        return results[0]

    def test_a_tenant_is_limited_and_an_administrator_is_not(self) -> None:
        """This holds for every interface."""
        orders = OrderCounts(Clock(), 1.0)
        assert self.ordered(ANN, orders) == "done"
        assert self.ordered(ANN, orders).check(RequestError)
        assert self.ordered(ADMIN, orders) == "done"
        assert self.ordered(ADMIN, orders) == "done"

    @pytest.mark.parametrize("name", METHODS)
    def test_each_method_that_changes_data_counts(self, name: str) -> None:
        """Methods of administrators don't."""
        method = METHODS[name]
        reads = name.rpartition(".")[2] in READING or "quote" in name.split(".")
        assert (method.order > 0) == (not reads and not method.admin)
