"""Room that is cleared for limit orders: what they owe before they start, or if they leave."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from merkatd.currency import micro
from merkatd.database.ledger.entry_store import audit
from merkatd.database.scheduler import limit_order_store
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.vm_states import Lcm
from merkatd.ledger.tenants import grant
from merkatd.placement.contract import StrategyEntry
from merkatd.scheduler.clearing.cleared_room import ClearedRoom, RoomPhase, still_owed
from tests.lengths import pair
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import Site

COST = 3.0
"""The limit of the order that is displaced, which is what the other one costs."""


class Arena(Site):
    """A host on which an order of ann runs, which an order of bob displaces."""

    def __init__(self) -> None:
        """Clear the room, which takes long: saving a VM lasts some minutes."""
        super().__init__()
        self.set_duration(Lcm.SAVE_STOP, 400.0)
        self.first = self.vms("ann")
        self.state_order(self.first, COST)
        self.periods(3)
        self.second = self.vms("bob")
        self.dearer = self.state_order(self.second, 9.0)
        self.funds = self.balances()[self.bob]
        self.period()

    def paid(self) -> float:
        """Return what bob has paid since its order was stated."""
        return self.funds - self.balances()[self.bob]

    def withdraw(self) -> None:
        """Withdraw bob's order; its VMs would bid from now on."""
        self.hold_vms()
        self.read(lambda connection: limit_order_store.withdraw(connection, [self.dearer]))

    def end_vms(self) -> None:
        """End the VMs of bob's order."""
        for vm in self.second:
            self.bench.ok("one.vm.action", "terminate-hard", vm, session=f"bob:{PASSWORD}")

    def hold_vms(self) -> None:
        """Put the VMs of bob's order on hold."""
        for vm in self.second:
            self.bench.ok("one.vm.action", "hold", vm, session=f"bob:{PASSWORD}")

    def give_away(self) -> None:
        """Give the VMs to ann."""
        for vm in self.second:
            self.bench.ok("one.vm.chown", vm, self.ann, -1)

    def lower_limit(self) -> None:
        """Lower the limit of bob's order below its cost."""
        lower = replace(self.limit_order(self.dearer), limit=COST / 2)
        self.read(lambda connection: limit_order_store.change(connection, lower))

    def ask_for_more(self) -> None:
        """Enlarge a VM, so that the order would cost more than its limit."""
        self.bench.ok("one.vm.resize", self.second[0], "CPU=2\nVCPU=2\nMEMORY=1024", False)
        lower = replace(self.limit_order(self.dearer), limit=COST * 1.01)
        self.read(lambda connection: limit_order_store.change(connection, lower))

    def empty_account(self) -> None:
        """Move away all credits of bob that can be moved."""
        free = self.free(self.bob)
        at_s = self.clock.seconds()
        self.read(lambda c: grant(c, self.bob, -micro(free), "back", "admin", at_s))
        self.funds -= free

    def runs(self) -> bool:
        """Return whether bob has an order that starts or runs."""
        orders = self.read(lambda connection: limit_order_store.living(connection, self.bob))
        return any(order.runs for order in orders)


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Return a cloud with one host, which others leave for an order."""
    place = Arena()
    yield place
    assert place.read(audit).sound
    place.close()


def test_an_order_pays_its_cost_while_others_leave_for_it(arena: Arena) -> None:
    """Until its VMs start it pays for the time of each period; then they pay."""
    assert "SAVE_STOP" in arena.states(arena.first)
    for minutes in (1, 2, 3):
        arena.clock.advance(60.0)
        arena.period()
        assert arena.paid() == pytest.approx(minutes * COST, rel=0.05)
    assert arena.states(arena.second) == ["PENDING"] * 3
    arena.periods(6)
    assert arena.states(arena.second) == ["RUNNING"] * 3
    before = arena.paid()
    arena.periods(2)
    assert arena.paid() - before == pytest.approx(2 * COST, rel=0.05)


LEAVING: list[Callable[[Arena], None]] = [
    Arena.withdraw, Arena.end_vms, Arena.hold_vms, Arena.give_away, Arena.lower_limit,
    Arena.ask_for_more, Arena.empty_account,
]  # fmt: skip


@pytest.mark.parametrize(("leave", "is_killed"), pair(LEAVING, [False, True]))
def test_an_order_that_leaves_at_once_pays_for_a_whole_interval(
    arena: Arena, leave: Callable[[Arena], None], *, is_killed: bool
) -> None:
    """Two seconds after others were told to leave, in whatever way it leaves."""
    arena.clock.advance(1.0)
    leave(arena)
    arena.clock.advance(1.0)
    if is_killed:
        arena.start_daemon()
    arena.period()
    assert not arena.runs()
    arena.clock.advance(60.0)
    arena.periods(3)
    assert arena.paid() == pytest.approx(COST, rel=1e-5)


def test_an_order_that_ends_right_after_its_start_pays_for_a_whole_interval(arena: Arena) -> None:
    """Others lost their hosts for it, and have to be saved and started again."""
    arena.set_duration(Lcm.SAVE_STOP, 1.0)
    for _ in range(30):
        arena.clock.advance(1.0)
        arena.period()
        if arena.states(arena.second) == ["RUNNING"] * 3:
            break
    assert arena.paid() < 0.9 * COST
    arena.end_vms()
    arena.clock.advance(1.0)
    arena.period()
    arena.periods(3)
    assert 0.9 * COST < arena.paid() < 1.1 * COST


def test_an_order_that_a_higher_one_displaces_pays_for_the_interval(arena: Arena) -> None:
    """Otherwise an owner could displace its own order, which makes others leave, by a small one."""
    low = replace(arena.limit_order(arena.dearer), limit=COST * 1.02)
    arena.read(lambda connection: limit_order_store.change(connection, low))
    arena.clock.advance(1.0)
    small = arena.vm(1.0, f"bob:{PASSWORD}", CPU=0.02, VCPU=2, MEMORY=16, MERKAT_MAX_CPU=101)
    displacing = arena.state_order([small], 900.0)
    arena.period()
    assert not arena.limit_order(arena.dearer).runs
    cost = arena.limit_order(displacing).cost
    assert cost is not None
    assert cost < COST / 2
    arena.clock.advance(1.0)
    arena.bench.ok("one.vm.action", "terminate-hard", small)
    arena.withdraw()
    arena.period()
    arena.periods(3)
    assert arena.paid() == pytest.approx(COST + cost, rel=0.02)


def test_an_order_that_clears_room_again_pays_for_each_time_once(arena: Arena) -> None:
    """It is displaced after 20 s, clears room again after 50 s, and is withdrawn then."""
    arena.set_duration(Lcm.SAVE_STOP, 10.0)
    arena.clock.advance(20.0)
    third = arena.state_order(arena.vms("ann"), 50.0)
    arena.period()
    assert not arena.limit_order(arena.dearer).runs
    arena.clock.advance(30.0)
    low = replace(arena.limit_order(third), limit=COST / 2)
    arena.read(lambda connection: limit_order_store.change(connection, low))
    arena.period()
    again = arena.limit_order(arena.dearer)
    assert again.why.endswith("once other VMs have left its hosts")
    assert again.cost is not None
    arena.withdraw()
    arena.clock.advance(1.0)
    arena.period()
    arena.clock.advance(60.0)
    arena.periods(3)
    assert arena.paid() == pytest.approx(COST * 50.0 / 60.0 + again.cost, rel=0.05)


def test_while_an_administrator_approves_each_step_room_costs_nothing(arena: Arena) -> None:
    """Nobody leaves for the order before that."""
    arena.clock.advance(5.0)
    arena.order(Order.MODE_ASK)
    arena.period()
    before = arena.paid()
    arena.clock.advance(60.0)
    arena.period()
    assert arena.paid() == before


def test_what_is_charged_to_the_end_is_not_charged_again_while_no_period_decides() -> None:
    """The rows of orders that wait go on, those of orders that left do not."""
    ids, numbers, amounts = np.arange(3), np.ones(3), np.ones((3, 2))
    phases = np.array([RoomPhase.WAITS, RoomPhase.STARTED, RoomPhase.LEFT])
    room = ClearedRoom(ids, ids, ids, phases, numbers, numbers, numbers, amounts, amounts)
    columns = still_owed({"price": amounts, **room.columns()})
    assert columns["room_vm"].tolist() == [0, 1]
    assert "room_vm" not in still_owed({"price": amounts, **room.at(ids == 2).columns()})


def test_a_period_whose_strategy_fails_is_no_leaving(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody left: the order pays for the time that it waits, and for no rest of an interval."""
    begun_s = arena.clock.seconds()
    arena.clock.advance(5.0)
    with monkeypatch.context() as patch:

        def fail(*_given: object) -> None:
            raise ArithmeticError("broken")

        patch.setattr(StrategyEntry, "decide", fail)
        arena.period()
    for _ in range(2):
        arena.clock.advance(5.0)
        arena.period()
    passed = (arena.clock.seconds() - begun_s) / 60.0
    assert arena.paid() == pytest.approx(passed * COST, rel=0.2)
