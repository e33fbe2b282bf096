"""The time to charge 10,000 applications on MariaDB, compared with a bare insert of the rows.

python benchmarks/bench_charge.py
"""

import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from merkatd.database import migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.ledger import account_store, charge_store, entry_store
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.ledger.entry_store import TRANSACTIONS, Posting, TransactionKind, audit
from merkatd.database.scheduler import period_store
from tests import servers

APPLICATIONS = 10_000
HELD = 10**9
ROUNDS = 7


def opened(connection: sa.Connection) -> list[int]:
    """Open an account with credits for each application, and return their ids."""
    issuance = account_store.issuance(connection).id
    rows = [
        {"kind": AccountKind.APPLICATION, "owner": owner, "name": "app", "balance": 0}
        for owner in range(APPLICATIONS)
    ]
    connection.execute(sa.insert(ACCOUNTS), rows)
    accounts = [account.id for account in account_store.every(connection, AccountKind.APPLICATION)]
    account_store.treasury(connection)
    moves = {issuance: -HELD * len(accounts), **dict.fromkeys(accounts, HELD)}
    entry_store.post(connection, [Posting(TransactionKind.ISSUE, "issue/0", moves)], 0.0)
    return accounts


def bare(connection: sa.Connection, number: int, payers: list[int], treasury: int) -> None:
    """Insert only the rows of a charge, with the driver's own bulk insert."""
    first = (connection.scalar(sa.select(sa.func.max(TRANSACTIONS.c.id))) or 0) + 1
    ids = range(first, first + len(payers))
    cursor = connection.connection.cursor()
    cursor.executemany(
        "INSERT INTO transactions (id, at_s, kind, reference) VALUES (%s, %s, %s, %s)",
        [
            (transaction, 1.0, "charge", f"bare/{number}/{payer}")
            for transaction, payer in zip(ids, payers, strict=True)
        ],
    )
    rows = [(payer, transaction, -7) for transaction, payer in zip(ids, payers, strict=True)]
    rows += [(treasury, transaction, 7) for transaction in ids]
    cursor.executemany(
        "INSERT INTO entries (account_id, transaction_id, amount) VALUES (%s, %s, %s)",
        rows,
    )
    cursor.close()


def timed(engine: sa.Engine, work: Callable[[sa.Connection], object]) -> float:
    """Return the seconds until the work is committed."""
    begin = time.perf_counter()
    transaction(engine, lambda connection: work(connection) and None)
    return time.perf_counter() - begin


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    if servers.MARIADBD is None:
        print("MariaDB is not installed: apt-get install mariadb-server")
        return 1
    with servers.mariadb() as server:
        # Two databases, so that the rows of one do not slow down the other.
        ours, theirs = (make_engine(server.make(name)) for name in ("charged", "bare"))
        migrations.upgrade(ours)
        migrations.upgrade(theirs)
        payers, same = transaction(ours, opened), transaction(theirs, opened)
        treasury = transaction(theirs, lambda c: account_store.treasury(c).id)
        numbers = count(1)

        def charge(connection: sa.Connection) -> None:
            number = period_store.begin(connection, 0.0, 0.0, hosts=1, vms=1)
            owed = dict.fromkeys(payers, 7)
            taken = charge_store.charge(connection, number, owed, 60.0).taken
            if sum(taken.values()) != 7 * APPLICATIONS:
                raise AssertionError("some accounts were not charged in full")

        took, bulk = [], []
        for _ in range(ROUNDS):
            took.append(timed(ours, charge))
            bulk.append(timed(theirs, lambda c: bare(c, next(numbers), same, treasury)))
        if not transaction(ours, audit).sound:
            raise AssertionError("the audit of the ledger failed")
        ours.dispose()
        theirs.dispose()
    name = f"{APPLICATIONS} applications"
    figures.plain(f"bare bulk insert of the rows of {name}, ms", float(np.median(bulk)) * 1e3)
    figures.plain(f"charging {name}, ms", float(np.median(took)) * 1e3)
    figures.at_most(f"charging / bulk insert, {name}", float(np.median(took) / np.median(bulk)), 3)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
