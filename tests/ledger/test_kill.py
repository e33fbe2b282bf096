"""Killed in the middle of charging, server or daemon or both: no credit is lost or made."""

import multiprocessing
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database import accounts, details, entries, migrations, periods, rollups
from merkatd.database.audit import audit
from merkatd.database.engine import make_engine
from merkatd.database.periods import PeriodState
from merkatd.database.service import transaction
from merkatd.ledger import Month, statement
from tests import servers
from tests.ledger import worker
from tests.ledger.worker import OWED, TENANTS, VMS_OF_EACH

KILLS = int(os.environ.get("MERKAT_SOAK", "20"))
SEED = int(os.environ.get("MERKAT_SEED", "1"))

EACH = 2 * VMS_OF_EACH * OWED
"""What a payer owes for a period: nobody here is ever short."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.ledger.worker", "tests.daemon.processes"])

pytestmark = pytest.mark.skipif(servers.MARIADBD is None, reason="mariadb-server is not here")


class Worker:
    """The process that charges."""

    def __init__(self, url: str, log: Path) -> None:
        self._log = log
        self._begin = log.stat().st_size if log.exists() else 0
        # A fork of what has imported everything: imports would take longer than all the rest.
        self._process = FORKS.Process(target=worker.main, args=(url, log))
        self._process.start()

    def said(self) -> dict[int, int]:
        """By period: what it said to have taken."""
        if not self._log.exists():
            return {}
        lines = self._log.read_bytes()[self._begin :].decode().splitlines(keepends=True)
        whole = [line.split() for line in lines if line.endswith("\n")]
        return {int(number): int(taken) for number, taken in whole}

    def kill(self) -> dict[int, int]:
        """End it as a power cut would; what it had said."""
        self._process.kill()
        self._process.join()
        return self.said()

    def until(self, met: Callable[[], bool]) -> dict[int, int]:
        """Wait for a condition; what it said meanwhile."""
        ending = time.monotonic() + 30
        while True:
            said = self.said()
            if said and met():
                return said
            assert self._process.is_alive(), "it ended by itself"
            assert time.monotonic() < ending, "it charged nothing in 30 s"
            time.sleep(0.002)


def check(connection: sa.Connection, said: dict[int, int]) -> None:
    """Nothing twice, nothing half, nothing lost."""
    assert audit(connection).sound
    stored = {one.number: one.state for one in periods.recent(connection, 1_000_000)}
    charged = {number for number, state in stored.items() if state is PeriodState.CHARGED}
    assert charged >= said.keys()
    payers = TENANTS + TENANTS // 2
    assert set(said.values()) <= {EACH * payers, 0}
    rolled = rollups.rolled_up_to(connection)
    for number in stored.keys() - set(range(rolled + 1)):
        done = len(entries.under(connection, f"charge/{number}/"))
        assert done == (payers if number in charged else 0)
        assert details.known(connection, number) == (number in charged)
    for account in accounts.every(connection):
        if account.owner is not None:
            taken = entries.sums(connection, account.id, 0.0, None)
            assert -taken.get(entries.TransactionKind.CHARGE, 0) == EACH * len(charged)


def reconciled(connection: sa.Connection) -> None:
    """Every credit stands in a statement."""
    for owner in range(TENANTS):
        assert statement(connection, owner, Month(1970, 1)).difference == 0


def test_kills_of_server_and_daemon_lose_and_double_nothing(tmp_path: Path) -> None:
    """Each worker goes on with what was left; a server alone that dies is waited for."""
    rng = np.random.default_rng(SEED)
    log = tmp_path / "said"
    said: dict[int, int] = {}
    with servers.mariadb() as server:
        url = server.make("merkat")
        engine = make_engine(url)
        migrations.upgrade(engine)
        engine.dispose()
        running = Worker(url, log)
        try:
            for kill in range(KILLS):
                moment = time.monotonic() + float(rng.uniform(0.0, 0.15))
                running.until(partial(passed, moment))
                if kill % 3 != 1:
                    server.kill()
                if kill % 3 != 0:
                    said |= running.kill()
                    running = Worker(url, log)
                if kill % 3 != 1:
                    server.start()
                look(url, partial(check, said=dict(said)))
            said |= running.kill()
            look(url, partial(check, said=said))
            look(url, reconciled)
        finally:
            running.kill()
    assert len(said) >= KILLS


def passed(moment: float) -> bool:
    """Whether it is later than this."""
    return time.monotonic() > moment


def look(url: str, work: Callable[[sa.Connection], None]) -> None:
    """Look at the books of one moment."""
    engine = make_engine(url)
    transaction(engine, work)
    engine.dispose()
