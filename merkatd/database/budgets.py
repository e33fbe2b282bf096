"""Budgets: what each application was given at first, and how it is replenished."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.accounts import ACCOUNTS
from merkatd.database.schema import table


class BudgetColumns(TypedColumns):
    """The columns of `budgets`; an application is known by the id of its account."""

    account: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    initial: Named[int] = Column(sa.BigInteger())
    replenishment: Named[int] = Column(sa.BigInteger())
    opened_s: Named[float] = Column(sa.Double())
    ended_s: Named[float | None] = Column(sa.Double())


BUDGETS = table("budgets", BudgetColumns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of one application, in micro-credits."""

    application: int
    """Its id, which is that of its account."""
    name: str
    owner: int
    initial: int
    """Replenishment never lifts the balance above this."""
    replenishment: int
    """What its tenant adds at every replenishment."""
    balance: int
    opened_s: float
    ended_s: float | None


def store(
    connection: sa.Connection, account: int, initial: int, replenishment: int, at_s: float
) -> None:
    """The budget of an application that has none yet."""
    row = {
        "account": account,
        "initial": initial,
        "replenishment": replenishment,
        "opened_s": at_s,
    }
    connection.execute(sa.insert(BUDGETS), row)


def change(connection: sa.Connection, account: int, initial: int, replenishment: int) -> None:
    """Other amounts from now on; no credits are moved."""
    query = sa.update(BUDGETS).where(BUDGETS.c.account == account)
    connection.execute(query.values(initial=initial, replenishment=replenishment))


def end(connection: sa.Connection, account: int, at_s: float) -> None:
    """The application is over."""
    connection.execute(sa.update(BUDGETS).where(BUDGETS.c.account == account).values(ended_s=at_s))


def get(connection: sa.Connection, application: int) -> Budget | None:
    """The budget of this application."""
    rows = connection.execute(_query().where(BUDGETS.c.account == application))
    return next((_budget(row) for row in rows), None)


def of_owner(connection: sa.Connection, owner: int) -> tuple[Budget, ...]:
    """Of all applications of a tenant, those that are over included."""
    rows = connection.execute(_query().where(ACCOUNTS.c.owner == owner))
    return tuple(_budget(row) for row in rows)


def open_ones(connection: sa.Connection) -> tuple[Budget, ...]:
    """Of all applications that are not over."""
    rows = connection.execute(_query().where(BUDGETS.c.ended_s.is_(None)))
    return tuple(_budget(row) for row in rows)


def _query() -> sa.Select[Any]:
    return (
        sa.select(BUDGETS, ACCOUNTS.c.name, ACCOUNTS.c.owner, ACCOUNTS.c.balance)
        .join(ACCOUNTS, ACCOUNTS.c.id == BUDGETS.c.account)
        .order_by(BUDGETS.c.account)
    )


def _budget(row: sa.Row[Any]) -> Budget:
    return Budget(
        application=row.account,
        name=row.name,
        owner=row.owner,
        initial=row.initial,
        replenishment=row.replenishment,
        balance=row.balance,
        opened_s=row.opened_s,
        ended_s=row.ended_s,
    )
