"""The daemon and its MariaDB killed in the middle of charging: no credit is lost or made."""

import os
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

KILLS = int(os.environ.get("MERKAT_SOAK", "12"))
SEED = int(os.environ.get("MERKAT_SEED", "1"))

KEPT = 150
"""Periods whose charges are not rolled up yet."""

SERVER = {"server": True, "daemon": False}
DAEMON = {"server": False, "daemon": True}
BOTH = {"server": True, "daemon": True}
VICTIMS = (SERVER, DAEMON, BOTH)
"""Three kinds and four moments: in twelve kills each kind meets each moment."""

pytestmark = pytest.mark.skipif(servers.MARIADBD is None, reason="mariadb-server is not here")


def test_kills_of_server_and_daemon_lose_and_double_nothing(tmp_path: Path) -> None:
    """Either of them, and both, at each moment of a charge; what is left is charged, once."""
    rng = np.random.default_rng(SEED)
    dues = Dues()
    with books(tmp_path, KEPT) as site:
        for kill in range(KILLS):
            with MOMENTS[kill % len(MOMENTS)](site, rng):
                site.kill(**VICTIMS[kill % len(VICTIMS)])
            site.start_again()
            looked(site, dues)
        site.after_another_charge()
        looked(site, dues)
        site.read(dues.whole)
        site.read(reconciled)
        assert site.password not in site.log


def looked(site: Books, dues: Dues) -> None:
    """The books of one moment: zero in all, and every period for what it was."""

    def look(connection: sa.Connection) -> None:
        assert audit(connection).sound
        dues.look(connection)

    site.read(look)


def reconciled(connection: sa.Connection) -> None:
    """Every credit stands in a statement."""
    began = connection.scalars(sa.select(PERIODS.c.started_s))
    for month in {month_of(at_s) for at_s in began}:
        for owner in range(FIRST_USER, FIRST_USER + len(TENANTS)):
            assert statement(connection, owner, month).difference == 0
