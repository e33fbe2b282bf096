"""Orders apply until they are revoked, and stay on record."""

import pytest
import sqlalchemy as sa

from merkatd.database.scheduler import order_store
from merkatd.database.scheduler.order_store import Order, OrdersInForce


def test_the_newest_order_on_a_subject_applies(connection: sa.Connection) -> None:
    """Each host and the whole scheduler have separate orders."""
    assert order_store.in_force(connection) == OrdersInForce()
    assert order_store.record_order(connection, Order.DRAIN, 1.0, "ann", 3)
    assert order_store.record_order(connection, Order.DRAIN, 2.0, "ann", 5)
    assert order_store.record_order(connection, Order.PAUSE, 3.0, "bob", None)
    assert order_store.in_force(connection) == OrdersInForce(paused=True, drained=frozenset({3, 5}))
    assert order_store.record_order(connection, Order.UNDRAIN, 4.0, "bob", 3)
    assert order_store.record_order(connection, Order.RESUME, 5.0, "ann", None)
    assert order_store.in_force(connection) == OrdersInForce(paused=False, drained=frozenset({5}))
    orders = [(order.what, order.host, order.who) for order in order_store.history(connection)]
    assert orders[:2] == [(Order.RESUME, None, "ann"), (Order.UNDRAIN, 3, "bob")]
    assert len(orders) == 5


def test_an_order_in_force_is_not_recorded_again(connection: sa.Connection) -> None:
    """Revoking an order that was never given is not recorded either."""
    assert not order_store.record_order(connection, Order.UNDRAIN, 1.0, "ann", 3)
    assert not order_store.record_order(connection, Order.RESUME, 1.0, "ann", None)
    assert order_store.record_order(connection, Order.DRAIN, 1.0, "ann", 3)
    assert not order_store.record_order(connection, Order.DRAIN, 2.0, "bob", 3)
    assert len(order_store.history(connection)) == 1


def test_only_orders_about_hosts_name_a_host(connection: sa.Connection) -> None:
    """Other combinations raise `ValueError`."""
    with pytest.raises(ValueError, match="pause is an order"):
        order_store.record_order(connection, Order.PAUSE, 1.0, "ann", 3)
    with pytest.raises(ValueError, match="drain is an order"):
        order_store.record_order(connection, Order.DRAIN, 1.0, "ann", None)
