"""VMs that move for limit orders, and the orders for which no moves are found."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Bools, Ints, Migrate, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.market.orders.room_by_moves import MOST_FAILED
from tests.placement.test_order_clearing import decided, halls
from tests.placement.test_order_contention import with_floors


def test_orders_that_find_no_moves_cost_few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner has two hundred of them; another owner's order below them is served all the same."""
    attempts: list[bool] = []
    real = GangBoard.take_with_moves

    def counted(board: GangBoard, vms: Ints, may_leave: Bools) -> list[int] | None:
        moved = real(board, vms, may_leave)
        attempts.append(moved is not None)
        return moved

    monkeypatch.setattr(GangBoard, "take_with_moves", counted)
    hosts = [(host, 0.1, 60.0, NO_ROW) for host in range(8)]
    small = [(8, 0.1, 24.0, NO_ROW), (8, 0.1, 20.0, NO_ROW), (9, 0.1, 70.0, NO_ROW)]
    many = [(NO_HOST, 900.0, 90.0, order) for order in range(200)]
    snapshot = halls(10, [*hosts, *small, *many, (NO_HOST, 20.0, 75.0, 200)])
    floors = [60.0] * 8 + [24.0, 20.0, 70.0] + [0.0] * 201
    snapshot = with_floors(snapshot, floors)
    owner = np.zeros(len(snapshot.vms), dtype=np.int64)
    owner[-1] = 1
    movable = np.arange(len(owner)) != 8
    only = replace(snapshot.vms, owner=owner, movable=movable)
    decision = decided(replace(snapshot, vms=only))
    assert attempts.count(False) <= 2 * MOST_FAILED
    assert decision.orders[210].runs


def arrivals(snapshot: Snapshot) -> list[tuple[int, int]]:
    """Return the VMs that the decision migrates, each with its new host."""
    return [(step.vm, step.host) for step in decided(snapshot).plan.of(Migrate)]


def test_no_vm_takes_the_room_that_is_being_cleared_for_an_order() -> None:
    """Host 0 is cleared for an order of 80: a VM with a floor of 40 would keep it out."""
    bids = [(1, 30.0, 100.0, NO_ROW), (1, 30.0, 100.0, NO_ROW)]
    displaced, comes = (0, 0.5, 60.0, 0), (NO_HOST, 800.0, 80.0, 1)
    alone = with_floors(halls(2, [*bids, displaced]), [40.0, 40.0, 0.0])
    assert arrivals(alone) == [(0, 0)]
    both = with_floors(halls(2, [*bids, displaced, comes]), [40.0, 40.0, 0.0, 0.0])
    decision = decided(both)
    assert decision.order_terms is not None
    assert decision.order_terms.coming.max() == 0
    assert arrivals(both) == []


def test_small_vms_may_come_beside_an_order() -> None:
    """Of 20 that the order leaves, the first VM takes 15; the second one does not fit."""
    bids = [(1, 30.0, 100.0, NO_ROW)] * 3
    displaced, comes = (0, 0.5, 60.0, 1), (NO_HOST, 800.0, 80.0, 0)
    both = with_floors(halls(2, [*bids, displaced, comes]), [15.0, 15.0, 15.0, 0.0, 0.0])
    assert arrivals(both) == [(0, 0)]
