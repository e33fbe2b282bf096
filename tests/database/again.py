"""Transactions for tests without a reactor, repeated after transient errors."""

import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from merkatd.database.base.transactions import is_transient
from merkatd.database.database import transaction

Result = TypeVar("Result")


def retry_transaction(
    engine: sa.Engine,
    work: Callable[[sa.Connection], Result],
    *,
    patience_s: float = 20.0,
    also: Callable[[Exception], bool] = lambda _: False,
) -> Result:
    """Return the result of `work` once its transaction is committed, after any retries."""
    ending = time.monotonic() + patience_s
    while True:
        try:
            return transaction(engine, work)
        except Exception as error:
            if time.monotonic() > ending or not (is_transient(error) or also(error)):
                raise
        time.sleep(0.005)
