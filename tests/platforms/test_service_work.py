"""The work of a request is estimated from the use of a service's VMs and its throughput."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Snapshot, UsageHistory
from merkatd.platforms.profiles.service_work import ServiceWork
from merkatd.platforms.profiles.work_profile import LEAST_SAMPLES
from merkatd.protocol.platform_messages import MonitorReading
from tests.clouds import cloud, hosts_table, vms_table
from tests.platforms.site import Site
from tests.platforms.test_declarations import MONITOR, NODES, SERVICE

APPLICATIONS = [7, 7, 9, -1]
STEADY = 5
"""The periods with the same bids: in the first of them, the reading is that of the last bids."""


def using(*used: float) -> Snapshot:
    """Return four VMs on a host, two of application 7 and one of 9, that use so much CPU."""
    vms = vms_table(np.zeros(4, dtype=int), np.ones((4, 1)), np.full((4, 1), 200.0))
    snapshot = cloud(hosts_table(np.array([[800.0]])), vms)
    history = UsageHistory(
        at_s=np.array([0.0]),
        vms=np.array(used).reshape(1, 4, 1),
        hosts=np.array([[[sum(used)]]]),
    )
    named = replace(vms, application=np.array(APPLICATIONS))
    return replace(snapshot, vms=named, history=history)


def noted(work: ServiceWork, count: int, wrong: Mapping[int, float] | None = None) -> None:
    """Take samples of a service of 0.03 core-seconds a request, and 10 % of a core when idle."""
    for number in range(count):
        rate = (wrong or {}).get(number, 10.0 + number)
        busy = 10.0 + 3.0 * (10.0 + number)
        work.note(using(busy / 2, busy / 2, 55.0, 77.0), {7: rate, 9: np.nan})


def test_the_estimate_is_that_of_all_its_vms() -> None:
    """After enough samples; a service without a throughput has none."""
    work = ServiceWork()
    noted(work, LEAST_SAMPLES - 1)
    assert work.work_per_request(7) is None
    noted(work, LEAST_SAMPLES)
    assert work.work_per_request(7) == pytest.approx(0.03, rel=1e-6)
    assert work.work_per_request(9) is None


def test_a_vm_of_unknown_use_gives_no_sample() -> None:
    """It would make requests look cheap."""
    work = ServiceWork()
    for number in range(2 * LEAST_SAMPLES):
        work.note(using(10.0 + number, np.nan, 0.0, 0.0), {7: 5.0 + number})
    assert work.work_per_request(7) is None


def test_services_that_are_gone_are_forgotten() -> None:
    """With all of their samples."""
    work = ServiceWork()
    noted(work, LEAST_SAMPLES)
    work.note(using(1.0, 1.0, 1.0, 1.0), {})
    assert work.work_per_request(7) is None
    noted(work, LEAST_SAMPLES - 1)
    assert work.work_per_request(7) is None


def test_a_snapshot_has_the_estimate() -> None:
    """A rival takes more and more of the host, so the service uses and answers less."""
    site = Site(hosts=1)
    platform = site.submit(application=SERVICE, cluster=NODES + MONITOR)
    site.until(platform, "running")
    rivals = [site.vm(1.0) for _ in range(2)]
    for number in range(6 * STEADY):
        for rival in rivals:
            bid = 1 + number // STEADY
            site.bench.ok("one.vm.update", rival, f'MERKAT_BID_CPU="{bid}"', 1)
        seen = site.periods(1).seen.snapshot
        mine = [seen.vm_row(vm) for vm in site.vms(platform)]
        assert seen.history is not None
        used = float(seen.history.vms[-1][mine, 0].sum())
        values = {"throughput_per_s": used / 4.0}
        site.notes.measured[platform] = {"nodes": MonitorReading(1.0, values)}
    work = site.periods(1).seen.snapshot.services.work_per_request
    assert work == pytest.approx([4.0], rel=0.05)
    site.notes.measured[platform] = {"nodes": MonitorReading(1.0, {"work_per_request": 0.5})}
    assert site.periods(1).seen.snapshot.services.work_per_request == [50.0]
    site.close()
