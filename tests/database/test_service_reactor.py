"""The database on a reactor: threads do the work, and errors name a failing server."""

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
def test_an_unreachable_server_is_retried_and_named(tmp_path: Path) -> None:
    """A daemon that starts before its server, as after a power failure, retries for a while."""
    url = f"mysql+pymysql://merkat:hush@localhost/merkat?unix_socket={tmp_path / 'none'}"
    backoff = Backoff(first_s=0.01, longest_s=2.0, retries=2)

    async def main(reactor: Any) -> None:
        await Database.open(url, reactor, np.random.default_rng(0), backoff=backoff)

    with (
        capturedLogs() as logged,
        pytest.raises(UnavailableError, match="Can't connect") as refused,
    ):
        run_on_reactor(main)
    assert sum("migrations failed and is retried" in formatEvent(event) for event in logged) == 2
    assert "hush" not in str(refused.value)
    assert "merkat:***@localhost" in str(refused.value)
    del refused
    gc.collect()


def test_a_missing_driver_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error contains no password."""
    monkeypatch.setitem(sys.modules, "pymysql", None)

    async def main(reactor: Any) -> None:
        await Database.open("mysql+pymysql://u:hush@db/merkat", reactor, np.random.default_rng(0))

    with pytest.raises(UnavailableError, match=r"merkat\[mysql\]") as refused:
        run_on_reactor(main)
    assert "database.url = mysql+pymysql://u:***@db/merkat: " in str(refused.value)


def run_on_reactor(main: Callable[[Any], Coroutine[Deferred[Any], Any, Result]]) -> Result:
    """Return the result of a coroutine on a reactor of its own."""
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
    result: Result = outcome[0]
    return result


def test_transactions_run_in_threads_beside_the_reactor(tmp_path: Path) -> None:
    """Opening migrates, and many concurrent transactions all take effect."""
    threads: set[int] = set()

    def store_next_bid(connection: sa.Connection) -> None:
        threads.add(threading.get_ident())
        count = len(bid_store.newest_bids(connection))
        bid_store.record_bids(
            connection, [Bid(vm=count, bid={}, source=BidSource.DEFAULT, at_s=0.0)]
        )

    async def main(reactor: Any) -> int:
        url = f"sqlite:///{tmp_path / 'merkat.db'}"
        database = await Database.open(url, reactor, np.random.default_rng(0), connections=3)
        for running in [Deferred.fromCoroutine(database.run(store_next_bid)) for _ in range(30)]:
            await running
        count = len(await database.read(bid_store.newest_bids))
        await database.close()
        return count

    assert run_on_reactor(main) == 30
    assert threading.get_ident() not in threads
    assert 1 <= len(threads) <= 3


@pytest.mark.parametrize("writes", [False, True])
def test_periods_never_wait_for_reads(tmp_path: Path, writes: bool) -> None:
    """A period's transaction runs while reads occupy every thread and the queue."""
    ended = threading.Event()

    def read_slowly(connection: sa.Connection) -> bool:
        bid_store.newest_bids(connection)
        return ended.wait(20.0)

    async def main(reactor: Any) -> bool:
        url = f"sqlite:///{tmp_path / 'merkat.db'}"
        database = await Database.open(url, reactor, np.random.default_rng(0), connections=2)
        reads = [Deferred.fromCoroutine(database.read(read_slowly)) for _ in range(20)]
        await (database.first.run if writes else database.first.read)(bid_store.newest_bids)
        unread = not any(read.called for read in reads)
        assert database.queued >= 18
        ended.set()
        for read in reads:
            assert await read
        await database.close()
        return unread

    assert run_on_reactor(main)


def test_a_database_in_memory_has_one_thread() -> None:
    """One thread uses its only connection, also for periods' transactions."""
    threads: set[int] = set()

    def note_thread(connection: sa.Connection) -> None:
        bid_store.newest_bids(connection)
        threads.add(threading.get_ident())

    async def main(reactor: Any) -> None:
        database = await Database.open("sqlite://", reactor, np.random.default_rng(0))
        for run in (database.run, database.first.run, database.first.read) * 5:
            await run(note_thread)
        await database.close()

    run_on_reactor(main)
    assert len(threads) == 1
