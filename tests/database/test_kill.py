"""A process killed at any moment leaves complete transactions and loses none that it reported."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store, charge_store, entry_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import audit
from merkatd.database.scheduler import journal, period_store
from merkatd.database.scheduler.period_store import PeriodState
from merkatd.database.scheduler.step_store import StepState
from tests.database.worker import OWED, PAYERS, VMS
from tests.lengths import shorten

KILLS = shorten(100, 8)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database of its own."""
    return f"sqlite:///{tmp_path / 'merkat.db'}"


@pytest.fixture
def workers(url: str) -> Iterator[subprocess.Popen[str]]:
    """What starts a worker for each line that it is sent."""
    command = [sys.executable, "-m", "tests.database.worker", url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.communicate(timeout=60)


def killed_after(
    workers: subprocess.Popen[str], least: int, wait_s: float
) -> list[tuple[str, int]]:
    """Return the messages of a worker that is killed so long after this many messages."""
    assert workers.stdin is not None
    assert workers.stdout is not None
    workers.stdin.write("\n")
    workers.stdin.flush()
    process, killed = 0, False
    messages: list[tuple[str, int]] = []
    for line in workers.stdout:
        what, number = line.split()
        if what == "ended":
            break
        if what == "process":
            process = int(number)
        else:
            messages.append((what, int(number)))
        if process and len(messages) >= least and not killed:
            time.sleep(wait_s)
            os.kill(process, signal.SIGKILL)
            killed = True
    assert killed
    return messages


def check_books(connection: sa.Connection, messages: list[tuple[str, int]]) -> None:
    """Check that no transaction is partial, repeated or lost."""
    assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    assert audit(connection).sound
    stored = {period.number: period.state for period in period_store.recent(connection, 1_000_000)}
    begun = [number for what, number in messages if what == "begun"]
    assert begun == sorted(set(begun))
    assert stored.keys() >= set(begun)
    charged = {number for number, state in stored.items() if state is PeriodState.CHARGED}
    assert charged >= {number for what, number in messages if what == "charged"}
    payers = [account.id for account in account_store.every(connection, AccountKind.TENANT)]
    assert len(payers) == PAYERS
    for number, state in stored.items():
        references = {charge_store.reference_of(number, payer) for payer in payers}
        done = len(entry_store.posted(connection, references))
        assert done == (PAYERS if number in charged else 0)
        steps = Counter(step.state for step in journal.of_plan(connection, number))
        assert steps.total() == VMS
        expected = {
            PeriodState.OBSERVED: {StepState.PLANNED, StepState.EXPIRED},
            PeriodState.ACTED: {StepState.SENT, StepState.EXPIRED},
            PeriodState.CHARGED: {StepState.CONFIRMED},
        }
        assert len(steps) == 1
        assert steps.keys() <= expected[state]
    assert account_store.treasury(connection).balance == OWED * PAYERS * len(charged)


def test_kills_leave_the_books_and_the_journal_whole(
    url: str, workers: subprocess.Popen[str]
) -> None:
    """Each worker continues where the killed worker stopped."""
    rng = np.random.default_rng(7)
    messages: list[tuple[str, int]] = []
    for kill in range(KILLS):
        messages += killed_after(workers, 1 + kill % 3, float(rng.uniform(0.0, 0.12)))
        engine = make_engine(url)
        with engine.connect() as connection:
            check_books(connection, messages)
        engine.dispose()
    assert len(messages) > KILLS
