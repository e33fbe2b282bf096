"""VMs that move for limit orders, and the orders for which no moves are found."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Bools, Ints
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
