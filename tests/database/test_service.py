"""`Database` runs whole transactions, retries them after transient errors, and closes cleanly."""

import sqlite3
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from merkatd.base.backoff import Backoff
from merkatd.base.clock import Inline, OwnedExecutor
from merkatd.database import Database, migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.base.transactions import LostRaceError, is_transient
from merkatd.database.database import BACKOFF, ClosedError
from merkatd.database.scheduler import bid_store
from merkatd.database.scheduler.bid_store import Bid, BidSource

Result = TypeVar("Result")

WORD = Bid(vm=1, bid={"cpu": 1.0}, source=BidSource.DEFAULT, at_s=0.0)


def run_now(running: Coroutine[Deferred[Any], Any, Result]) -> Result:
    """Return the result of a coroutine that never waits."""
    results: list[Result] = []
    errors: list[BaseException] = []
    done = Deferred.fromCoroutine(running)
    done.addCallbacks(results.append, lambda failure: errors.append(failure.value))
    if errors:
        raise errors[0]
    return results[0]


async def await_result(done: Deferred[Result]) -> Result:
    """Return the result of a Deferred."""
    return await done


def store_bid(connection: sa.Connection) -> frozenset[int]:
    """Store a bid."""
    return bid_store.record_bids(connection, [WORD])


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test advances."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    """Yield a migrated database in a file."""
    made = make_engine(f"sqlite:///{tmp_path / 'state' / 'merkat.db'}")
    migrations.upgrade(made)
    yield made
    made.dispose()


def inline(engine: sa.Engine, clock: Clock, executor: OwnedExecutor | None = None) -> Database:
    """Return a database that runs everything at once, with three attempts and no randomness."""
    backoff = Backoff(first_s=1.0, longest_s=2.0, retries=2)
    return Database(engine, executor or Inline(), clock, np.random.default_rng(0), backoff)


def test_results_are_returned_and_committed(engine: sa.Engine, clock: Clock) -> None:
    """In virtual time no thread and no reactor is needed."""
    database = inline(engine, clock)
    assert run_now(database.run(store_bid)) == {1}
    assert run_now(database.read(bid_store.newest_bids)) == {1: WORD}


def test_a_function_that_raises_leaves_nothing(engine: sa.Engine, clock: Clock) -> None:
    """Its error is raised unchanged, and its writes are rolled back."""
    database = inline(engine, clock)

    def fail(connection: sa.Connection) -> None:
        store_bid(connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_now(database.run(fail))
    assert run_now(database.read(bid_store.newest_bids)) == {}


def test_errors_of_the_work_do_not_count_as_failures_of_the_database(
    engine: sa.Engine, clock: Clock
) -> None:
    """Only statements that the database rejects or does not answer count as failed."""
    database = inline(engine, clock)

    def refuse(_connection: sa.Connection) -> None:
        raise ZeroDivisionError

    def nonsense(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT nothing FROM nowhere"))

    with pytest.raises(ZeroDivisionError):
        run_now(database.run(refuse))
    assert (database.answered, database.failed) == (1, 0)
    with pytest.raises(sa.exc.OperationalError):
        run_now(database.run(nonsense))
    assert (database.answered, database.failed) == (1, 1)


def test_a_lost_race_is_retried_after_a_wait(engine: sa.Engine, clock: Clock) -> None:
    """The whole function runs again, later by the clock, until it succeeds."""
    database = inline(engine, clock)
    attempts = []

    def race(connection: sa.Connection) -> int:
        attempts.append(clock.seconds())
        store_bid(connection)
        if len(attempts) < 3:
            raise LostRaceError
        return len(bid_store.history(connection, 1))

    done = Deferred.fromCoroutine(database.run(race))
    assert len(attempts) == 1
    clock.advance(1.0)
    assert not done.called
    clock.advance(2.0)
    assert done.result == 1
    assert 0.5 <= attempts[1] <= 1.0 < attempts[2] <= 3.0


def test_parameters_of_a_transaction_are_never_logged(engine: sa.Engine, clock: Clock) -> None:
    """Retries and errors omit them, because VM templates contain passwords."""
    database = inline(engine, clock)

    def race(connection: sa.Connection, given: str) -> None:
        connection.execute(sa.text("SELECT :given FROM nowhere"), {"given": given})

    def lost(connection: sa.Connection, given: str) -> None:
        try:
            race(connection, given)
        except sa.exc.OperationalError as error:
            raise LostRaceError(str(error)) from None

    def expected(failure: Failure) -> None:
        assert isinstance(failure.value, LostRaceError)

    with capturedLogs() as logged:
        done = Deferred.fromCoroutine(database.run(partial(lost, given="hush")))
        clock.advance(1.0)
        clock.advance(2.0)
    done.addErrback(expected)
    lines = [formatEvent(event) for event in logged]
    assert len(lines) == 2
    assert all("lost failed and is retried" in line and "hush" not in line for line in lines)


# PyMySQL leaves the socket of a failed attempt to the garbage collector.


def test_a_lock_of_another_process_is_awaited_and_then_reported(
    tmp_path: Path, engine: sa.Engine, clock: Clock
) -> None:
    """SQLite's "locked" error is retried up to the limit and then raised."""
    database = inline(engine, clock)
    other = sqlite3.connect(tmp_path / "state" / "merkat.db", isolation_level=None)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    other.execute("BEGIN IMMEDIATE")
    done = Deferred.fromCoroutine(database.run(store_bid))
    clock.advance(1.0)
    assert not done.called
    other.execute("ROLLBACK")
    clock.advance(2.0)
    assert done.result == {1}
    other.execute("BEGIN IMMEDIATE")
    done = Deferred.fromCoroutine(database.run(store_bid))
    clock.pump([1.0, 2.0, 4.0])
    with pytest.raises(sa.exc.OperationalError, match="locked"):
        run_now(await_result(done))
    other.close()


def test_readers_see_the_last_commit_during_a_write(
    tmp_path: Path, engine: sa.Engine, clock: Clock
) -> None:
    """Readers never wait for a writer."""
    database = inline(engine, clock)
    run_now(database.run(store_bid))
    other = sqlite3.connect(tmp_path / "state" / "merkat.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM bids")
    assert list(run_now(database.read(bid_store.newest_bids))) == [1]
    other.close()


def test_a_write_takes_the_lock_at_its_start_and_a_read_never(
    tmp_path: Path, engine: sa.Engine, clock: Clock
) -> None:
    """Two transactions that read before they take the lock to write would block each other."""
    database = inline(engine, clock)
    other = sqlite3.connect(tmp_path / "state" / "merkat.db", isolation_level=None, timeout=0.0)

    def is_locked(_: sa.Connection) -> bool:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        other.execute("ROLLBACK")
        return False

    for _ in range(2):  # a connection serves both kinds, one after the other
        assert not run_now(database.read(is_locked))
        assert run_now(database.run(is_locked))
    other.close()


@pytest.mark.parametrize(
    ("arguments", "expected"), [((1213, "Deadlock"), True), ((1062, "Duplicate"), False)]
)
def test_deadlocks_of_mysql_are_transient_and_other_errors_are_not(
    arguments: tuple[int, str], expected: bool
) -> None:
    """The error number, the first argument of MySQL drivers, decides."""
    error = sa.exc.OperationalError("UPDATE", {}, Exception(*arguments))
    assert is_transient(error) is expected


def test_waits_grow_up_to_a_limit() -> None:
    """Each wait doubles, and the random spread shortens it by at most half."""
    waits = [BACKOFF.wait_s(failures, 1.0) for failures in (1, 2, 3, 9)]
    assert waits == [0.05, 0.1, 0.2, 2.0]
    assert BACKOFF.wait_s(1, 0.0) == 0.025
    assert [BACKOFF.is_over(failures) for failures in (5, 6)] == [False, True]


def test_returning_a_cursor_is_an_error(engine: sa.Engine, clock: Clock) -> None:
    """Results of the driver are invalid outside of their thread, and nothing is committed."""
    database = inline(engine, clock)

    def leak(connection: sa.Connection) -> Any:
        store_bid(connection)
        return connection.execute(sa.text("SELECT 1"))

    with pytest.raises(TypeError, match="invalid outside its thread"):
        run_now(database.run(leak))
    assert run_now(database.read(bid_store.newest_bids)) == {}


def test_a_connection_is_durable_and_checks_references(engine: sa.Engine) -> None:
    """Commits survive a power failure, and foreign keys are enforced."""
    with engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


class Later:
    """An executor that runs calls on command."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Deferred[Any]]] = []
        self.stops = 0

    @property
    def queued(self) -> int:
        """Return the number of waiting calls."""
        return len(self.waiting)

    def run(self, call: Any) -> Deferred[Any]:
        """Queue the call."""
        done: Deferred[Any] = Deferred()
        self.waiting.append((call, done))
        return done

    def stop(self) -> None:
        """Count the calls."""
        self.stops += 1

    def run_next(self) -> None:
        """Run the oldest call."""
        call, done = self.waiting.pop(0)
        done.callback(call())


def test_closing_finishes_running_work_and_rejects_new_work(
    engine: sa.Engine, clock: Clock
) -> None:
    """Running work is committed; later calls raise `ClosedError`."""
    executor = Later()
    database = inline(engine, clock, executor)
    working = Deferred.fromCoroutine(database.run(store_bid))
    closing = Deferred.fromCoroutine(database.close())
    with pytest.raises(ClosedError):
        run_now(database.run(store_bid))
    assert (closing.called, executor.stops) == (False, 0)
    executor.run_next()
    assert working.result == {1}
    assert (closing.called, executor.stops) == (False, 0)
    executor.run_next()
    assert (closing.called, executor.stops) == (True, 1)
