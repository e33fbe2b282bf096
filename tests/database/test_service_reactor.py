"""The database on a reactor: work is done by threads, and a server that fails is named."""

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from merkatd.base.backoff import Backoff
from merkatd.database import Database
from merkatd.database.database import UnavailableError
from merkatd.database.scheduler import bid_store
from merkatd.database.scheduler.bid_store import Bid, BidSource

Result = TypeVar("Result")


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_nobody_answers_for_is_waited_for_and_named(tmp_path: Path) -> None:
    """A daemon that starts before its server, as after a power cut, tries for a while."""
    url = f"mysql+pymysql://merkat:hush@localhost/merkat?unix_socket={tmp_path / 'none'}"
    backoff = Backoff(first_s=0.01, longest_s=2.0, retries=2)

    async def main(reactor: Any) -> None:
        await Database.open(url, reactor, np.random.default_rng(0), backoff=backoff)

    with (
        capturedLogs() as logged,
        pytest.raises(UnavailableError, match="Can't connect") as refused,
    ):
        on_a_reactor(main)
    assert sum("migrations failed and is retried" in formatEvent(event) for event in logged) == 2
    assert "hush" not in str(refused.value)
    assert "merkat:***@localhost" in str(refused.value)
    del refused
    gc.collect()


def test_a_driver_that_is_not_installed_is_named_with_the_way_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no password with it."""
    monkeypatch.setitem(sys.modules, "pymysql", None)

    async def main(reactor: Any) -> None:
        await Database.open("mysql+pymysql://u:hush@db/merkat", reactor, np.random.default_rng(0))

    with pytest.raises(UnavailableError, match=r"merkat\[mysql\]") as refused:
        on_a_reactor(main)
    assert "database.url = mysql+pymysql://u:***@db/merkat: " in str(refused.value)


def on_a_reactor(main: Callable[[Any], Coroutine[Deferred[Any], Any, Result]]) -> Result:
    """What a coroutine comes to on a reactor of its own."""
    loop = asyncio.new_event_loop()
    reactor: Any = AsyncioSelectorReactor(loop)
    outcome: list[Any] = []

    def start() -> None:
        done: Deferred[Any] = Deferred.fromCoroutine(main(reactor))
        done.addBoth(outcome.append)
        done.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(start)
    reactor.run(installSignalHandlers=False)
    loop.close()
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    found: Result = outcome[0]
    return found


def test_on_a_reactor_the_work_is_done_by_threads(tmp_path: Path) -> None:
    """Opening migrates; many transactions at once run beside the reactor, and all count."""
    threads: set[int] = set()

    def one(connection: sa.Connection) -> None:
        threads.add(threading.get_ident())
        count = len(bid_store.newest_bids(connection))
        bid_store.record_bids(
            connection, [Bid(vm=count, bid={}, source=BidSource.DEFAULT, at_s=0.0)]
        )

    async def main(reactor: Any) -> int:
        url = f"sqlite:///{tmp_path / 'merkat.db'}"
        database = await Database.open(url, reactor, np.random.default_rng(0), connections=3)
        for running in [Deferred.fromCoroutine(database.run(one)) for _ in range(30)]:
            await running
        count = len(await database.read(bid_store.newest_bids))
        await database.close()
        return count

    assert on_a_reactor(main) == 30
    assert threading.get_ident() not in threads
    assert 1 <= len(threads) <= 3


@pytest.mark.parametrize("writes", [False, True])
def test_periods_wait_behind_no_reads(tmp_path: Path, writes: bool) -> None:
    """A period's transaction runs while others' reads hold every thread and a queue waits."""
    ended = threading.Event()

    def slow(connection: sa.Connection) -> bool:
        bid_store.newest_bids(connection)
        return ended.wait(20.0)

    async def main(reactor: Any) -> bool:
        url = f"sqlite:///{tmp_path / 'merkat.db'}"
        database = await Database.open(url, reactor, np.random.default_rng(0), connections=2)
        reads = [Deferred.fromCoroutine(database.read(slow)) for _ in range(20)]
        await (database.first.run if writes else database.first.read)(bid_store.newest_bids)
        unread = not any(one.called for one in reads)
        assert database.queued >= 18
        ended.set()
        for one in reads:
            assert await one
        await database.close()
        return unread

    assert on_a_reactor(main)


def test_a_database_in_memory_has_one_thread() -> None:
    """Its single connection is never used by two threads, periods' transactions included."""
    threads: set[int] = set()

    def one(connection: sa.Connection) -> None:
        bid_store.newest_bids(connection)
        threads.add(threading.get_ident())

    async def main(reactor: Any) -> None:
        database = await Database.open("sqlite://", reactor, np.random.default_rng(0))
        for run in (database.run, database.first.run, database.first.read) * 5:
            await run(one)
        await database.close()

    on_a_reactor(main)
    assert len(threads) == 1
