"""Periods while the database has no room, as on a full disk."""

import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import capturedLogs

from merkatd.scheduler.phases.announce import PeriodOutcome
from tests.scheduler.frontend import Frontend


def bound(engine: sa.Engine, more_pages: int) -> None:
    """Allow the database so many pages more than it has."""
    with engine.connect() as connection:
        used = connection.execute(sa.text("PRAGMA page_count")).scalar_one()
        connection.execute(sa.text(f"PRAGMA max_page_count = {used + more_pages}"))


def test_a_full_disk_is_a_line_a_period_and_periods_go_on() -> None:
    """The log has SQLite's words and no traceback, and a period decides once there is room."""
    frontend = Frontend(hosts=2)
    outcomes: list[PeriodOutcome] = []
    frontend.vm()
    frontend.period()
    frontend.scheduler.count(lambda outcome, _seconds: outcomes.append(outcome))
    bound(frontend.engine, 0)
    with capturedLogs() as logged:
        frontend.scheduler.start()
        while PeriodOutcome.FAILED not in outcomes:
            frontend.vm(cpu_bid=2.0 + len(outcomes), MERKAT_NOTE="x" * 3000)
            frontend.clock.advance(60.0)
    failed = [event for event in logged if "period failed" in event["log_format"].lower()]
    assert failed
    assert not any("log_failure" in event for event in logged)
    assert "database or disk is full" in failed[-1]["why"]
    bound(frontend.engine, 100_000)
    while outcomes[-1] is PeriodOutcome.FAILED:
        frontend.clock.advance(60.0)
    assert outcomes[-1] is PeriodOutcome.DONE
    frontend.result(ensureDeferred(frontend.scheduler.stop()))
    frontend.agree()
    frontend.close()
