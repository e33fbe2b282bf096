"""Room rests: limit orders that OpenNebula refused take no room from others for a while.

# Note [Refused limit orders take no room]

For a limit order whose hosts others have, these leave before OpenNebula is asked to deploy its VMs.
If it refuses them, the others were saved and are resumed for nothing. So after a refusal such an
order *rests* for longer: it starts only where no other VM has to leave. The first such rest lasts
five intervals, and each further one twice as long, at most half an hour. At the usual intervals the
order is still tried in free room, and a refusal there prolongs the rest.

Example: an order displaces another one in minute 0, and OpenNebula refuses its VMs in minute 1.
From minute 6 on it may displace others again, then from minute 17 and 38.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from merkatd.base.backoff import Backoff
from merkatd.cluster import Snapshot
from merkatd.cluster.columns import NO_ROW, is_one_of

FIRST_INTERVALS = 5.0
"""The number of intervals that the first rest lasts."""
LONGEST_S = 1800.0


def with_resting_orders(
    snapshot: Snapshot, refusals: Mapping[int, tuple[int, float, str]], interval_s: float
) -> tuple[Snapshot, dict[int, str]]:
    """Return the cloud with its resting orders, and the reasons by id of their waiting VMs.

    By VM id, `refusals` are the number of attempts, the time of the last one, and its reason.
    """
    vms, orders = snapshot.vms, snapshot.orders
    waits = (vms.order != NO_ROW) & vms.waiting
    rests, reasons = orders.rests.copy(), dict[int, str]()
    for row in np.flatnonzero(waits & is_one_of(vms.id, refusals)).tolist():
        order, (attempts, last_s, why) = int(vms.order[row]), refusals[int(vms.id[row])]
        left_s = rest_s(attempts, interval_s) - abs(snapshot.now_s - last_s)
        if left_s <= 0 or rests[order]:
            continue
        rests[order] = True
        reason = (
            f"its limit order takes no room from others for {np.ceil(left_s / 60.0):.0f} min,"
            f" because of VM {vms.id[row]}: {why}"
        )
        reasons |= dict.fromkeys(vms.id[waits & (vms.order == order)].tolist(), reason)
    return replace(snapshot, orders=replace(orders, rests=rests)), reasons


def rest_s(attempts: int, interval_s: float) -> float:
    """Return the time from a refusal for which the order takes no room."""
    backoff = Backoff(first_s=FIRST_INTERVALS * interval_s, longest_s=LONGEST_S)
    return backoff.wait_s(attempts)
