"""Orders of administrators: what the daemon keeps to until it is told otherwise."""

from typing import Any

from merkatd.api.questions.words import Arguments, QuestionError, host_row, text
from merkatd.cluster import VmState
from merkatd.database.scheduler.order_store import Order
from merkatd.scheduler.base.ports import Observation, UnreachableError
from merkatd.scheduler.observation.snapshot_builder import movable
from merkatd.scheduler.period import Scheduler


def who(arguments: Arguments) -> str:
    """Who gives an order, as far as they say."""
    return text(arguments, "who") or "somebody"


async def order_host(scheduler: Scheduler, what: Order, arguments: Arguments) -> dict[str, Any]:
    """Order something about the `host` that is named; what is there now, as JSON has it."""
    seen = await _seen(scheduler)
    row = host_row(seen.host_id, seen.host_name, arguments)
    host = int(seen.host_id[row])
    changed = await scheduler.order(what, who(arguments), host)
    there = (seen.vm_host == host) & (seen.vm_state != int(VmState.ABSENT))
    return {
        "id": host,
        "name": seen.host_name[row],
        "changed": changed,
        "vms": int(there.sum()),
        "stay": int((there & ~movable(seen)).sum()),
    }


async def _seen(scheduler: Scheduler) -> Observation:
    """The cloud as it is: an order waits for no period. Raises QuestionError.

    A cloud that can't be reached is as the latest period saw it.
    """
    try:
        return await scheduler.world.cloud.observe()
    except UnreachableError as error:
        if scheduler.latest is None:
            raise QuestionError(f"the cloud can't be reached: {error}") from error
        return scheduler.latest.seen.observation
