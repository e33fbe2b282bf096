"""A failed period stores its reason; work between periods waits for the running period."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.python.failure import Failure

from merkatd.database.scheduler import period_store
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.database.scheduler.period_store import PeriodRow, PeriodState
from tests.scheduler.frontend import Frontend


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Return a frontend with a VM."""
    made = Frontend()
    made.vm()
    yield made
    made.close()


def failed(frontend: Frontend, error: Exception) -> PeriodRow:
    """Run a period that raises this error, and return its stored row."""

    async def raising(*_: Any) -> tuple[()]:
        raise error

    frontend.world_settings = {"proposals": raising}
    frontend.start_daemon()
    with pytest.raises(type(error)):
        frontend.period()
    row: PeriodRow | None = frontend.read(period_store.newest)
    assert row is not None
    frontend.world_settings = {}
    frontend.start_daemon()
    return row


def test_a_failed_period_stores_its_reason(frontend: Frontend) -> None:
    """The next period runs as usual."""
    row = failed(frontend, RuntimeError("no plan"))
    assert (row.state, row.failure) == (PeriodState.FAILED, "RuntimeError: no plan")
    assert frontend.period().period == row.number + 1


def test_a_daemon_that_lost_its_lease_stops_writing(frontend: Frontend) -> None:
    """Another daemon owns the database now."""
    row = failed(frontend, LeaseLostError("another daemon has it"))
    assert (row.state, row.failure) == (PeriodState.OBSERVED, None)


def test_work_between_periods_waits_for_the_running_period(frontend: Frontend) -> None:
    """After its patience the work is dropped."""
    frontend.bench.ok("embedded.fault.add", {"kind": "hang", "method": "one.vmpool.*", "count": 1})
    done: list[str] = []

    async def work() -> None:
        done.append("work")

    def patience_ended(failure: Failure) -> None:
        assert failure.type is not None
        done.append(failure.type.__name__)

    running = ensureDeferred(frontend.scheduler.period())
    ended: list[Any] = []
    running.addBoth(ended.append)
    assert not ended
    late = ensureDeferred(frontend.scheduler.between_periods(work, 2.0))
    late.addErrback(patience_ended)
    frontend.clock.advance(3.0)
    assert (done, ended) == (["TimeoutError"], [])
    patient = ensureDeferred(frontend.scheduler.between_periods(work, 1e6))
    frontend.result(running)
    frontend.result(patient)
    assert done == ["TimeoutError", "work"]
