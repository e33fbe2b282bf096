"""The table of reservations: the most that the charge of a decided period can take from a payer.

A reservation is a part of a balance and moves no credits. The column `reserved` of an account is
the sum of its reservations.
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
_OF_PERIOD = sa.select(RESERVATIONS.c.account, RESERVATIONS.c.amount).where(
    RESERVATIONS.c.period == sa.bindparam("its_period")
)
_DELETE = sa.delete(RESERVATIONS).where(RESERVATIONS.c.period == sa.bindparam("its_period"))
_INSERT = sa.insert(RESERVATIONS)


def of_period(connection: sa.Connection, period: int) -> dict[int, int]:
    """Return the reserved amounts of a period by account."""
    rows = connection.execute(_OF_PERIOD, {"its_period": period})
    return {account: amount for account, amount in rows}  # noqa: C416 - rows are no pairs to mypy


def store(connection: sa.Connection, period: int, amounts: Mapping[int, int]) -> None:
    """Reserve these amounts for a period without reservations; the caller must have the lock."""
    rows = [
        {"period": period, "account": account, "amount": amount}
        for account, amount in sorted(amounts.items())
        if amount
    ]
    if rows:
        connection.execute(_INSERT, rows)
        account_store.add(connection, "reserved", amounts)


def release(connection: sa.Connection, period: int) -> dict[int, int]:
    """Delete the reservations of a period; return their amounts by account."""
    held = of_period(connection, period)
    if held:
        connection.execute(_DELETE, {"its_period": period})
        account_store.add(
            connection, "reserved", {account: -amount for account, amount in held.items()}
        )
    return held
