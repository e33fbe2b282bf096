"""The daemon's persistent state: periods, the journal of steps, bids, accounts, platforms, groups.

Each family of tables is a module of plain functions. They take a connection inside one transaction
and return frozen values. `Database` runs such functions on its own threads. This package makes no
decisions.
"""

from merkatd.database.database import Database

__all__ = ["Database"]
