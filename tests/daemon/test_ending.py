"""A daemon ends in order on SIGTERM, and does not start beside another one."""

import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from merkatd.database.scheduler.period_store import PERIODS, PeriodState
from merkatd.database.scheduler.step_store import STEPS, StepState
from tests import servers
from tests.daemon.agreement import agree
from tests.daemon.harness import INTERVAL_S, LIMIT_S, Site
from tests.daemon.processes import Program, until
from tests.daemon.settling import settle
from tests.servers import MariaDb


def check_end(daemon: Program) -> None:
    """Send SIGTERM twice, as `timeout` does, and check that the daemon ends in order."""
    daemon.tell_to_end()
    daemon.tell_to_end()
    code = daemon.end()
    assert code == 0, daemon.output()
    assert "Traceback" not in daemon.output(), daemon.output()


def unfinished(connection: sa.Connection) -> list[object]:
    """Return the unsent steps and the interrupted periods."""
    finished = (PeriodState.ACTED, PeriodState.CHARGED)
    steps = sa.select(STEPS.c.id).where(STEPS.c.state == StepState.PLANNED)
    periods = sa.select(PERIODS.c.number).where(PERIODS.c.state.not_in(finished))
    return [*connection.scalars(steps), *connection.scalars(periods)]


def taken(lock: Path) -> bool:
    """Return whether a daemon holds the lock."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_an_ending_daemon_finishes_its_period(site: Site) -> None:
    """Every period is complete, and every planned step was sent."""
    for _ in range(2):
        site.fault("delay", "*", seconds=INTERVAL_S / 20)
        site.after_good_periods(2, busy=True)
        site.busy_for(float(site.rng.uniform(0, INTERVAL_S)))
        assert site.daemon is not None
        check_end(site.daemon)
        assert site.read(unfinished) == []
        site.heal()
        agree(site)
        site.start_daemon()
    settle(site)
    agree(site)


def test_a_starting_daemon_ends_too(site: Site) -> None:
    """It ends in order at any point after it has locked its state directory."""
    site.kill_daemon()
    daemon = site.start_daemon()
    until(lambda: taken(site.directory / "state" / "lock"), "the state directory is taken")
    check_end(daemon)


@pytest.mark.parametrize("method", ["one.vmpool.*", "one.vm.*"], ids=["seeing", "acting"])
def test_an_ending_daemon_waits_for_a_hanging_cloud_for_a_limited_time(
    site: Site, method: str
) -> None:
    """The next daemon finds out which of the sent steps were made."""
    site.kill_daemon()
    site.configure(call_limit_s=LIMIT_S, grace_s=0.1)
    site.start_daemon()
    site.after_good_periods(1)
    site.fault("hang", method)
    site.busy_for(4 * INTERVAL_S)
    assert site.daemon is not None
    check_end(site.daemon)
    site.heal()
    site.configure()
    site.start_daemon()
    settle(site)
    agree(site)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    """Start a MariaDB for these tests alone, so that it can be frozen."""
    if servers.MARIADBD is None:
        pytest.skip("mariadb-server is not here")
    with servers.mariadb() as server:
        yield server


@pytest.mark.parametrize("started", [True, False], ids=["running", "starting"])
def test_a_daemon_with_a_hanging_database_ends_in_time(
    site: Site, server: MariaDb, started: bool
) -> None:
    """Every part is closed within its limit, and no lock is left."""
    site.kill_daemon()
    site.configure(grace_s=0.5, database=server.make(f"merkat_{started}".lower()))
    if not started:
        server.freeze()
    daemon = site.start_daemon()
    until(lambda: taken(site.directory / "state" / "lock"), "the state directory is taken")
    if started:
        site.after_good_periods(1)
        server.freeze()
        site.busy_for(3 * INTERVAL_S)
    daemon.tell_to_end()
    told_s = time.monotonic()
    until(lambda: not daemon.running, "the daemon has ended")
    assert time.monotonic() - told_s < 25.0, daemon.output()
    assert not taken(site.directory / "state" / "lock")
    assert "Traceback" not in daemon.output(), daemon.output()
    server.thaw()
    site.start_daemon()
    site.after_good_periods(1)


def test_a_second_daemon_on_the_same_state_directory_is_rejected(site: Site) -> None:
    """The error is one line, and the first daemon continues."""
    site.after_good_periods(1)
    second = site.another_daemon()
    assert second.end() == 1
    directory = site.directory / "state"
    line = f"merkatd run: {directory}: another daemon uses this state directory\n"
    assert line in second.output()
    assert "Traceback" not in second.output()
    site.after_good_periods(1)


def test_a_killed_daemon_leaves_its_state_directory_free(site: Site) -> None:
    """The next daemon starts with the same directory."""
    site.after_good_periods(1)
    site.kill_daemon()
    site.start_daemon()
    site.after_good_periods(1)
