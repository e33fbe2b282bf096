"""A VM that does not run keeps nothing from others that it does not pay for.

What counts is what neighbours really have: core-seconds, and the place of a VM that bids.
"""

from collections.abc import Generator

import pytest

from merkatd.currency.settings import Money
from merkatd.embedded.cloud import HostSize
from merkatd.market.price import PriceRule
from merkatd.scheduler.settings import Market
from tests.abuse.arena import CORES, PERIOD_S, Arena, Player
from tests.platforms.site import Site
from tests.scheduler.frontend import PASSWORD

PERIODS = 6
ACTIONS = ("poweroff-hard", "suspend")


def off_with_a_claim(me: Player, action: str) -> Generator[float, None, None]:
    """Claims most of a host, stops running, and then names a bid that it never pays."""
    vm = me.vm(20, MERKAT_MIN_CPU=700)
    yield PERIOD_S + 5
    me.act(vm, action)
    me.set(vm, MERKAT_BID_CPU=1e14)
    while True:
        yield PERIOD_S


@pytest.mark.parametrize(
    ("action", "rule"), [(ACTIONS[0], PriceRule.CLEARING), (ACTIONS[1], PriceRule.PAPER)]
)
def test_a_vm_that_is_off_leaves_the_cores_to_its_neighbours(action: str, rule: PriceRule) -> None:
    """Whatever it claims and bids: from the period on that sees it off they have them all."""
    arena = Arena(rule)
    try:
        arena.play({"eve": lambda me: off_with_a_claim(me, action)}, 3)
        before_s = arena.computed(arena.ann, arena.bob)
        for _ in range(PERIODS):
            for _ in range(12):
                arena._tick()
            arena._look()
        got_s = arena.computed(arena.ann, arena.bob) - before_s
    finally:
        arena.close()
    assert got_s >= 0.95 * CORES * PERIOD_S * PERIODS, got_s


@pytest.mark.parametrize("action", ACTIONS)
def test_a_vm_that_is_off_leaves_the_memory_to_vms_that_bid(action: str) -> None:
    """Two VMs that are off and claim a whole host between them keep no other from coming."""
    site = Site(
        hosts=1,
        size=HostSize(800, 16 * 1024),
        markets=(Market(),),
        money=Money(supply=100_000_000, renewal_s=1e9),
    )
    try:
        site._tenant("eve")
        off = [memory_vm(site, "eve", 0, MERKAT_MIN_MEMORY=8192) for _ in range(2)]
        site.periods(3)
        for vm in off:
            site.bench.ok("one.vm.action", action, vm, session=f"eve:{PASSWORD}")
        site.periods(3)
        comers = [memory_vm(site, "ann", 500) for _ in range(2)]
        site.periods(4)
        assert [site.state(vm) for vm in comers] == ["RUNNING", "RUNNING"]
    finally:
        site.close()


def memory_vm(site: Site, name: str, bid: float, **attributes: object) -> int:
    """A VM of half the host's memory."""
    values = {
        "CPU": 0.1,
        "VCPU": 1,
        "MEMORY": 8192,
        "MERKAT_BID_CPU": 1,
        "MERKAT_BID_MEMORY": bid,
    } | attributes
    lines = [f'{key}="{value}"' for key, value in values.items()]
    work = 'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="64"]'
    return site.bench.new("\n".join([*lines, work]), session=f"{name}:{PASSWORD}")
