"""The monitor `queue`: the jobs of a batch system and its workers, as its head VM shows them.

Its parameters: `batch`, `slurm` or `gridengine`; `worker`, what a worker is called in the batch
system, where {vm} stands for its VM's id; `address`, `user`, `port` as for `steps`.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from controllers.monitors.head import Head
from controllers.monitors.monitor import Monitor
from controllers.monitors.naming import WORKER, WorkerNames
from controllers.monitors.queues.batch import Queue
from controllers.monitors.queues.systems import batch_of

JOBS: Final = "jobs/"
"""How the number of jobs that run on a worker is named, with its VM;"""
CLOSED: Final = "closed/"
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
            return self._now(), told(queue, self._names)
        except (ValueError, ArithmeticError):
            return None  # the tenant's own machine may say anything


def told(queue: Queue, names: WorkerNames) -> dict[str, float]:
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
