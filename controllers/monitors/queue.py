"""The monitor `queue`: the jobs of a batch system and its workers, as its head VM shows them.

Its parameters: `batch`, `slurm` or `gridengine`; `worker`, what a worker is called in the batch
system, where {vm} stands for its VM's id; `address`, `user`, `port` as for `steps`.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from controllers.monitors.head import Head, batch_of
from controllers.monitors.monitor import Monitor
from controllers.monitors.queues.batch import Queue

JOBS: Final = "jobs/"
"""How the number of jobs that run on a worker is named, with its VM;"""
CLOSED: Final = "closed/"
"""and that it takes no more."""
WORKER: Final = "one-{vm}"


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
        self._head = head or Head.of(self._hand, self.cluster.name, self.parameters)
        self._now = now

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """None while the head does not answer, or not sensibly."""
        said = await self._head.say(self._batch.look())
        if said is None:
            return None
        try:
            queue = self._batch.read(said.out.decode("utf-8", "replace"))
        except ValueError:
            return None
        return self._now(), told(queue, str(self.parameters.get("worker", WORKER)))


def told(queue: Queue, worker: str) -> dict[str, float]:
    """What the controller is to know; workers that are lost are not there."""
    values = {
        "waiting": float(queue.waiting),
        "wanted": float(queue.wanted),
        "longest_s": queue.longest_s,
        "running": float(queue.running),
    }
    name = re.compile(re.escape(worker).replace(re.escape("{vm}"), "([0-9]+)"))
    for one in queue.workers.values():
        found = name.fullmatch(one.name)
        if found and not one.lost:
            values[f"{JOBS}{int(found[1])}"] = float(one.jobs)
            if one.drained:
                values[f"{CLOSED}{int(found[1])}"] = 1.0
    return values
