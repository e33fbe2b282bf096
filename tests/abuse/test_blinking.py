"""The owner of a VM that hardly runs pays for the neighbours' loss.

Limits of neighbours are strict and last a period. A guest that ends seconds after its placement
leaves its share idle until the daemon notices.
"""

from collections.abc import Callable

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, NEIGHBOURS, PERIOD_S, Arena, Play, Player, vm_text
from tests.abuse.listed import Moves
from tests.lengths import SOAK, pair, shorten
from tests.scheduler.frontend import PASSWORD

PERIODS = shorten(12, 5)
DELETE = 3
"""The operation of `one.vm.recover` that deletes a failed VM."""
PAYS = 0.95
"""The least part of the neighbours' loss to pay, at their price without the tenant."""


def undeployed(bid: float) -> Play:
    """Undeploy one VM five seconds after each observation, and resume it before the next."""

    def play(me: Player) -> Moves:
        vm = me.vm(bid)
        yield 5
        while True:
            me.act(vm, "undeploy-hard")
            yield PERIOD_S - 20
            me.act(vm, "resume")
            yield 20

    return play


def always_another(bid: float) -> Play:
    """Create a VM before each observation and end it five seconds afterwards."""

    def play(me: Player) -> Moves:
        yield PERIOD_S - 10
        while True:
            vm = me.vm(bid)
            yield 15
            me.end(vm)
            yield PERIOD_S - 15

    return play


def powered_off(bid: float) -> Play:
    """Run one VM at each observation, and otherwise only for seconds."""

    def play(me: Player) -> Moves:
        vm = me.vm(bid)
        yield PERIOD_S
        while True:
            yield 5
            me.act(vm, "poweroff-hard")
            yield PERIOD_S - 15
            me.act(vm, "resume")
            yield 10

    return play


def crumbs(bid: float) -> Play:
    """Run twelve such VMs, each with a share below the threshold of the watch for ended guests."""

    def play(me: Player) -> Moves:
        vms = [me.vm(bid / 12, VCPU=1) for _ in range(12)]
        yield PERIOD_S
        while True:
            yield 5
            for vm in vms:
                me.act(vm, "poweroff-hard")
            yield PERIOD_S - 15
            for vm in vms:
                me.act(vm, "resume")
            yield 10

    return play


def fails_to_boot(bid: float) -> Play:
    """Create a VM before each observation, let its boot fail, and end it soon afterwards."""

    def play(me: Player) -> Moves:
        yield PERIOD_S - 5
        while True:
            vm = me.vm(bid, VCPU=2)
            me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="BOOT"))
            yield 15
            me.end(vm)
            yield PERIOD_S - 15

    return play


PLAYS = [
    (kind, bid)
    for at, kind in enumerate((undeployed, always_another, powered_off, crumbs, fails_to_boot))
    for bid in ((20, 300) if SOAK else (300, 20)[at % 2 :][:1])
]


@pytest.mark.parametrize(
    ("kind", "bid", "rule"), [(*play, rule) for play, rule in pair(PLAYS, tuple(PriceRule))]
)
def test_the_owner_pays_for_the_neighbours_loss(
    kind: Callable[[float], Play], bid: float, rule: PriceRule
) -> None:
    """This holds for the shortest guests; neighbours pay their bids at most."""
    arena = Arena(rule)
    try:
        found = arena.play({"eve": kind(bid)}, PERIODS)["eve"]
    finally:
        arena.close()
    lost_core_s = CORES * PERIOD_S * PERIODS - found.fair_core_s
    assert found.paid >= PAYS * lost_core_s * NEIGHBOURS * FAIR_BID / (CORES * PERIOD_S), found
    assert found.fair_paid <= found.fair_bids * 1.001


def claim_cores(arena: Arena) -> None:
    """Let each neighbour claim 1.5 of the cores that it bids for."""
    for vm in arena.honest:
        arena.bench.raw("one.vm.update", vm, 'MERKAT_MIN_CPU="150"', 1)


def bids_for_a_moment(me: Player) -> Moves:
    """Bid the most at every third observation, and power off a moment later."""
    vm = me.vm(1)
    yield 2 * PERIOD_S - 5
    while True:
        me.set(vm, MERKAT_BID_CPU=5_000)
        yield 10
        me.act(vm, "poweroff-hard")
        me.set(vm, MERKAT_BID_CPU=1)
        yield 20
        me.act(vm, "resume")
        yield 3 * PERIOD_S - 30


@pytest.mark.parametrize("rule", tuple(PriceRule) if SOAK else (PriceRule.CLEARING,))
def test_a_short_price_peak_charges_no_claim_above_its_bid(rule: PriceRule) -> None:
    """A claim covered by its bid at the last price costs no more at the next price."""
    arena = Arena(rule)
    try:
        claim_cores(arena)
        found = arena.play({"eve": bids_for_a_moment}, PERIODS)["eve"]
    finally:
        arena.close()
    assert found.fair_paid <= found.fair_bids * 1.001, found


def copies_that_fail(me: Player) -> Moves:
    """Create a VM before each observation whose image copy fails."""
    yield PERIOD_S - 5
    while True:
        vm = me.vm(300)
        me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="PROLOG"))
        yield PERIOD_S - 5
        me.arena.bench.raw("one.vm.recover", vm, DELETE)
        yield 5


def test_unused_reserved_cores_are_charged_in_a_market_by_use() -> None:
    """VMs of groups without a guest pay their rate for their reserved share."""
    arena = Arena(PriceRule.CLEARING, strategy="groups")
    try:
        found = arena.play({"eve": copies_that_fail}, PERIODS)["eve"]
    finally:
        arena.close()
    lost_core_s = CORES * PERIOD_S * PERIODS - found.fair_core_s
    assert found.paid >= PAYS * lost_core_s * NEIGHBOURS * FAIR_BID / (CORES * PERIOD_S), found


def _paid_beside(*bids: float) -> float:
    """Return the charge of a VM that runs 10 s a period on a host with idle cores.

    Other VMs with these bids could use the whole host.
    """

    def play(me: Player) -> Moves:
        vm = me.vm(FAIR_BID, VCPU=4)
        yield PERIOD_S
        while True:
            me.act(vm, "poweroff-hard")
            yield PERIOD_S - 10
            me.act(vm, "resume")
            yield 10

    arena = Arena(PriceRule.CLEARING, neighbours=1, neighbours_cores=2)
    try:
        for bid in bids:
            arena.bench.new(vm_text(bid), session=f"bob:{PASSWORD}")
        return arena.play({"eve": play}, 3)["eve"].paid
    finally:
        arena.close()


def test_a_tiny_bid_for_a_whole_host_makes_no_neighbour_pay_more() -> None:
    """A VM lacks only what its bid buys at the reserve price."""
    paid = _paid_beside()
    assert paid > 0
    assert _paid_beside(1e-6) == pytest.approx(paid, abs=2e-6)
