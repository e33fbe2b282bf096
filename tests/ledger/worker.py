"""A daemon without a cloud: charges period after period on a server until somebody kills it."""

from pathlib import Path

import numpy as np
import sqlalchemy as sa

from merkatd.currency.settings import Money
from merkatd.database import periods
from merkatd.database.accounts import AccountKind
from merkatd.database.accounts import every as every_account
from merkatd.database.engine import make_engine
from merkatd.ledger import Bill, met, replenish, settle
from merkatd.ledger.budgets import open_application
from merkatd.ledger.folding import fold, forget
from merkatd.ledger.renewals import renew_if_due
from tests.database.again import again

TENANTS = 20
VMS_OF_EACH = 5
OWED = 7
"""Micro-credits that a VM owes for each resource and period."""
KEPT = 6
"""Periods whose charges are not rolled up."""
MONEY = Money(supply=1000.0, starting_credits=10.0, renewal_s=600.0, replenishment_s=120.0)
PERIOD_S = 60.0


def opened(connection: sa.Connection) -> list[int]:
    """The accounts that pay: every other tenant has an application."""
    met(connection, dict.fromkeys(range(TENANTS)), MONEY, 0.0)
    for owner in range(0, TENANTS, 2):
        open_application(connection, owner, "web", 1_000, 400, 0.0)
    return [one.id for one in every_account(connection, AccountKind.TENANT)]


def begun(connection: sa.Connection) -> int:
    """A period that is decided; one of an earlier life that was not charged comes first."""
    newest = periods.newest(connection)
    if newest is not None and newest.state is periods.PeriodState.DECIDED:
        return newest.number
    number = periods.begin(connection, 0.0, 0.0, hosts=1, vms=TENANTS * VMS_OF_EACH)
    periods.decided(connection, number, 1.0, "tabu", {})
    return number


def charged(connection: sa.Connection, number: int) -> int:
    """Charge the period, and do what is due, in one transaction."""
    at_s = number * PERIOD_S
    payers = [one.id for one in every_account(connection) if one.owner is not None]
    vms = np.arange(len(payers) * VMS_OF_EACH)
    bill = Bill(
        period=number,
        vm=vms,
        account=np.repeat(np.array(payers), VMS_OF_EACH),
        owed=np.full((len(vms), 2), OWED),
        floor=np.zeros(len(vms), dtype=np.int64),
        allocation=np.ones((len(vms), 2)),
        seconds=PERIOD_S,
        names=[f"vm-{vm}" for vm in vms.tolist()],
    )
    result = settle(connection, bill, vms.tolist(), at_s)
    renew_if_due(connection, MONEY, at_s)
    replenish(connection, MONEY.replenishment_s, at_s)
    periods.charged(connection, number, at_s)
    return result.taken


def tidied(connection: sa.Connection, number: int) -> None:
    """Make days of what is old."""
    fold(connection, 2)
    forget(connection, number - KEPT, number * PERIOD_S, 3)


def main(url: str, log: Path) -> None:
    """Say the number of each period once its charge was committed, and what was taken."""
    engine = make_engine(url)
    again(engine, opened)
    while True:
        number = again(engine, begun)
        taken = again(engine, lambda c, number=number: charged(c, number))  # type: ignore[misc]
        with log.open("a") as said:
            said.write(f"{number} {taken}\n")
        again(engine, lambda c, number=number: tidied(c, number))  # type: ignore[misc]
