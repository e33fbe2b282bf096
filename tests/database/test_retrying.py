"""Transactions survive deadlocks, lost connections and a killed server by retries."""

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.base.transactions import is_transient
from merkatd.database.database import transaction
from merkatd.database.ledger import account_store, entry_store
from merkatd.database.ledger.entry_store import Posting, TransactionKind, audit
from merkatd.database.migrations import METADATA
from tests import servers
from tests.database.again import retry_transaction
from tests.database.books import open_accounts
from tests.servers import MariaDb

pytestmark = pytest.mark.skipif(servers.MARIADBD is None, reason="mariadb-server is not here")


@pytest.fixture
def engine(mariadb: MariaDb) -> Iterator[sa.Engine]:
    """Yield a database on the server that is not killed."""
    made = make_engine(mariadb.make("retrying"))
    METADATA.create_all(made)
    yield made
    made.dispose()
    mariadb.drop("retrying")


def move(connection: sa.Connection, reference: str, source: int, target: int) -> None:
    """Move a micro-credit from one account to another."""
    moves = {source: -1, target: 1}
    entry_store.post(connection, [Posting(TransactionKind.CORRECTION, reference, moves)], 0.0)


def test_a_real_deadlock_is_resolved_by_a_retry(engine: sa.Engine) -> None:
    """Two transactions lock two accounts in opposite order; the server ends one, both succeed."""
    first, other = transaction(engine, lambda connection: open_accounts(connection, [10, 10]))
    both = threading.Barrier(2, timeout=10)
    failures: list[Exception] = []

    def crossing(first: int, second: int, reference: str) -> None:
        tried: list[bool] = []

        def work(connection: sa.Connection) -> None:
            account_store.lock(connection, [first])
            if not tried:
                tried.append(True)
                both.wait()
            account_store.lock(connection, [second])
            move(connection, reference, first, second)

        def seen(error: Exception) -> bool:
            failures.append(error)
            return False

        def watched(connection: sa.Connection) -> None:
            try:
                work(connection)
            except Exception as error:
                seen(error)
                raise

        retry_transaction(engine, watched)

    with ThreadPoolExecutor(2) as pool:
        running = [
            pool.submit(crossing, first, other, "a"),
            pool.submit(crossing, other, first, "b"),
        ]
        for run in running:
            run.result()
    assert [getattr(error, "orig").args[0] for error in failures] == [1213]  # noqa: B009 - any error
    assert all(is_transient(error) for error in failures)
    with engine.connect() as connection:
        assert entry_store.posted(connection, ["a", "b"]) == {"a", "b"}
        assert audit(connection).sound


def test_a_connection_cut_inside_a_transaction_is_retried(engine: sa.Engine) -> None:
    """A connection killed by an administrator costs one attempt."""
    first, other = transaction(engine, lambda connection: open_accounts(connection, [10, 10]))
    cuts: list[int] = []

    def work(connection: sa.Connection) -> None:
        move(connection, "cut", first, other)
        if not cuts:
            cuts.append(connection.exec_driver_sql("SELECT connection_id()").scalar_one())
            with engine.connect() as administrator:
                administrator.exec_driver_sql(f"KILL {cuts[0]}")
        connection.exec_driver_sql("SELECT 1")

    retry_transaction(engine, work)
    with engine.connect() as connection:
        assert account_store.get(connection, [other])[other].balance == 11
        assert audit(connection).sound


def test_fifty_concurrent_postings_never_overdraw(engine: sa.Engine) -> None:
    """Fifty threads move the last credits of one account: some succeed, none overdraws."""
    source, *targets = transaction(engine, lambda c: open_accounts(c, [20, *([0] * 5)]))
    wide = sa.create_engine(engine.url, pool_size=10, max_overflow=0)

    def take(number: int) -> bool:
        try:
            retry_transaction(
                wide, lambda c: move(c, f"take/{number}", source, targets[number % 5])
            )
        except entry_store.OverdrawnError:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        got = list(pool.map(take, range(50)))
    wide.dispose()
    assert sum(got) == 20
    with engine.connect() as connection:
        assert account_store.get(connection, [source])[source].balance == 0
        assert audit(connection).sound


# PyMySQL leaves the socket of a failed attempt to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_and_restarted_server_is_used_again() -> None:
    """Committed transactions survive, and waiting ones succeed."""
    with servers.mariadb() as server:
        engine = make_engine(server.make("merkat"))
        METADATA.create_all(engine)
        first, other = transaction(engine, lambda connection: open_accounts(connection, [10, 10]))
        transaction(engine, lambda connection: move(connection, "before", first, other))
        server.kill()
        with pytest.raises(sa.exc.OperationalError) as failed:
            transaction(engine, lambda connection: move(connection, "while", first, other))
        assert is_transient(failed.value)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(
                retry_transaction,
                engine,
                lambda connection: move(connection, "while", first, other),
            )
            time.sleep(0.05)
            assert not waiting.done()
            # In this thread, because the server ends with the thread that starts it.
            server.start()
            waiting.result()
        with engine.connect() as connection:
            assert account_store.get(connection, [other])[other].balance == 12
            assert audit(connection).sound
        engine.dispose()
        del failed
        gc.collect()
