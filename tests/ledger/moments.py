"""The moments of a charge at which a process is killed; each is awaited, none is left to chance."""

import contextlib
import time
from collections.abc import Callable, Iterator

import numpy as np
import sqlalchemy as sa

from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.scheduler.period_store import PERIODS, PeriodState
from tests.daemon.processes import until
from tests.ledger.site import INTERVAL_S, SPEED, Books, charged_periods

Moment = Callable[[Books, np.random.Generator], contextlib.AbstractContextManager[None]]


_STALE_S = 0.12
"""The server refreshes its list of transactions only after 0.1 seconds without queries."""


@contextlib.contextmanager
def before_it_posts(books: Books, _rng: np.random.Generator) -> Iterator[None]:
    """The charge waits for the treasury's account, which the test has locked."""
    treasury = sa.select(ACCOUNTS.c.id).where(ACCOUNTS.c.kind == AccountKind.TREASURY)
    seen = False
    while not seen:
        with books.connected() as connection:
            connection.execute(treasury.with_for_update()).all()
            waiting = until(
                lambda: _waiting(books), "a transaction waits for the treasury", tick_s=0.0
            )
            # If no charge was due, the waiting transaction is a replenishment.
            seen = waiting == [0]
            if seen:
                yield


@contextlib.contextmanager
def after_it_posted(books: Books, _rng: np.random.Generator) -> Iterator[None]:
    """Everything is posted and nothing committed: the charge waits for its period's row."""
    with books.connected() as connection:
        until(lambda: _held(connection), "a period that has acted")
        until(lambda: any(_waiting(books)), "a charge behind its postings", tick_s=0.0)
        yield


@contextlib.contextmanager
def once_it_committed(books: Books, _rng: np.random.Generator) -> Iterator[None]:
    """The moment at which others see the commit; the daemon may not have its result yet."""
    before = books.read(charged_periods)
    until(lambda: books.alive() and books.read(charged_periods) > before, "a charge", tick_s=0.0)
    yield


@contextlib.contextmanager
def at_any_time(books: Books, rng: np.random.Generator) -> Iterator[None]:
    """Any moment of a period or of a start."""
    del books
    time.sleep(float(rng.uniform(0.0, 2 * INTERVAL_S / SPEED)))
    yield


MOMENTS: tuple[Moment, ...] = (before_it_posts, after_it_posted, once_it_committed, at_any_time)


def _held(connection: sa.Connection) -> bool:
    """Return whether the newest period has acted; if so, its row stays locked."""
    newest = sa.select(PERIODS.c.number, PERIODS.c.state).order_by(PERIODS.c.number.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    if row is not None and row.state == PeriodState.ACTED:
        locked = sa.select(PERIODS.c.state).where(PERIODS.c.number == row.number)
        if connection.scalar(locked.with_for_update()) == PeriodState.ACTED:
            return True
    connection.rollback()
    return False


def _waiting(books: Books) -> list[int]:
    """Return the number of rows that each transaction waiting for a lock has written."""
    query = "SELECT trx_rows_modified FROM information_schema.innodb_trx"
    query += " WHERE trx_state = 'LOCK WAIT'"
    assert books.alive()
    time.sleep(_STALE_S)
    return books.read(lambda c: [int(row[0]) for row in c.exec_driver_sql(query)])
