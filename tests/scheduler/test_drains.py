"""A drain ends: the host is emptied if the other hosts have room for its VMs' floors."""

import random

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.settings import HostSize
from tests.lengths import SOAK
from tests.scheduler.frontend import Frontend


def settled(seed: int) -> tuple[Frontend, list[int], int]:
    """Return a small cloud after its first periods, its VMs and its number of hosts."""
    rng = random.Random(seed)  # noqa: S311 - reproducible clouds
    hosts = rng.randint(3, 5)
    money = MoneySettings(supply=1_000_000_000, renewal_s=1e9)
    frontend = Frontend(hosts=hosts, size=HostSize(800, 8192), money=money)
    vms = []
    for _ in range(hosts * rng.randint(2, 4)):
        memory = rng.choice([1024, 2048, 4096, 8192])
        use = min(rng.choice([128, 512, 1024]), memory)
        text = (
            f'CPU="1"\nVCPU="{rng.choice([1, 2, 4])}"\nMEMORY="{memory}"\n'
            f'MERKAT_BID_CPU="{rng.choice([0.5, 1, 5, 20])}"\n'
            f'MERKAT_BID_MEMORY="{rng.choice([0.1, 1, 10])}"\n'
            f'EMBEDDED=[WORK="100000000",DEMAND="1",MEMORY_USE="{use}"]'
        )
        vms.append(frontend.bench.new(text))
    frontend.periods(10)
    return frontend, vms, hosts


@pytest.mark.parametrize("seed", range(8) if SOAK else [0, 5, 50])
def test_a_drained_host_becomes_empty(seed: int) -> None:
    """No VM stays on a drained host while another host could take it."""
    frontend, vms, hosts = settled(seed)
    last = hosts - 1
    frontend.order(Order.DRAIN, last)
    for _ in range(20):
        latest = frontend.periods(1)
        running = [vm for vm in vms if frontend.state(vm) == "RUNNING"]
        if not [vm for vm in running if frontend.host_of(vm) == last]:
            break
    left = {vm: latest.decided.limits.postponed.get(vm) for vm in running}
    assert not [vm for vm in left if frontend.host_of(vm) == last], left
    frontend.close()
