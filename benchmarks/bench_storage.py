"""The size of a year of one-minute periods on MariaDB, extrapolated from measured rows.

python benchmarks/bench_storage.py

The cloud has 10,000 VMs of 1,000 applications. Each VM's allocation, bid and charge is random in
each period, so that nothing compresses better than in the busiest cloud.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from merkatd.cluster import Limit
from merkatd.currency.settings import MoneySettings
from merkatd.database import migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import journal, period_store, price_store
from merkatd.database.scheduler.period_store import PERIODS as PERIODS_TABLE
from merkatd.ledger import Bill, fold_details, forget, settle_bill, update_tenants
from tests import servers

APPLICATIONS = 1_000
VMS = 10_000
STEPS = 100
"""Number of limits that change in a period: one VM in a hundred."""
PERIODS = 60
MORE = 20_000
"""Number of periods without details, to measure the rows that stay."""
KEPT = 7 * 24 * 60
"""Number of periods of which everything is kept."""
YEAR = 365 * 24 * 60
GIB = 2**30

KEPT_TABLES = ("allocations", "details", "entries", "transactions", "steps")
"""Tables whose rows are deleted, or merged into days, after seven days."""
LASTING_TABLES = ("periods", "prices")
"""Tables with a few rows per period that stay."""
DAILY_TABLES = ("uses", "entries", "transactions")
"""Tables with rows per day."""


def period(connection: sa.Connection, number: int, payers: list[int]) -> None:
    """Store everything that a period of a busy cloud stores."""
    rng = np.random.default_rng(number)
    begun = period_store.begin(connection, number * 60.0, number * 60.0, hosts=1_000, vms=VMS)
    vm = np.arange(VMS)
    shares = rng.uniform(1, 400, (VMS, 2))
    arrays = {
        "vm": vm,
        "market": np.zeros(VMS, dtype=np.int64),
        "owner": vm % APPLICATIONS,
        "application": np.full(VMS, -1),
        "floor": rng.uniform(0, 1000, (VMS, 2)) * [0, 1],
        "bid": rng.lognormal(size=(VMS, 2)),
        "allocation": shares,
        "price": np.array([[0.01, 0.001]]),
        "runs": np.ones(VMS, dtype=bool),
    }
    price_store.store_allocations(connection, begun, arrays)
    price_store.store_prices(connection, begun, {"default": {"cpu": 0.01, "memory": 0.001}})
    limits = [
        Limit(
            period=begun,
            vm=vm,
            reason="its share of CPU is 142.7 % of a core, and was 139.2",
            vcpu_quota_us=int(shares[vm, 0] * 100),
            global_quota_us=None,
            quota_period_us=100_000,
            shares=1024,
        )
        for vm in range(STEPS)
    ]
    journal.record(connection, limits, number * 60.0)
    period_store.decided(connection, begun, number * 60.0, "tabu")
    bill = Bill(
        period=begun,
        vm=vm,
        account=np.array(payers)[vm % APPLICATIONS],
        owed=rng.integers(1_000, 1_000_000, (VMS, 2)),
        allocation=shares,
        seconds=np.full(VMS, 60.0),
        names=[f"vm-{vm}" for vm in range(VMS)],
    )
    settle_bill(connection, bill, number * 60.0)
    period_store.charged(connection, begun, number * 60.0)


def lasting(connection: sa.Connection) -> None:
    """Store the lasting rows of many periods: a few periods have too few to measure."""
    first = PERIODS + 1
    numbers = range(first, first + MORE)
    row = {"state": "failed", "observed_s": 1.0, "decided_s": 2.0, "acted_s": 3.0}
    row |= {"charged_s": 4.0, "hosts": 1_000, "vms": VMS, "strategy": "tabu"}
    connection.execute(
        sa.insert(PERIODS_TABLE),
        [row | {"number": number, "started_s": number * 60.0} for number in numbers],
    )
    kept = [
        {"period": number, "market": "default", "resource": resource, "price": 0.01}
        for number in numbers
        for resource in ("cpu", "memory")
    ]
    connection.execute(sa.insert(price_store.PRICES), kept)


def sizes(engine: sa.Engine) -> dict[str, int]:
    """Return the bytes of each table with its indexes."""
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        for name in names:
            connection.exec_driver_sql(f"ANALYZE TABLE {name}").all()
        rows = connection.exec_driver_sql(
            "SELECT table_name, data_length + index_length FROM information_schema.tables"
            " WHERE table_schema = database()"
        )
        return {name: int(size) for name, size in rows}


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    if servers.MARIADBD is None:
        print("MariaDB is not installed: apt-get install mariadb-server")
        return 1
    with servers.mariadb() as server:
        engine = make_engine(server.make("storage"))
        migrations.upgrade(engine)
        money = MoneySettings(supply=1e9, starting_credits=1e5)
        owners = dict.fromkeys(range(APPLICATIONS))
        transaction(engine, lambda c: update_tenants(c, owners, money, 0.0))
        payers = [
            account.id
            for account in transaction(engine, lambda c: account_store.every(c, AccountKind.TENANT))
        ]
        empty = sizes(engine)
        for number in range(1, PERIODS + 1):
            transaction(engine, partial(period, number=number, payers=payers))
        full = sizes(engine)
        transaction(engine, lasting)
        more = sizes(engine)
        transaction(engine, fold_details)
        while transaction(engine, lambda c: forget(c, PERIODS + 1, 0.0)):
            pass
        engine.dispose()
        # Deleted rows leave holes: a copy of the table has only the rows of the days.
        with engine.begin() as connection:
            for name in DAILY_TABLES:
                connection.exec_driver_sql(f"OPTIMIZE TABLE {name}").all()
        days = sizes(engine)
        engine.dispose()
    total = 0.0
    for name in KEPT_TABLES:
        size = (full[name] - empty[name]) / PERIODS * KEPT
        figures.plain(f"{name} of the last seven days, GiB", size / GIB)
        total += size
    for name in LASTING_TABLES:
        size = (more[name] - full[name]) / MORE * YEAR
        figures.plain(f"{name} of a year, GiB", size / GIB)
        total += size
    for name in DAILY_TABLES:
        size = days[name] * 365.0
        figures.plain(f"{name} of 365 days, GiB", size / GIB)
        total += size
    figures.at_most(f"a year, {VMS} VMs of {APPLICATIONS} applications, GiB", total / GIB, 20)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
