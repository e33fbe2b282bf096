"""A server outage causes one line in the log, and another one when it ends."""

import gc
from collections.abc import Sequence

from twisted.logger import LogLevel, capturedLogs, formatEvent

from merkatd.embedded.machines.faults import Fault, FaultKind
from tests.scheduler.frontend import Frontend
from tests.scheduler.two_daemons import Daemon


def lines(events: Sequence[dict[str, object]]) -> list[str]:
    """Return the lines that an administrator reads."""
    return [formatEvent(event) for event in events if event["log_level"] >= LogLevel.info]


def test_an_outage_of_opennebula_of_any_length_is_two_log_lines(frontend: Frontend) -> None:
    """Ten periods and a hundred lease checks fail meanwhile; all are counted."""
    daemon = Daemon(frontend, "first")
    frontend.clock.pump([1.0] * 120)
    frontend.cloud.faults.add(Fault(FaultKind.LOSE))
    gc.collect()  # earlier failures that no code handled are logged when they are collected
    with capturedLogs() as logged:
        frontend.clock.pump([1.0] * 600)
        gc.collect()
    texts = lines(logged)
    assert sum("OpenNebula is away: " in line for line in texts) == 1, texts
    assert len(texts) <= 2, texts  # the other line: the lease is released
    assert daemon.scheduler.failures >= 9
    frontend.cloud.faults.clear()
    with capturedLogs() as logged:
        frontend.clock.pump([1.0] * 120)
    assert sum("OpenNebula is back" in line for line in lines(logged)) == 1
    frontend.cloud.faults.add(Fault(FaultKind.LOSE))
    with capturedLogs() as logged:
        frontend.clock.pump([1.0] * 120)
    assert sum("OpenNebula is away: " in line for line in lines(logged)) == 1
    daemon.end()
