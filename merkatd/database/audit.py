"""The books checked against themselves: nothing appears, nothing vanishes."""

from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.database.accounts import ACCOUNTS, AccountKind
from merkatd.database.entries import ENTRIES
from merkatd.database.reservations import RESERVATIONS


@dataclass(frozen=True, slots=True)
class Audit:
    """What a look at all the books found, in micro-credits."""

    total: int
    """The sum over all accounts: zero."""
    unbalanced: tuple[int, ...]
    """Transactions whose entries don't sum to zero: none."""
    wrong: tuple[int, ...]
    """Accounts whose balance isn't the sum of their entries: none."""
    misreserved: tuple[int, ...] = ()
    """Accounts that reserve more than they hold, or not the sum of their reservations: none."""

    @property
    def sound(self) -> bool:
        """Whether all is as it must be."""
        return self.total == 0 and not (self.unbalanced or self.wrong or self.misreserved)


def total(connection: sa.Connection) -> int:
    """The sum over all accounts, which is zero: quick, however many entries there are."""
    return int(connection.scalar(sa.select(sa.func.sum(ACCOUNTS.c.balance))) or 0)


def audit(connection: sa.Connection) -> Audit:
    """Add up everything there is."""
    amount = sa.func.coalesce(sa.func.sum(ENTRIES.c.amount), 0)
    unbalanced = (
        sa.select(ENTRIES.c.transaction_id).group_by(ENTRIES.c.transaction_id).having(amount != 0)
    )
    wrong = (
        sa.select(ACCOUNTS.c.id)
        .outerjoin(ENTRIES, ENTRIES.c.account_id == ACCOUNTS.c.id)
        .group_by(ACCOUNTS.c.id, ACCOUNTS.c.balance)
        .having(ACCOUNTS.c.balance != amount)
    )
    kept = sa.func.coalesce(sa.func.sum(RESERVATIONS.c.amount), 0)
    misreserved = (
        sa.select(ACCOUNTS.c.id)
        .outerjoin(RESERVATIONS, RESERVATIONS.c.account == ACCOUNTS.c.id)
        .where(ACCOUNTS.c.kind != AccountKind.ISSUANCE)
        .group_by(ACCOUNTS.c.id, ACCOUNTS.c.balance, ACCOUNTS.c.reserved)
        .having(sa.or_(ACCOUNTS.c.reserved != kept, ACCOUNTS.c.balance < ACCOUNTS.c.reserved))
    )
    return Audit(
        total=total(connection),
        unbalanced=tuple(connection.scalars(unbalanced)),
        wrong=tuple(connection.scalars(wrong)),
        misreserved=tuple(connection.scalars(misreserved)),
    )
