"""Database runs whole transactions, again where others were in the way, and closes cleanly."""

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


def now(running: Coroutine[Deferred[Any], Any, Result]) -> Result:
    """What a coroutine returns that has nothing to wait for."""
    results: list[Result] = []
    errors: list[BaseException] = []
    done = Deferred.fromCoroutine(running)
    done.addCallbacks(results.append, lambda failure: errors.append(failure.value))
    if errors:
        raise errors[0]
    return results[0]


async def waited_for(done: Deferred[Result]) -> Result:
    """What a Deferred fires with."""
    return await done


def say(connection: sa.Connection) -> frozenset[int]:
    """Store a bid."""
    return bid_store.record_bids(connection, [WORD])


@pytest.fixture
def clock() -> Clock:
    """A clock that moves when it is told to."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    """A migrated database in a file."""
    made = make_engine(f"sqlite:///{tmp_path / 'state' / 'merkat.db'}")
    migrations.upgrade(made)
    yield made
    made.dispose()


def inline(engine: sa.Engine, clock: Clock, executor: OwnedExecutor | None = None) -> Database:
    """A database that runs everything at once, three attempts without chance."""
    backoff = Backoff(first_s=1.0, longest_s=2.0, retries=2)
    return Database(engine, executor or Inline(), clock, np.random.default_rng(0), backoff)


def test_what_a_function_returns_comes_back_and_is_committed(
    engine: sa.Engine, clock: Clock
) -> None:
    """In virtual time nothing needs a thread or a reactor."""
    database = inline(engine, clock)
    assert now(database.run(say)) == {1}
    assert now(database.read(bid_store.newest_bids)) == {1: WORD}


def test_a_function_that_raises_leaves_nothing(engine: sa.Engine, clock: Clock) -> None:
    """Its error comes back as it was, and its writes are gone."""
    database = inline(engine, clock)

    def fail(connection: sa.Connection) -> None:
        say(connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        now(database.run(fail))
    assert now(database.read(bid_store.newest_bids)) == {}


def test_what_the_work_itself_raises_is_no_failure_of_the_database(
    engine: sa.Engine, clock: Clock
) -> None:
    """Only what the database refuses or does not answer counts as failed."""
    database = inline(engine, clock)

    def refuse(_connection: sa.Connection) -> None:
        raise ZeroDivisionError

    def nonsense(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT nothing FROM nowhere"))

    with pytest.raises(ZeroDivisionError):
        now(database.run(refuse))
    assert (database.answered, database.failed) == (1, 0)
    with pytest.raises(sa.exc.OperationalError):
        now(database.run(nonsense))
    assert (database.answered, database.failed) == (1, 1)


def test_a_lost_race_is_run_again_after_a_wait(engine: sa.Engine, clock: Clock) -> None:
    """The whole function, later by the clock, until it succeeds."""
    database = inline(engine, clock)
    attempts = []

    def race(connection: sa.Connection) -> int:
        attempts.append(clock.seconds())
        say(connection)
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


def test_what_a_transaction_was_given_is_never_logged(engine: sa.Engine, clock: Clock) -> None:
    """Neither when it is run again nor in the error: templates of VMs hold passwords."""
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
    said = [formatEvent(event) for event in logged]
    assert len(said) == 2
    assert all("lost failed and is retried" in one and "hush" not in one for one in said)


# PyMySQL leaves it to the garbage collector to close the socket of an attempt that failed.


def test_somebody_else_s_lock_is_waited_for_and_then_reported(
    tmp_path: Path, engine: sa.Engine, clock: Clock
) -> None:
    """SQLite's refusal is retried as often as allowed, then it is the caller's."""
    database = inline(engine, clock)
    other = sqlite3.connect(tmp_path / "state" / "merkat.db", isolation_level=None)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    other.execute("BEGIN IMMEDIATE")
    done = Deferred.fromCoroutine(database.run(say))
    clock.advance(1.0)
    assert not done.called
    other.execute("ROLLBACK")
    clock.advance(2.0)
    assert done.result == {1}
    other.execute("BEGIN IMMEDIATE")
    done = Deferred.fromCoroutine(database.run(say))
    clock.pump([1.0, 2.0, 4.0])
    with pytest.raises(sa.exc.OperationalError, match="locked"):
        now(waited_for(done))
    other.close()


def test_readers_see_the_last_commit_while_somebody_writes(
    tmp_path: Path, engine: sa.Engine, clock: Clock
) -> None:
    """Nobody waits for a writer in order to read."""
    database = inline(engine, clock)
    now(database.run(say))
    other = sqlite3.connect(tmp_path / "state" / "merkat.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM bids")
    assert list(now(database.read(bid_store.newest_bids))) == [1]
    other.close()


@pytest.mark.parametrize(
    ("arguments", "expected"), [((1213, "Deadlock"), True), ((1062, "Duplicate"), False)]
)
def test_mysql_s_deadlocks_pass_and_its_other_errors_don_t(
    arguments: tuple[int, str], expected: bool
) -> None:
    """Known by the numbers that MySQL's drivers put first."""
    error = sa.exc.OperationalError("UPDATE", {}, Exception(*arguments))
    assert is_transient(error) is expected


def test_waits_grow_up_to_a_limit() -> None:
    """Twice as long each time, and chance takes at most half away."""
    waits = [BACKOFF.wait_s(failures, 1.0) for failures in (1, 2, 3, 9)]
    assert waits == [0.05, 0.1, 0.2, 2.0]
    assert BACKOFF.wait_s(1, 0.0) == 0.025
    assert [BACKOFF.is_over(failures) for failures in (5, 6)] == [False, True]


def test_results_of_the_driver_stay_inside(engine: sa.Engine, clock: Clock) -> None:
    """Handing out a cursor is an error of the caller, and nothing is committed."""
    database = inline(engine, clock)

    def leak(connection: sa.Connection) -> Any:
        say(connection)
        return connection.execute(sa.text("SELECT 1"))

    with pytest.raises(TypeError, match="invalid outside its thread"):
        now(database.run(leak))
    assert now(database.read(bid_store.newest_bids)) == {}


def test_a_connection_is_durable_and_checks_references(engine: sa.Engine) -> None:
    """What was committed survives a power failure; rows don't point to nowhere."""
    with engine.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


class Later:
    """An executor that runs calls when told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Deferred[Any]]] = []
        self.stops = 0

    @property
    def queued(self) -> int:
        """All that wait."""
        return len(self.waiting)

    def run(self, call: Any) -> Deferred[Any]:
        """Put the call off."""
        done: Deferred[Any] = Deferred()
        self.waiting.append((call, done))
        return done

    def stop(self) -> None:
        """Count it."""
        self.stops += 1

    def go_on(self) -> None:
        """Run the oldest call."""
        call, done = self.waiting.pop(0)
        done.callback(call())


def test_closing_waits_for_the_work_in_hand_and_refuses_more(
    engine: sa.Engine, clock: Clock
) -> None:
    """What was begun is finished and committed; what comes later is told so."""
    executor = Later()
    database = inline(engine, clock, executor)
    working = Deferred.fromCoroutine(database.run(say))
    closing = Deferred.fromCoroutine(database.close())
    with pytest.raises(ClosedError):
        now(database.run(say))
    assert (closing.called, executor.stops) == (False, 0)
    executor.go_on()
    assert working.result == {1}
    assert (closing.called, executor.stops) == (False, 0)
    executor.go_on()
    assert (closing.called, executor.stops) == (True, 1)
