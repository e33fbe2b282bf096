"""The monitor `queue`, and the head VM of a batch system.

Its parameters: `batch`, `slurm` or `gridengine`; `worker`, what a worker is called in the batch
system, where {vm} stands for its VM's id; `address`, `user`, `port` as for `steps`.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from controllers.controller import Hand
from controllers.measurements import CLOSED, JOBS
from controllers.monitors.batch_systems.batch_system import Queue
from controllers.monitors.guest_access import GuestAccess, keys_here, reach_here
from controllers.monitors.monitor import Monitor
from controllers.monitors.queues.systems import batch_of
from controllers.monitors.ssh_pool import Said
from merkatd.protocol.monitor_terms import WORKER, WorkerNames


class Head:
    """Of one virtual cluster the VM with the lowest id."""

    def __init__(self, guests: GuestAccess) -> None:
        self._guests = guests

    @classmethod
    def of(cls, hand: Hand, cluster: str, parameters: Mapping[str, Any]) -> "Head":
        """Reached as the daemon's configuration says. ValueError where that says nothing."""
        reach = reach_here(parameters)
        if reach is None:
            raise ValueError("[bus] ssh_address, or the monitor's parameters.address, is missing")
        return cls(GuestAccess(reach, keys_here(), hand, cluster))

    async def say(self, command: str) -> Said | None:
        """What a command comes to; None where the head can't be asked."""
        vms = await self._guests.running()
        if not vms:
            return None
        vm = min(vms)
        heard = (await self._guests.ask({vm: vms[vm]}, lambda _: command))[vm]
        return heard if isinstance(heard, Said) else None


"""How the number of jobs that run on a worker is named, with its VM;"""
"""and that it takes no more."""


class QueueMonitor(Monitor):
    """Asks the head."""

    def __init__(
        self,
        *given: Any,
        head: Head | None = None,
        now: Callable[[], float] = time.time,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self._batch = batch_of(self.parameters)
        self._names = WorkerNames.of(str(self.parameters.get("worker", WORKER)))
        self._head = head or Head.of(self._hand, self.cluster.name, self.parameters)
        self._now = now

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """None while the head does not answer, or not sensibly."""
        said = await self._head.say(self._batch.look())
        if said is None:
            return None
        try:
            queue = self._batch.read(said.out.decode("utf-8", "replace"))
            return self._now(), queue_values(queue, self._names)
        except (ValueError, ArithmeticError):
            return None  # the tenant's own machine may say anything


def queue_values(queue: Queue, names: WorkerNames) -> dict[str, float]:
    """What the controller is to know; workers that are lost are not there."""
    values = {
        "waiting": float(queue.waiting),
        "wanted": float(queue.wanted),
        "longest_s": queue.longest_s,
        "running": float(queue.running),
    }
    for one in queue.workers.values():
        vm = names.vm_of(one.name)
        if vm is not None and not one.lost:
            values[f"{JOBS}{vm}"] = float(one.jobs)
            if one.drained:
                values[f"{CLOSED}{vm}"] = 1.0
    return values
