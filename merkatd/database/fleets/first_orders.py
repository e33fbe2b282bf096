"""The limit orders of platforms whose last VMs have just been seen: they get their VMs at once.

The review of platforms gives an order its VMs, but only for the next period: this one has observed
the orders already. For a new order that would be a period late.
"""

import sqlalchemy as sa

from merkatd.cluster.orders import LEAST_LIMIT
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.fleets.platform_store import PLATFORMS
from merkatd.database.scheduler import limit_order_store
from merkatd.database.scheduler.limit_order_store import LIMIT_ORDERS
from merkatd.database.scheduler.limit_order_vm_store import LIMIT_ORDER_VMS

STARTING = "starting"
"""The state of a platform that is creating its VMs."""
_FILLED = sa.select(LIMIT_ORDER_VMS.c.vm).where(LIMIT_ORDER_VMS.c.limit_order == LIMIT_ORDERS.c.id)
_WITHOUT_VMS = (
    sa.select(PLATFORMS.c.id)
    .join(LIMIT_ORDERS, LIMIT_ORDERS.c.platform == PLATFORMS.c.id)
    .where(PLATFORMS.c.state == STARTING, LIMIT_ORDERS.c.limit_credits > LEAST_LIMIT)
    .where(~sa.exists(_FILLED))
    .order_by(PLATFORMS.c.id)
)


def fill_new_orders(connection: sa.Connection) -> None:
    """Put the VMs of platforms that start into their limit orders, if all of them exist."""
    for number in connection.scalars(_WITHOUT_VMS).all():
        platform = platform_store.locked(connection, number)
        order = limit_order_store.of_platforms(connection, number).get(number)
        if platform is None or platform.state != STARTING or order is None or order.vms:
            continue
        members = PLATFORM_VMS.living(connection, number)
        vms = [each.vm for each in members if each.vm is not None and not each.leaving]
        if len(vms) >= sum(platform.sizes.values()):
            limit_order_store.set_vms(connection, order, vms)
