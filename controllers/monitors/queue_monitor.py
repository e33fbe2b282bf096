"""The monitor `queue`, and the head VM of a batch system.

Its parameters:
- `batch`: `slurm` or `gridengine`
- `worker`: the name of a worker in the batch system, in which {vm} stands for its VM's id
- `address`, `user`, `port`: as for the monitor `steps`
"""

import time
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final

from controllers.controller import Hand
from controllers.measurements import CLOSED, JOBS
from controllers.monitors.batch_systems.batch_system import Queue
from controllers.monitors.guest_access import GuestAccess, site_keys, ssh_settings
from controllers.monitors.monitor import Monitor
from controllers.monitors.queues.systems import batch_of
from controllers.monitors.ssh_pool import CommandResult
from merkatd.protocol.monitor_terms import WORKER, WorkerNames

MOST_MORE: Final = 1_000
"""The workers that a look reports beyond the platform's VMs, such as released ones. A head is the
tenant's own machine: it may name any number, and the daemon forwards and stores all of them."""


class ClusterHead:
    """The head of a batch system: the running VM with the lowest id in its cluster."""

    def __init__(self, guests: GuestAccess) -> None:
        self._guests = guests

    @classmethod
    def of(cls, hand: Hand, cluster: str, parameters: Mapping[str, Any]) -> "ClusterHead":
        """Return the head, reached by SSH. Raise ValueError without an address."""
        reach = ssh_settings(parameters)
        if reach is None:
            raise ValueError(
                "no SSH address is set: set [bus] ssh_address or the monitor's parameters.address"
            )
        return cls(GuestAccess(reach, site_keys(), hand, cluster))

    async def say(self, command: str) -> CommandResult | None:
        """Run a command on the head, and return its result; None if the head can't be reached."""
        vms = await self._guests.running()
        if not vms:
            return None
        vm = min(vms)
        heard = (await self._guests.ask({vm: vms[vm]}, lambda _: command))[vm]
        return heard if isinstance(heard, CommandResult) else None


class QueueMonitor(Monitor):
    """Reads the queue and the workers from the head."""

    def __init__(
        self,
        *given: Any,
        head: ClusterHead | None = None,
        now: Callable[[], float] = time.time,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self._batch = batch_of(self.parameters)
        self._names = WorkerNames.of(str(self.parameters.get("worker", WORKER)))
        self._head = head or ClusterHead.of(self._hand, self.cluster.name, self.parameters)
        self._now = now

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """Return the time and the measurements; None without a valid answer of the head."""
        output = await self._head.say(self._batch.look())
        if output is None:
            return None
        try:
            queue = self._batch.read(output.out.decode("utf-8", "replace"))
            most = self.assignment.most_vms + MOST_MORE
            return self._now(), queue_values(queue, self._names, most)
        except (ValueError, ArithmeticError):
            return None  # the head is the tenant's own machine, and may answer anything


def queue_values(queue: Queue, names: WorkerNames, most: int = MOST_MORE) -> dict[str, float]:
    """Return the measurements of a queue for the controller, without lost workers.

    If the head names more than `most` workers of VMs, those of the newest VMs count.
    """
    values = {
        "waiting": float(queue.waiting),
        "wanted": float(queue.wanted),
        "longest_s": queue.longest_s,
        "running": float(queue.running),
    }
    workers = [
        (vm, worker)
        for worker in queue.workers.values()
        if (vm := names.vm_of(worker.name)) is not None and not worker.lost
    ]
    for vm, worker in sorted(workers, key=itemgetter(0))[-most:]:
        values[f"{JOBS}{vm}"] = float(worker.jobs)
        if worker.drained:
            values[f"{CLOSED}{vm}"] = 1.0
    return values
