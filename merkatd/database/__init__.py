"""What must outlive the daemon: periods, the journal of steps, bids, and the accounts.

Each table family is a module of plain functions that take a connection inside one
transaction, and hand back frozen values. `Database` runs such functions on threads of its
own; nothing here decides anything.
"""

from merkatd.database.database import Database

__all__ = ["Database"]
