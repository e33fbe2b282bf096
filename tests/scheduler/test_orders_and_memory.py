"""Limit orders whose VMs wait until balloons have made room on their hosts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from merkatd.cluster import Decision, Deploy, Plan, Snapshot, Stop
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.limits import LimitPlan
from merkatd.placement.market.orders.order_reasons import split_orders
from merkatd.scheduler.phases.scarcity import MOST_ROUNDS, within_capacity, within_memory
from tests.placement.test_order_clearing import decided, halls, starts, stops
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a cloud with one host of 8 GiB, of which a VM that bids holds five."""
    place = Site()
    place.vm(0.5, f"ann:{PASSWORD}", CPU=1, VCPU=1, MEMORY=5120, MERKAT_BID_MEMORY=3)
    place.state_order(place.vms("ann"), 3.0)
    place.periods(6)
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


@pytest.mark.parametrize(("memory_mib", "waits"), [(1700, 3), (2400, 5)])
def test_an_order_keeps_its_room_until_balloons_have_made_the_rest(
    site: Site, memory_mib: int, waits: int
) -> None:
    """The order that it displaces does not start again and again in that room."""
    lower = [1, 2, 3]
    assert site.states(lower) == ["RUNNING"] * 3
    owner = f"bob:{PASSWORD}"
    dearer = [site.vm(1.0, owner, CPU=1, VCPU=1, MEMORY=memory_mib) for _ in range(3)]
    order = site.state_order(dearer, 90.0)
    stopped = 0
    for _ in range(waits):
        assert site.states(dearer) == ["PENDING"] * 3
        announcement = site.periods(1)
        stopped += len(announcement.decided.decision.plan.of(Stop))
        assert site.limit_order(order).runs
    assert site.states(dearer) == ["RUNNING"] * 3
    assert (stopped, site.states(lower)) == (3, ["PENDING"] * 3)


def test_an_order_that_waited_for_memory_leaves_its_room_when_it_is_withdrawn(site: Site) -> None:
    """The displaced order starts again."""
    owner = f"bob:{PASSWORD}"
    dearer = [site.vm(1.0, owner, CPU=1, VCPU=1, MEMORY=2400) for _ in range(3)]
    site.state_order(dearer, 90.0)
    site.periods(2)
    for vm in dearer:
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.periods(3)
    assert site.states([1, 2, 3]) == ["RUNNING"] * 3


def hoards(place: Site) -> list[int]:
    """Return two VMs that use the whole host's memory, a core each, and bid nothing for it."""
    session = f"ann:{PASSWORD}"
    size = 'CPU="1"\nVCPU="1"\nMEMORY="4096"\nMERKAT_BID_CPU="0.1"\nMERKAT_BID_MEMORY="60"'
    work = 'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="3900"]'
    vms = [place.bench.new(f"{size}\n{work}", session=session) for _ in range(2)]
    place.periods(4)
    for vm in vms:
        place.bench.raw("one.vm.update", vm, 'MERKAT_BID_MEMORY="0"', 1, session=session)
    place.periods(3)
    return vms


@pytest.fixture
def hoarded() -> Iterator[Site]:
    """Yield a cloud with one host of four cores and 8 GiB."""
    place = Site()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def test_memory_that_nobody_pays_for_does_not_keep_an_order_out(hoarded: Site) -> None:
    """The VMs that use it shrink until the order's VM fits."""
    vms = hoards(hoarded)
    waits = hoarded.vm(1.0, f"bob:{PASSWORD}", CPU=1, VCPU=1, MEMORY=3072)
    order = hoarded.state_order([waits], 90.0)
    hoarded.periods(8)
    assert hoarded.limit_order(order).runs
    assert hoarded.states([*vms, waits]) == ["RUNNING"] * 3


def test_an_order_that_pays_less_than_the_price_takes_no_memory(hoarded: Site) -> None:
    """Others pay more for the CPU that it needs, so the memory would lie idle."""
    vms = hoards(hoarded)
    owner = f"bob:{PASSWORD}"
    hoarded.vm(50.0, owner, CPU=1, VCPU=4, MEMORY=64, MERKAT_BID_MEMORY=0)
    hoarded.periods(4)
    before = hoarded.cloud.guests.read()
    order = hoarded.state_order([hoarded.vm(1.0, owner, CPU=1, VCPU=1, MEMORY=3072)], 3.0)
    hoarded.periods(6)
    assert not hoarded.limit_order(order).runs
    after = hoarded.cloud.guests.read()
    # The VM that bids takes a few MiB.
    assert all(after[vm].balloon_mib > 0.98 * before[vm].balloon_mib for vm in vms)


def test_no_order_starts_in_part_after_the_last_decision() -> None:
    """In each decision the last VM lacks memory, also in the last one."""
    decisions = []

    def decide(snapshot: Snapshot, coming: Mapping[int, int]) -> tuple[Decision, LimitPlan]:
        decision = decided(snapshot)
        decisions.append(decision)
        late = dict.fromkeys(starts(decision)[-1:], "no memory")
        steps = tuple(step for step in decision.plan if step.vm not in late)
        return decision, LimitPlan(Plan(steps), late, {}, {}, {}, coming)

    snapshot = halls(4, [(NO_HOST, 9.0 - order, 10.0, order) for order in range(8)] * 2)
    _, limits = within_memory(snapshot, decide)
    assert len(decisions) == 5
    assert split_orders(snapshot, limits.plan) == {}


class _Empty:
    """A stock in which nothing is left for the first VM that asks."""

    def __init__(self) -> None:
        self._asked = False

    def take(self, _vm: int, _host: int) -> str | None:
        """Return why the VM gets nothing."""
        first, self._asked = not self._asked, True
        return "no lease is left" if first else None

    def why_never(
        self, gangs: Sequence[Collection[int]], _hosts: Collection[int]
    ) -> list[str | None]:
        """Return no reason: each VM alone could start."""
        return [None] * len(gangs)


def test_nobody_is_displaced_after_the_last_decision_for_scarce_resources() -> None:
    """In each decision another owner's order lacks a lease; the last one starts none."""
    waiting = [(NO_HOST, 90.0 - order, 60.0, order) for order in range(1, MOST_ROUNDS + 3)]
    snapshot = halls(1, [(0, 1.0, 60.0, 0), *waiting])
    owners = replace(snapshot.vms, owner=snapshot.vms.id)
    snapshot = replace(snapshot, vms=owners)
    decision = within_capacity(snapshot, decided, _Empty)
    assert decision.plan.steps == ()
    assert decision.orders[10].runs


def test_nobody_is_displaced_for_orders_that_strategies_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If each decision leaves a VM of an order out, the last one starts no order."""

    def split(_snapshot: Snapshot, plan: Plan) -> Mapping[int, str]:
        return dict.fromkeys([step.vm for step in plan.of(Deploy)][:1], "no room")

    monkeypatch.setattr("merkatd.placement.market.orders.order_clearing.split_orders", split)
    waiting = [(NO_HOST, 90.0 - order, 30.0, order) for order in range(1, 12)]
    decision = decided(halls(1, [(0, 1.0, 60.0, 0), (0, 1.0, 10.0, NO_ROW), *waiting]))
    assert (starts(decision), stops(decision)) == ([], [])
    assert decision.orders[10].runs
