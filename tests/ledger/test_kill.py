"""Kills of the daemon and its MariaDB during charges: no credit is lost or created."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.ledger.entry_store import audit
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.ledger import month_of, statement
from tests import servers
from tests.ledger.dues import Dues
from tests.ledger.moments import MOMENTS
from tests.ledger.site import FIRST_USER, TENANTS, Books, books

KILLS = int(os.environ.get("MERKAT_SOAK", "4"))
SEED = int(os.environ.get("MERKAT_SEED", "1"))

KEPT = 150
"""Number of periods whose charges are not yet rolled up."""

SERVER = {"server": True, "daemon": False}
DAEMON = {"server": False, "daemon": True}
BOTH = {"server": True, "daemon": True}
VICTIMS = (SERVER, DAEMON, BOTH)
"""Three kinds and four moments: four kills meet each of them, twelve meet each pair."""

pytestmark = pytest.mark.skipif(servers.MARIADBD is None, reason="mariadb-server is not here")


def test_kills_of_server_and_daemon_neither_lose_nor_repeat_charges(tmp_path: Path) -> None:
    """After kills of either or both at each moment of a charge, each period is charged once."""
    rng = np.random.default_rng(SEED)
    dues = Dues()
    with books(tmp_path, KEPT) as site:
        for kill in range(KILLS):
            with MOMENTS[kill % len(MOMENTS)](site, rng):
                site.kill(**VICTIMS[kill % len(VICTIMS)])
            site.start_again()
            check_books(site, dues.look)
        site.await_charge()
        check_books(site, dues.look, dues.check_totals)
        site.read(check_statements)
        assert site.password not in site.log


def check_books(site: Books, *checks: Callable[[sa.Connection], None]) -> None:
    """Check one moment's ledger: the sum is zero, and each period is charged correctly.

    The daemon goes on, so all checks need one transaction.
    """

    def look(connection: sa.Connection) -> None:
        assert audit(connection).sound
        for check in checks:
            check(connection)

    site.read(look)


def check_statements(connection: sa.Connection) -> None:
    """Check that every credit appears in a statement."""
    began = connection.scalars(sa.select(PERIODS.c.started_s))
    for month in {month_of(at_s) for at_s in began}:
        for owner in range(FIRST_USER, FIRST_USER + len(TENANTS)):
            assert statement(connection, owner, month).difference == 0
