"""The stored prices of room: read as they were written, bounded, and deleted with the history."""

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.ledger import rollup_store
from merkatd.database.retention import Horizon, delete_old_rows
from merkatd.database.room_price_store import ROOM_PRICES, load_rooms, store_rooms
from merkatd.database.scheduler import period_store
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.market.odds.room_prices import PARTS, RoomPrices

GOODS = ("cpu", "memory")


def begin(connection: sa.Connection, at_s: float = 0.0) -> int:
    """Begin a period and return its number."""
    return period_store.begin(connection, at_s, at_s, hosts=1, vms=1)


def rooms(cpu: float, memory: float = 0.5) -> RoomPrices:
    """Return the record of a moment with one price for each good."""
    price = np.array([cpu, memory])[np.newaxis, :, np.newaxis] * np.ones(len(PARTS))
    price[..., -1] = np.inf
    return RoomPrices(
        np.array([[400.0, 8192.0]]), np.array([[cpu, memory]]), np.array([[0.1, 0.2]]), price
    )


def test_they_are_read_as_they_were_written(connection: sa.Connection) -> None:
    """The newest moments come, oldest first, with infinite prices; of one market only."""
    for at_s in (0.0, 300.0, 600.0):
        number = begin(connection, at_s)
        store_rooms(connection, number, "default", GOODS, rooms(1.0 + at_s))
        store_rooms(connection, number, "other", GOODS, rooms(7.0))
    read = load_rooms(connection, "default", GOODS, 2)
    assert read.started_s == [300.0, 600.0]
    np.testing.assert_array_equal(read.rooms.price[0], rooms(301.0).price[0])
    np.testing.assert_array_equal(read.rooms.price[1], rooms(601.0).price[0])
    np.testing.assert_array_equal(read.rooms.capacity, [[400.0, 8192.0]] * 2)
    np.testing.assert_array_equal(read.rooms.weight, [[301.0, 0.5], [601.0, 0.5]])
    np.testing.assert_array_equal(read.rooms.reserve, [[0.1, 0.2]] * 2)
    swapped = load_rooms(connection, "default", GOODS[::-1], 1)
    np.testing.assert_array_equal(swapped.rooms.weight, [[0.5, 601.0]])


@pytest.mark.parametrize("goods", [(*GOODS, "network"), ("disk",)])
def test_moments_without_a_good_are_left_out(
    connection: sa.Connection, goods: tuple[str, ...]
) -> None:
    """A good that was not sold then had no price."""
    store_rooms(connection, begin(connection), "default", GOODS, rooms(1.0))
    read = load_rooms(connection, "default", goods, 10)
    assert read.started_s == []
    assert read.rooms.price.shape == (0, len(goods), len(PARTS))
    assert list(read.rooms.needed(np.ones(len(goods)))) == []


def test_they_are_deleted_with_the_history(connection: sa.Connection) -> None:
    """Until then their period stays, too."""
    for at_s in (0.0, 300.0):
        number = begin(connection, at_s)
        store_rooms(connection, number, "default", GOODS, rooms(1.0))
        period_store.watched(connection, number, at_s, "tabu")
    rollup_store.roll_up(connection, 2, 100, 400.0)
    delete_old_rows(connection, Horizon(2, 200.0, 0.0))
    assert len(connection.execute(sa.select(ROOM_PRICES)).all()) == 4
    delete_old_rows(connection, Horizon(2, 200.0, 200.0))
    assert set(connection.scalars(sa.select(ROOM_PRICES.c.period))) == {2}
    assert list(connection.scalars(sa.select(PERIODS.c.number))) == [2]
