"""A VM that OpenNebula does not deploy after its request costs its neighbours nothing.

OpenNebula does not report the rejection.
"""

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.settings import HostSize
from tests.lengths import SOAK, shorten
from tests.opennebula.driver.oned import Oned
from tests.scheduler.frontend import Frontend

CORES = 8
NEIGHBOURS = 4
BID = 20.0
PERIOD_S = 60.0
PERIODS = shorten(20, 10)
CREDITS = 1e6
"""The starting credits of each tenant."""


@pytest.mark.parametrize("bid", [20.0, 9_000.0] if SOAK else [9_000.0])
def test_a_vm_that_is_never_deployed_pays_for_its_neighbours_loss(bid: float) -> None:
    """Its owner pays for each period that kept room; in the others neighbours have all cores."""
    frontend = Frontend(hosts=1, size=HostSize(CORES * 100, 65_536), handing=True)
    oned = Oned(frontend)
    honest = [frontend.user(name) for name in ("ann", "bob")]
    eve = frontend.user("eve")
    for number in range(NEIGHBOURS):
        frontend.vm(BID, owner=honest[number % 2], VCPU=CORES)
    oned.place()
    frontend.clock.advance(PERIOD_S)
    frontend.periods(3)
    vm = frontend.vm(bid, owner=eve, VCPU=CORES)
    owner = int(frontend.bench.vm(vm).uid)
    frontend.cloud.faults.add(
        Fault(FaultKind.REFUSE, "one.vm.deploy", vm=vm, count=-1, text="no such image")
    )

    def computed_s() -> float:
        return sum(guest.cpu_s for guest in frontend.cloud.guests.read().values())

    before_s, before, began_s = computed_s(), frontend.balances(), frontend.clock.seconds()
    for _ in range(PERIODS):
        oned.place()
        frontend.clock.advance(PERIOD_S)
        frontend.period()
    assert len(oned.refused) > PERIODS / 2
    passed_s = frontend.clock.seconds() - began_s
    lost = CORES * passed_s - (computed_s() - before_s)
    paid = before.get(owner, CREDITS) - frontend.balances()[owner]
    assert paid >= 0.95 * lost * NEIGHBOURS * BID / (CORES * PERIOD_S) or lost < 1
    assert lost <= 0.35 * CORES * passed_s
    frontend.close()
