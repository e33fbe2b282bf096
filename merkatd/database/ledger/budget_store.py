"""The table of applications' budgets: initial amount and replenishment."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import InList, table
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind, AccountRow


class BudgetColumns(TypedColumns):
    """The columns of `budgets`; an application's id is the id of its account."""

    account: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    initial: Named[int] = Column(sa.BigInteger())
    replenishment: Named[int] = Column(sa.BigInteger())
    opened_s: Named[float] = Column(sa.Double())
    ended_s: Named[float | None] = Column(sa.Double())


BUDGETS = table("budgets", BudgetColumns)

LISTED_OVER = 100
"""Maximum number of ended budgets in the list of a tenant, the newest."""
_TENANTS = ACCOUNTS.alias("tenant_accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """The budget of an application, in micro-credits."""

    application: int
    """The application's id, which is the id of its account."""
    name: str
    owner: int
    initial: int
    """The amount up to which the balance is replenished."""
    replenishment: int
    """The amount that each replenishment adds from its tenant's account."""
    balance: int
    reserved: int
    """The part of the balance that is reserved for charges."""
    debt: int
    """The owner's debt for earlier periods, whichever account could not pay."""
    opened_s: float
    ended_s: float | None


def store(
    connection: sa.Connection, account: int, initial: int, replenishment: int, at_s: float
) -> None:
    """Store the budget of a new application."""
    row = {
        "account": account,
        "initial": initial,
        "replenishment": replenishment,
        "opened_s": at_s,
    }
    connection.execute(sa.insert(BUDGETS), row)


def change(connection: sa.Connection, account: int, initial: int, replenishment: int) -> None:
    """Change the amounts of a budget; no credits are moved."""
    query = sa.update(BUDGETS).where(BUDGETS.c.account == account)
    connection.execute(query.values(initial=initial, replenishment=replenishment))


def end(connection: sa.Connection, account: int, at_s: float) -> None:
    """Store the end of an application."""
    connection.execute(sa.update(BUDGETS).where(BUDGETS.c.account == account).values(ended_s=at_s))


def get(connection: sa.Connection, application: int, *, locked: bool = False) -> BudgetRow | None:
    """Return the budget of this application; `locked`: the current row, locked."""
    rows = connection.execute(_LOCK if locked else _GET, {"application": application})
    return next((_budget(row) for row in rows), None)


def ended_among(connection: sa.Connection, applications: Iterable[int]) -> frozenset[int]:
    """Return which of these applications have ended, and lock their rows."""
    rows = _LOCK_ENDED.rows(connection, sorted(set(applications)))
    return frozenset(row.account for row in rows)


def of_owner(connection: sa.Connection, owner: int) -> tuple[BudgetRow, ...]:
    """Return the budgets of a tenant's applications: all open ones and the newest ended ones."""
    mine = _query().where(ACCOUNTS.c.owner == owner)
    still = connection.execute(mine.where(BUDGETS.c.ended_s.is_(None)))
    over = mine.where(BUDGETS.c.ended_s.is_not(None)).order_by(None)
    newest = connection.execute(over.order_by(BUDGETS.c.account.desc()).limit(LISTED_OVER))
    budgets = (_budget(row) for rows in (still, newest) for row in rows)
    return tuple(sorted(budgets, key=lambda budget: budget.application))


def open_ones(connection: sa.Connection, *, locked: bool = False) -> tuple[BudgetRow, ...]:
    """Return the budgets of all applications that have not ended."""
    rows = connection.execute(_LOCK_OPEN if locked else _OPEN)
    return tuple(_budget(row) for row in rows)


def open_accounts(connection: sa.Connection) -> tuple[AccountRow, ...]:
    """Return the accounts of all applications that have not ended."""
    still = sa.select(BUDGETS.c.account).where(BUDGETS.c.ended_s.is_(None))
    return account_store.of_applications(connection, still)


def _query() -> sa.Select[Any]:
    return (
        sa.select(
            BUDGETS,
            ACCOUNTS.c.name,
            ACCOUNTS.c.owner,
            ACCOUNTS.c.balance,
            ACCOUNTS.c.reserved,
            _TENANTS.c.debt,
        )
        .join(ACCOUNTS, ACCOUNTS.c.id == BUDGETS.c.account)
        .join(
            _TENANTS,
            sa.and_(_TENANTS.c.owner == ACCOUNTS.c.owner, _TENANTS.c.kind == AccountKind.TENANT),
        )
        .order_by(BUDGETS.c.account)
    )


# Each period runs these statements: to build one takes longer than to run it.
_OPEN = _query().where(BUDGETS.c.ended_s.is_(None))
_LOCK_OPEN = _OPEN.with_for_update()
_GET = _query().where(BUDGETS.c.account == sa.bindparam("application"))
_LOCK = _GET.with_for_update()
_LOCK_ENDED = InList(
    lambda applications: (
        sa.select(BUDGETS.c.account)
        .where(BUDGETS.c.account.in_(applications), BUDGETS.c.ended_s.is_not(None))
        .with_for_update()
    )
)


def _budget(row: sa.Row[Any]) -> BudgetRow:
    return BudgetRow(
        application=row.account,
        name=row.name,
        owner=row.owner,
        initial=row.initial,
        replenishment=row.replenishment,
        balance=row.balance,
        reserved=row.reserved,
        debt=row.debt,
        opened_s=row.opened_s,
        ended_s=row.ended_s,
    )
