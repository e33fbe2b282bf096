"""A daemon without a cloud that charges and records steps until it is killed.

`main` starts such a daemon for each line of its input, as a process of its own: a fork, which
needs no time to import.
"""

import os
import sys
from functools import partial

import sqlalchemy as sa

from merkatd.cluster import Deploy, Step, Suspend
from merkatd.database import migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.ledger import account_store, charge_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import journal, period_store
from tests.database.books import open_accounts

PAYERS = 40
VMS = 12
OWED = 3


def observe(connection: sa.Connection) -> int:
    """Begin a period and record its plan; expire the previous period's steps."""
    stale = {step.id: "the daemon was gone" for step in journal.outstanding(connection)}
    journal.expire(connection, stale, 0.0)
    number = period_store.begin(connection, 0.0, 0.0, hosts=1, vms=VMS)
    plan: list[Step] = [Deploy(period=number, vm=vm, host=1, reason="load") for vm in range(VMS)]
    plan.append(Suspend(period=number, vm=0, reason="left out, the VM is taken"))
    journal.record(connection, plan, 0.0)
    return number


def act(connection: sa.Connection, number: int) -> None:
    """Send all steps of the period."""
    period_store.decided(connection, number, 1.0, "tabu")
    ids = [step.id for step in journal.of_plan(connection, number)]
    journal.mark_sent(connection, ids, 1.0)
    period_store.acted(connection, number, 1.0)


def settle(connection: sa.Connection, number: int) -> None:
    """Confirm the steps and charge the period in one transaction."""
    ids = [step.id for step in journal.of_plan(connection, number)]
    journal.confirm(connection, ids, 2.0)
    tenants = account_store.every(connection, AccountKind.TENANT)
    charge_store.charge(connection, number, {tenant.id: OWED for tenant in tenants}, 2.0)
    period_store.charged(connection, number, 2.0)


def work(url: str) -> None:
    """Print the number of each period when it has begun, and again when it is charged."""
    engine = make_engine(url)
    migrations.upgrade(engine)
    if not transaction(engine, account_store.every):
        transaction(engine, lambda connection: open_accounts(connection, [10**9] * PAYERS))
    while True:
        number = transaction(engine, observe)
        sys.stdout.write(f"begun {number}\n")
        sys.stdout.flush()
        transaction(engine, partial(act, number=number))
        transaction(engine, partial(settle, number=number))
        sys.stdout.write(f"charged {number}\n")
        sys.stdout.flush()


def main(url: str) -> None:
    """Start a worker for each line of the input; write its process id, and when it has ended."""
    for _ in sys.stdin:
        process = os.fork()
        if not process:
            work(url)
        sys.stdout.write(f"process {process}\n")
        sys.stdout.flush()
        os.waitpid(process, 0)
        sys.stdout.write("ended 0\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
