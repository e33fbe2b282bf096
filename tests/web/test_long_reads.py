"""Reads of a page that may take a second wait for their turn, like tenants' long calls."""

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.scheduler.base.settings import GoodsSettings
from merkatd.service.base.callers import Caller
from merkatd.service.base.identity import Identity
from merkatd.service.base.turns import FairTurns
from merkatd.service.market.balance_history import BalanceChanges, BalanceHistory
from merkatd.web.layout.history_panels import tenant_charts


def test_a_users_long_reads_take_turns() -> None:
    """Eight windows of one user use no more of the database than one."""
    reading: list[Deferred[Any]] = []

    def stored(*_: Any) -> Deferred[Any]:
        reading.append(Deferred())
        return reading[-1]

    async def read(_key: Any, work: Any) -> Any:
        return await work()

    database = SimpleNamespace(read=stored)
    world = SimpleNamespace(now=lambda: 0.0, goods=GoodsSettings(), database=database)
    scheduler: Any = SimpleNamespace(world=world)
    balances = BalanceHistory(scheduler)
    house = SimpleNamespace(world=world, long_reads=FairTurns(2, per_key=1), balances=balances)
    results: list[Any] = []

    def visit(uid: int) -> None:
        caller = Caller(Identity(uid, "ann", frozenset({1}), 1), "")
        here: Any = SimpleNamespace(
            chart_moments=[], house=house, read=read, id=uid, uid=uid, caller=caller
        )
        ensureDeferred(tenant_charts(here)).addBoth(results.append)

    for _ in range(8):
        visit(2)
    assert len(reading) == 1
    visit(3)
    assert len(reading) == 2
    for number in range(9):
        reading[number].callback(BalanceChanges(0.0, []))
    assert len(results) == 9
