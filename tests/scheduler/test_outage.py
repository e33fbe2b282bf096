"""A server that goes away: one line in the log, and another one when it is back."""

from collections.abc import Sequence

from twisted.logger import LogLevel, capturedLogs, formatEvent

from merkatd.embedded.machines.faults import Fault, FaultKind
from tests.scheduler.frontend import Frontend
from tests.scheduler.test_leading import Daemon


def lines(events: Sequence[dict[str, object]]) -> list[str]:
    """What an administrator reads."""
    return [formatEvent(one) for one in events if one["log_level"] >= LogLevel.info]


def test_an_outage_of_opennebula_is_two_lines_however_long_it_lasts(frontend: Frontend) -> None:
    """Ten periods and a hundred looks at the lease fail meanwhile; all are counted."""
    daemon = Daemon(frontend, "first")
    frontend.clock.pump([1.0] * 120)
    frontend.cloud.faults.add(Fault(FaultKind.LOSE))
    with capturedLogs() as logged:
        frontend.clock.pump([1.0] * 600)
    said = lines(logged)
    assert sum("OpenNebula is away: " in line for line in said) == 1, said
    assert len(said) <= 2, said  # the other one: the lease is given back
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
