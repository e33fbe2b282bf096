"""What a tenant and its applications hold together, and what moved on their accounts lately."""

import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database import accounts, entries

Movements = list[tuple[float, float]]
_FOREVER_S = 1e12


def held(connection: sa.Connection, owner: int, since_s: float) -> tuple[float, Movements]:
    """The credits of all its accounts, and since then by time what came or went."""
    theirs = accounts.of_owner(connection, owner)
    moved = [
        (entry.at_s, entry.amount / MICRO)
        for account in theirs
        for entry in entries.of_account(connection, account.id, since_s, _FOREVER_S)
    ]
    return sum(one.balance for one in theirs) / MICRO, moved
