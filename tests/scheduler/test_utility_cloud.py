"""A daemon with the strategy `utility` on the embedded cloud: jobs and a service share a host."""

from collections.abc import Iterator

import numpy as np
import pytest

from merkatd.cluster import Floats
from merkatd.embedded.model.settings import HostSize
from merkatd.placement.utility.utility_strategy import UtilitySettings, decide_market
from merkatd.protocol.platform_messages import MonitorReading
from merkatd.scheduler.base.settings import MarketRules
from tests.platforms.site import Site

HOST = HostSize(400, 8192)
ALONE = '[controller]\nkind = "none"'
VM = 'CPU="2"\nVCPU="2"\nMEMORY="1024"\nEMBEDDED=[{},MEMORY_USE="256"]\n'
JOB = '[job]\ngoal = "6h"\n\n[[job.stage]]\nwork = 30000\ngreatest_speed = 200'
SERVICE = '[service]\nresponse_goal = "0.05s"\nwork_per_request = 0.02'
MONITOR = '\n[cluster.monitor]\nkind = "steps"\nparameters = { log = "l" }'
ARRIVALS = 20.0
"""Of each VM of the service."""


def cluster(vms: int, guest: str, monitor: str = "") -> str:
    """Return a cluster of so many VMs with this guest."""
    sizes = f"least = {vms}\ninitial = {vms}\nmost = {vms}"
    return f'[[cluster]]\nname = "nodes"\n{sizes}\ntemplate = """\n{VM.format(guest)}"""{monitor}'


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a cloud of a host whose market runs `utility`."""
    made = Site(hosts=1, size=HOST, markets=(MarketRules(strategy="utility"),))
    yield made
    made.close()


def measure(site: Site, service: int) -> None:
    """Let the monitor of the service see what its guests measure."""
    seen = [site.bench.ok("embedded.guest.service", vm) for vm in site.vms(service)]
    values = {
        "arrivals_per_s": sum(float(each["arrivals_per_s"]) for each in seen),
        "response_s": float(np.mean([each["response_s"] for each in seen])),
    }
    site.notes.measured[service] = {"nodes": MonitorReading(1.0, values)}


def utilities(site: Site) -> Floats:
    """Run a period; return the utilities of jobs and then services that it decided."""
    snapshot = site.period().seen.snapshot
    outcome = decide_market(snapshot, 0, UtilitySettings(), np.zeros(0, dtype=np.int64))
    site.clock.advance(60.0)
    found: Floats = outcome.judged.utility
    return found


def test_jobs_and_a_service_are_equally_satisfied(site: Site) -> None:
    """For two hours, within 0.05; and the guests get what the utilities need."""
    jobs = [
        site.submit(
            top=f'name = "job-{number}"',
            controller=ALONE,
            application=JOB,
            cluster=cluster(1, 'WORK="30000",DEMAND="1"'),
        )
        for number in range(2)
    ]
    service = site.submit(
        top='name = "shop"',
        controller=ALONE,
        application=SERVICE,
        cluster=cluster(2, f'ARRIVALS="{ARRIVALS}",REQUEST_WORK="0.02"', MONITOR),
    )
    site.until(service, "running")
    for _ in range(5):
        measure(site, service)
        site.periods(1)
    assert [site.platform(each).state for each in jobs] == ["running"] * 2
    found = []
    for _ in range(120):
        measure(site, service)
        found.append(utilities(site))
    assert all(len(each) == 3 for each in found[1:])
    spread = np.ptp(np.array(found[2:]), axis=1)
    assert spread.max() <= 0.05
    assert not any(vm for vm in site.alive() if site.state(vm) != "RUNNING")
