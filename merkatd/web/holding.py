"""What a tenant and its applications hold together, and what moved on their accounts lately."""

import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database.ledger import account_store, entry_store

Movements = list[tuple[float, float]]


def held(connection: sa.Connection, owner: int, since_s: float) -> tuple[float, Movements]:
    """The credits of all its accounts, and since then by time what came or went."""
    moved = entry_store.moved_of_owner(connection, owner, since_s)
    return account_store.held_by(connection, owner) / MICRO, [
        (at_s, one / MICRO) for at_s, one in moved
    ]
