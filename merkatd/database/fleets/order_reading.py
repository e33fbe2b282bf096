"""Reading of the limit orders in force, with all that a period needs to know about them."""

import sqlalchemy as sa

from merkatd.cluster.orders import StatedOrders
from merkatd.database.fleets import fleet_store
from merkatd.database.scheduler import limit_order_store, limit_order_vm_store, price_store


def read_orders(connection: sa.Connection) -> StatedOrders:
    """Read the limit orders; without any, the prices are not needed."""
    orders = limit_order_store.living(connection)
    newest = price_store.newest(connection) if orders else None
    prices = {} if newest is None else price_store.load_prices(connection, newest)
    saved = limit_order_vm_store.saved_vms(connection)
    return StatedOrders(orders, prices, fleet_store.unordered_vms(connection), saved)
