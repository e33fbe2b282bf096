"""Reservations: what the charge of a decided period can take from each payer at most.

A reservation is a part of a balance, not a movement: it is neither posted nor spent. Each row
is also counted in its account's `reserved`, so the sum of an account's rows is that column.
"""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import table
from merkatd.database.ledger import account_store


class ReservationColumns(TypedColumns):
    """The columns of `reservations`."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    account: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    amount: Named[int] = Column(sa.BigInteger())


RESERVATIONS = table("reservations", ReservationColumns, sa.Index(None, "account"))


def of_period(connection: sa.Connection, period: int) -> dict[int, int]:
    """By account: what is reserved for the charge of a period."""
    columns = RESERVATIONS.c
    query = sa.select(columns.account, columns.amount).where(columns.period == period)
    rows = connection.execute(query)
    return {account: amount for account, amount in rows}  # noqa: C416 - rows are no pairs to mypy


def store(connection: sa.Connection, period: int, amounts: Mapping[int, int]) -> None:
    """Reserve these amounts for a period that has no reservations yet; the caller has the lock."""
    rows = [
        {"period": period, "account": account, "amount": amount}
        for account, amount in sorted(amounts.items())
        if amount
    ]
    if rows:
        connection.execute(sa.insert(RESERVATIONS), rows)
        account_store.add(connection, "reserved", amounts)


def release(connection: sa.Connection, period: int) -> dict[int, int]:
    """Free what is reserved for a period; by account, how much that was."""
    held = of_period(connection, period)
    if held:
        connection.execute(sa.delete(RESERVATIONS).where(RESERVATIONS.c.period == period))
        account_store.add(
            connection, "reserved", {account: -amount for account, amount in held.items()}
        )
    return held
