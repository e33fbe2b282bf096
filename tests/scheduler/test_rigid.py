"""Guests without a working balloon hold their memory: no plan relies on shrinking them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.settings import HostSize
from tests.scheduler.frontend import Frontend

RIGID_MIB = 1536
SMALL_MIB = 256


class Rack:
    """Two hosts of 32 GiB, nearly full of guests that use little of what they hold."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.frontend = Frontend(hosts=2, size=HostSize(3200, 32 * 1024))
        self.rigid: set[int] = set()
        hypervisors = self.frontend.scheduler.world.hypervisors
        real = hypervisors.read

        async def read(places: Mapping[int, int]) -> Any:
            use = await real(places)
            balloon = use.in_force.balloon & ~np.isin(use.vm_id, list(self.rigid))
            return replace(use, in_force=replace(use.in_force, balloon=balloon))

        patched.setattr(hypervisors, "read", read)

    def vm(self, memory_mib: int, host: str = "ID < 9", bid: float = 1.0) -> int:
        """Create a VM that uses a twelfth of its memory."""
        lines = {
            "CPU": 0.1,
            "VCPU": 1,
            "MEMORY": memory_mib,
            "MERKAT_BID_CPU": bid,
            "MERKAT_BID_MEMORY": 0.01,
            "SCHED_REQUIREMENTS": host,
        }
        text = "\n".join(f'{name}="{value}"' for name, value in lines.items())
        use = f'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="{memory_mib // 12}"]'
        return self.frontend.bench.new(f"{text}\n{use}")

    def deploy_rigid(self, host: int, count: int) -> list[int]:
        """Deploy guests without a balloon on the host and return them."""
        vms = [self.vm(RIGID_MIB, "ID < 9" if host == 0 else "ID = 1") for _ in range(count)]
        self.rigid.update(vms)
        for vm in vms:
            self.frontend.bench.ok("one.vm.deploy", vm, host)
        return vms


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch) -> Rack:
    """Return a rack with room for one more guest on each host."""
    new_rack = Rack(monkeypatch)
    new_rack.deploy_rigid(0, 20)
    new_rack.deploy_rigid(1, 20)
    new_rack.frontend.clock.advance(10)
    return new_rack


def test_a_drain_moves_the_vms_that_fit_elsewhere(rack: Rack) -> None:
    """The others stay and delay no small VM."""
    frontend = rack.frontend
    small = [rack.vm(SMALL_MIB) for _ in range(3)]
    for vm in small:
        frontend.bench.ok("one.vm.deploy", vm, 0)
    frontend.clock.advance(10)
    frontend.periods(2)
    frontend.order(Order.DRAIN, 0)
    frontend.periods(5)
    assert [frontend.host_of(vm) for vm in small] == [1, 1, 1]
    frontend.close()


def test_large_waiting_vms_delay_no_small_vm(rack: Rack) -> None:
    """No host has room for them, whatever their number and the use of guests."""
    frontend = rack.frontend
    crowd = [rack.vm(16 * 1024, bid=0.1) for _ in range(60)]
    small = [rack.vm(SMALL_MIB) for _ in range(2)]
    frontend.periods(3)
    assert {frontend.state(vm) for vm in small} == {"RUNNING"}
    assert "PENDING" in {frontend.state(vm) for vm in crowd}
    frontend.close()
