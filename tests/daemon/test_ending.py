"""How a daemon ends when it is told to, and how it won't begin beside another."""

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


def ends_well(daemon: Program) -> None:
    """Told twice at once, as `timeout` tells, it ends without complaint."""
    daemon.tell_to_end()
    daemon.tell_to_end()
    code = daemon.end()
    assert code == 0, daemon.said()
    assert "Traceback" not in daemon.said(), daemon.said()


def unfinished(connection: sa.Connection) -> list[object]:
    """The steps that were never sent, and the periods that were cut short."""
    whole = (PeriodState.ACTED, PeriodState.CHARGED)
    steps = sa.select(STEPS.c.id).where(STEPS.c.state == StepState.PLANNED)
    periods = sa.select(PERIODS.c.number).where(PERIODS.c.state.not_in(whole))
    return [*connection.scalars(steps), *connection.scalars(periods)]


def taken(lock: Path) -> bool:
    """Whether a daemon holds it."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_told_to_end_it_finishes_the_period_in_hand(site: Site) -> None:
    """Every period is whole, and of its steps none is planned that was not sent."""
    for _ in range(3):
        site.fault("delay", "*", seconds=INTERVAL_S / 20)
        site.after_good_periods(2, busy=True)
        site.busy_for(float(site.rng.uniform(0, INTERVAL_S)))
        assert site.daemon is not None
        ends_well(site.daemon)
        assert site.read(unfinished) == []
        site.heal()
        agree(site)
        site.start_daemon()
    settle(site)
    agree(site)


def test_told_to_end_while_it_starts_it_ends_too(site: Site) -> None:
    """As soon as it has its state directory a daemon ends in order, however far it has come."""
    site.kill_daemon()
    daemon = site.start_daemon()
    until(lambda: taken(site.directory / "state" / "lock"), "the state directory is taken")
    ends_well(daemon)


@pytest.mark.parametrize("method", ["one.vmpool.*", "one.vm.*"], ids=["seeing", "acting"])
def test_told_to_end_while_the_cloud_hangs_it_waits_for_so_long_only(
    site: Site, method: str
) -> None:
    """What the cloud was asked for is sent, as far as anybody knows; the next daemon looks."""
    site.kill_daemon()
    site.configure(call_limit_s=LIMIT_S, grace_s=0.1)
    site.start_daemon()
    site.after_good_periods(1)
    site.fault("hang", method)
    site.busy_for(4 * INTERVAL_S)
    assert site.daemon is not None
    ends_well(site.daemon)
    site.heal()
    site.configure()
    site.start_daemon()
    settle(site)
    agree(site)


@pytest.fixture
def server() -> Iterator[MariaDb]:
    """A MariaDB of this test alone, which the test may freeze."""
    if servers.MARIADBD is None:
        pytest.skip("mariadb-server is not here")
    with servers.mariadb() as one:
        yield one


@pytest.mark.parametrize("started", [True, False], ids=["running", "starting"])
def test_told_to_end_while_the_database_hangs_it_ends_in_time(
    site: Site, server: MariaDb, started: bool
) -> None:
    """Every part of the daemon is closed within its limit, and no lock is left behind."""
    site.kill_daemon()
    site.configure(grace_s=0.5, database=server.make("merkat"))
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
    assert time.monotonic() - told_s < 25.0, daemon.said()
    assert not taken(site.directory / "state" / "lock")
    assert "Traceback" not in daemon.said(), daemon.said()
    server.thaw()
    site.start_daemon()
    site.after_good_periods(1)


def test_a_second_daemon_with_the_same_state_directory_is_refused(site: Site) -> None:
    """It says why in a line, and the first one goes on."""
    site.after_good_periods(1)
    second = site.another_daemon()
    assert second.end() == 1
    directory = site.directory / "state"
    line = f"merkatd run: {directory}: another daemon uses this state directory\n"
    assert line in second.said()
    assert "Traceback" not in second.said()
    site.after_good_periods(1)


def test_a_state_directory_is_free_again_whatever_ended_the_daemon(site: Site) -> None:
    """What a killed one leaves behind is in nobody's way."""
    site.after_good_periods(1)
    site.kill_daemon()
    site.start_daemon()
    site.after_good_periods(1)
