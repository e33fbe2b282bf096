"""Foreign placements: they are detected, reported once and attributed to a likely cause."""

from dataclasses import replace

import numpy as np
from twisted.logger import capturedLogs, formatEvent

from merkatd.database.scheduler.order_store import Order
from merkatd.scheduler.observation.foreign_placements import ForeignPlacements
from tests.scheduler.frontend import Frontend


def log_texts(events: object) -> list[str]:
    """Return the log lines about foreign placements."""
    return [line for line in map(formatEvent, events) if "not by this daemon" in line]  # type: ignore[call-overload]


def waiting(frontend: Frontend) -> int:
    """Create a VM that this daemon can place on no host."""
    return frontend.vm(SCHED_REQUIREMENTS="ID = 99")


def test_merkats_own_placements_are_not_foreign(frontend: Frontend) -> None:
    """They are deployments, migrations from a drained host, and late results."""
    for _ in range(6):
        frontend.vm()
    frontend.periods(3)
    frontend.order(Order.DRAIN, 0)
    frontend.periods(4)
    foreign = frontend.scheduler.foreign
    assert (foreign.why, foreign.deployments, foreign.migrations) == (None, 0, 0)


def test_a_second_scheduler_is_detected_and_reported_once(frontend: Frontend) -> None:
    """It deploys a VM each minute: the log gets one line, and the state remains."""
    vms = [waiting(frontend) for _ in range(4)]
    frontend.periods(2)
    with capturedLogs() as logged:
        for vm in vms:
            frontend.bench.ok("one.vm.deploy", vm, 1)
            frontend.periods(2)
    (line,) = log_texts(logged)
    assert "VM 0 was deployed on host 1" in line
    assert "opennebula-scheduler" in line
    assert frontend.scheduler.foreign.deployments == 4
    assert frontend.scheduler.foreign.migrations == 0
    assert "VM 3 was deployed on host 1" in str(frontend.scheduler.foreign.why)
    frontend.periods(11)
    assert frontend.scheduler.foreign.why is None


def test_a_vm_created_and_deployed_between_two_looks_is_detected(frontend: Frontend) -> None:
    """No observation showed it waiting."""
    frontend.periods(2)
    frontend.bench.ok("one.vm.deploy", waiting(frontend), 1)
    frontend.periods(1)
    assert frontend.scheduler.foreign.deployments == 1


def test_a_foreign_migration_is_attributed_to_onedrs_or_an_administrator(
    frontend: Frontend,
) -> None:
    """The cause depends on the host's cluster."""
    vm = frontend.vm()
    frontend.periods(3)
    host = frontend.host_of(vm)
    frontend.bench.ok("one.vm.migrate", vm, (host + 1) % 3, True, False, -1, 0)
    frontend.clock.pump([10.0] * 12)
    frontend.periods(1)
    assert "an administrator's own call" in str(frontend.scheduler.foreign.why)
    frontend.bench.ok("one.cluster.update", 0, 'ONE_DRS=[AUTOMATION="full"]', 1)
    now = frontend.host_of(vm)
    frontend.bench.ok("one.vm.migrate", vm, (now + 1) % 3, True, False, -1, 0)
    frontend.clock.pump([10.0] * 12)
    with capturedLogs() as logged:
        frontend.periods(1)
    assert "OneDRS" in str(frontend.scheduler.foreign.why)
    assert len(log_texts(logged)) == 1
    assert frontend.scheduler.foreign.migrations == 2


def test_onedrs_is_named_only_for_migrations_in_its_own_clusters(frontend: Frontend) -> None:
    """A deployment in a cluster that OneDRS balances is not attributed to OneDRS."""
    for _ in range(3):
        frontend.vm()
    seen = frontend.periods(3).seen.observation
    clusters = replace(seen, host_cluster=np.array([0, 0, 5]), balanced_clusters=frozenset({5}))
    for there, likely in (((1, 1, 2), "an administrator's own call"), ((2, 1, 2), "OneDRS")):
        foreign = ForeignPlacements()
        foreign.look(replace(clusters, vm_host=np.array([0, 0, -1])), (), frozenset(range(3)))
        foreign.look(replace(clusters, vm_host=np.array(there)), (), frozenset(range(3)))
        assert (foreign.deployments, foreign.migrations) == (1, 2)
        assert likely in str(foreign.why)


def test_placements_during_a_pause_are_not_foreign(frontend: Frontend) -> None:
    """During a pause an administrator places VMs by hand."""
    vm = waiting(frontend)
    frontend.scheduler.start()
    frontend.clock.pump([10.0] * 12)
    frontend.order(Order.PAUSE)
    frontend.clock.pump([10.0] * 12)
    frontend.bench.ok("one.vm.deploy", vm, 1)
    frontend.clock.pump([10.0] * 12)
    frontend.order(Order.RESUME)
    frontend.clock.pump([10.0] * 18)
    assert frontend.scheduler.latest is not None
    assert frontend.scheduler.foreign.why is None
    frontend.result(frontend.stopped())


def test_placing_an_unmanaged_vm_is_not_foreign(frontend: Frontend) -> None:
    """Only VMs of a market count."""
    vm = waiting(frontend)
    before = frontend.periods(1).seen.observation
    frontend.bench.ok("one.vm.deploy", vm, 1)
    after = frontend.periods(1).seen.observation
    for managed, count in ((frozenset({vm}), 1), (frozenset[int](), 0)):
        foreign = ForeignPlacements()
        foreign.look(before, (), managed)
        foreign.look(after, (), managed)
        assert foreign.deployments == count
