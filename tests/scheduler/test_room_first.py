"""A VM that starts finds its memory free on the host."""

from collections.abc import Sequence
from typing import Any

import pytest

from merkatd.cluster import Resume, Step
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Order
from tests.lengths import SOAK, pair
from tests.scheduler.frontend import Frontend

HOST_MIB = 8192
BALLOON_S = 10.0
"""The longest time that a guest takes to return memory to the host."""


class Orders:
    """Steps that a test requests in every period until the journal has them."""

    def __init__(self) -> None:
        self.resume: list[int] = []

    async def __call__(self, _database: Any, seen: Any) -> Sequence[Step]:
        """Return the steps of this period."""
        return [Resume(period=seen.period, vm=vm, reason="a test") for vm in self.resume]


def held_mib(frontend: Frontend, host: int = 0) -> float:
    """Return the MiB that all guests on the host hold."""
    return sum(guest.balloon_mib for guest in frontend.cloud.guests.on_host(host))


def resumes(frontend: Frontend, vm: int) -> list[str]:
    """Return the states of the VM's resume steps, oldest first."""
    rows = frontend.read(lambda c: journal.history(c, vm, 100))
    return [str(row.state) for row in reversed(rows) if row.step.kind == "resume"]


@pytest.mark.parametrize(("most", "action"), pair([None, 1024], ["suspend", "poweroff"]))
def test_balloons_shrink_before_a_vm_is_resumed(action: str, most: int | None) -> None:
    """A VM that was suspended or powered off returns with all of its memory.

    This also holds if its owner set a cap.
    """
    orders = Orders()
    frontend = Frontend(hosts=1, proposals=orders)
    first, second = frontend.vm(MEMORY=6144), frontend.vm(MEMORY=6144, MERKAT_MAX_MEMORY=most)
    frontend.periods(4)
    assert held_mib(frontend) <= HOST_MIB
    frontend.bench.ok("one.vm.action", action, second)
    frontend.clock.advance(60)
    frontend.periods(6)
    assert held_mib(frontend) > HOST_MIB - 6144
    orders.resume = [second]
    waited = 0
    while frontend.state(second) != "RUNNING":
        frontend.period()
        if resumes(frontend, second):
            orders.resume = []
        for _ in range(6):
            frontend.clock.advance(BALLOON_S)
            assert held_mib(frontend) <= HOST_MIB
        waited += 1
        assert waited < 10
    assert waited > 1
    assert resumes(frontend, second)[0] in {"sent", "confirmed"}
    frontend.periods(3)
    assert held_mib(frontend) <= HOST_MIB
    least = min(guest.balloon_mib for guest in frontend.cloud.guests.on_host(0))
    assert least > 3000 if most is None else least <= most
    assert frontend.state(first) == "RUNNING"
    frontend.close()


@pytest.mark.parametrize("most", [None, 8, *[256] * SOAK])
def test_a_cap_keeps_no_balloon_up(most: int | None) -> None:
    """A guest returns up to a quarter of its memory in a period, even with a small cap."""
    frontend = Frontend(hosts=2)
    large = frontend.vm(MEMORY=8192, MERKAT_MAX_MEMORY=most, MERKAT_BID_MEMORY=5)
    others = [frontend.vm(MEMORY=4096) for _ in range(2)]
    frontend.bench.ok("one.vm.deploy", large, 1)
    for vm in others:
        frontend.bench.ok("one.vm.deploy", vm, 0)
    frontend.clock.advance(60)
    frontend.periods(2)
    frontend.order(Order.DRAIN, 1)
    frontend.periods(8)
    assert frontend.host_of(large) == 0
    frontend.close()
