"""A process killed at any moment leaves complete transactions and loses none that it reported."""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store, charge_store, entry_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import audit
from merkatd.database.scheduler import journal, period_store
from merkatd.database.scheduler.period_store import PeriodState
from merkatd.database.scheduler.step_store import StepState
from tests.database.worker import OWED, PAYERS, VMS

KILLS = 10


def run_and_kill(url: str, wait_s: float) -> list[tuple[str, int]]:
    """Return the reports of a worker that is killed some time after its first one."""
    command = [sys.executable, "-m", "tests.database.worker", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        first = worker.stdout.readline()
        time.sleep(wait_s)
        worker.kill()
        said = (first + worker.stdout.read()).splitlines(keepends=True)
    whole = [line.split() for line in said if line.endswith("\n")]
    return [(what, int(number)) for what, number in whole]


def check_books(connection: sa.Connection, said: list[tuple[str, int]]) -> None:
    """Check that no transaction is partial, repeated or lost."""
    assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    assert audit(connection).sound
    stored = {one.number: one.state for one in period_store.recent(connection, 1_000_000)}
    begun = [number for what, number in said if what == "begun"]
    assert begun == sorted(set(begun))
    assert stored.keys() >= set(begun)
    charged = {number for number, state in stored.items() if state is PeriodState.CHARGED}
    assert charged >= {number for what, number in said if what == "charged"}
    payers = [account.id for account in account_store.every(connection, AccountKind.TENANT)]
    assert len(payers) == PAYERS
    for number, state in stored.items():
        references = {charge_store.reference_of(number, payer) for payer in payers}
        done = len(entry_store.posted(connection, references))
        assert done == (PAYERS if number in charged else 0)
        steps = Counter(one.state for one in journal.of_plan(connection, number))
        assert steps.total() == VMS
        expected = {
            PeriodState.OBSERVED: {StepState.PLANNED, StepState.EXPIRED},
            PeriodState.ACTED: {StepState.SENT, StepState.EXPIRED},
            PeriodState.CHARGED: {StepState.CONFIRMED},
        }
        assert len(steps) == 1
        assert steps.keys() <= expected[state]
    assert account_store.treasury(connection).balance == OWED * PAYERS * len(charged)


def test_ten_kills_leave_ledger_and_journal_complete(tmp_path: Path) -> None:
    """Each worker continues where the killed worker stopped."""
    url = f"sqlite:///{tmp_path / 'merkat.db'}"
    rng = np.random.default_rng(7)
    said: list[tuple[str, int]] = []
    for _ in range(KILLS):
        said += run_and_kill(url, float(rng.uniform(0.0, 0.12)))
        engine = make_engine(url)
        with engine.connect() as connection:
            check_books(connection, said)
        engine.dispose()
    assert len(said) > KILLS
