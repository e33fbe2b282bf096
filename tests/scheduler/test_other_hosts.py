"""A VM that can never get memory on one host goes to another host."""

import pytest

from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.settings import HostSize
from merkatd.scheduler.base.settings import MarketRules
from tests.scheduler.frontend import Frontend


def guest(
    frontend: Frontend, host: int | None, bid: float, memory_mib: int, use_mib: int, floor_mib: int
) -> int:
    """Create a VM of four busy virtual CPUs, on this host if one is given."""
    lines = {
        "CPU": 0.1,
        "VCPU": 4,
        "MEMORY": memory_mib,
        "MERKAT_MIN_MEMORY": floor_mib,
        "MERKAT_BID_CPU": bid,
        "MERKAT_BID_MEMORY": max(1.0, floor_mib),
    }
    text = "\n".join(f'{name}="{value}"' for name, value in lines.items())
    vm = frontend.bench.new(f'{text}\nEMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="{use_mib}"]')
    if host is not None:
        frontend.bench.ok("one.vm.deploy", vm, host)
    return vm


@pytest.fixture(params=["tabu", "paper"])
def cloud(request: pytest.FixtureRequest) -> Frontend:
    """Return three hosts of 2 GiB; host 1 has idle cores, and memory only by floors.

    Its twelve guests use little, but each keeps a balloon margin of 128 MiB. Hosts 0 and 2 are
    crowded and have memory.
    """
    frontend = Frontend(
        hosts=3, size=HostSize(400, 2048), markets=(MarketRules(strategy=request.param),)
    )
    for _ in range(12):
        guest(frontend, 1, 0.01, 160, 4, 0)
    for host in (0, 2):
        for _ in range(4):
            guest(frontend, host, 50.0, 128, 4, 0)
    frontend.clock.advance(60)
    frontend.periods(3)
    return frontend


def test_a_new_vm_starts_on_the_host_with_memory(cloud: Frontend) -> None:
    """It doesn't wait for a host that can never take it while another host can."""
    new = guest(cloud, None, 50.0, 1024, 512, 900)
    latest = cloud.periods(3)
    assert cloud.state(new) == "RUNNING", latest.decided.limits.postponed
    assert cloud.host_of(new) in {0, 2}
    cloud.close()


def test_a_drain_ends_on_the_host_with_memory(cloud: Frontend) -> None:
    """A VM leaves a drained host for one that can take it, whatever host has idle cores."""
    large = guest(cloud, 0, 50.0, 1024, 700, 900)
    cloud.clock.advance(60)
    cloud.periods(2)
    cloud.order(Order.DRAIN, 0)
    latest = cloud.periods(6)
    assert cloud.host_of(large) == 2, latest.decided.limits.postponed
    cloud.close()
