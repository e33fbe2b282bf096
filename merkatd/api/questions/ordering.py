"""Orders of administrators: what the daemon keeps to until it is told otherwise."""

from typing import Any

from merkatd.api.questions.words import Arguments, host_row, text
from merkatd.cluster import Snapshot, VmState
from merkatd.database.orders import Order
from merkatd.scheduler.period import Scheduler


def who(arguments: Arguments) -> str:
    """Who gives an order, as far as they say."""
    return text(arguments, "who") or "somebody"


async def order_host(
    scheduler: Scheduler, snapshot: Snapshot, what: Order, arguments: Arguments
) -> dict[str, Any]:
    """Order something about the `host` that is named; what is there now, as JSON has it."""
    row = host_row(snapshot, arguments)
    host = int(snapshot.hosts.id[row])
    changed = await scheduler.order(what, who(arguments), host)
    there = (snapshot.vms.host == row) & (snapshot.vms.state != int(VmState.ABSENT))
    return {
        "id": host,
        "name": snapshot.hosts.name[row],
        "changed": changed,
        "vms": int(there.sum()),
        "stay": int((there & ~snapshot.vms.movable).sum()),
    }
