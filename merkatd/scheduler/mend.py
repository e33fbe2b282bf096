"""Mending: a VM that failed to boot is started once more where it is; after that people must.

OpenNebula keeps such a VM charged to its host and waits for somebody to recover it. To recreate
it would lose what its disks hold, so nothing else than another attempt is made by ourselves. An
attempt is made where its floor still fits beside those of all VMs on the host, and beside all that
their balloons hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Deploy, Floats, Migrate, Step, VmState
from merkatd.database.scheduler import journal
from merkatd.scheduler.boots import FAILED, attempts_at, is_tried_again
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.settings import RESOURCES
from merkatd.scheduler.snapshot import MEMORY
from merkatd.scheduler.world import World


@dataclass(frozen=True, slots=True)
class Mended:
    """What is done about VMs that failed to boot."""

    steps: Mapping[str, Deploy] = field(default_factory=dict)
    """By id: other attempts, in the journal and not sent yet."""
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: what its owner is told."""


async def mend(world: World, seen: Seen, decided: Sequence[Step]) -> Mended:
    """Write down another attempt for each that has not had enough of them.

    `decided` are this period's other steps, which bring VMs to hosts too.
    """
    words, hosts = seen.observation.vm_words, seen.observation.vm_host
    rows = [row for row, said in enumerate(words) if said == FAILED and hosts[row] >= 0]
    if not rows:
        return Mended()
    return await world.database.run(
        lambda connection: _store(connection, world, seen, rows, decided)
    )


def _store(
    connection: sa.Connection, world: World, seen: Seen, rows: list[int], decided: Sequence[Step]
) -> Mended:
    steps, messages = [], {}
    names = dict(zip(seen.observation.host_id.tolist(), seen.observation.host_name, strict=True))
    failed = {row: attempts_at(connection, int(seen.snapshot.vms.id[row])) for row in rows}
    rooms = _Rooms(seen, decided, [row for row, count in failed.items() if count is not None])
    for row, count in failed.items():
        if count is None:
            continue
        vm, host = int(seen.observation.vm_id[row]), int(seen.observation.vm_host[row])
        where = f"it failed to boot on {names.get(host, f'host {host}')}"
        if not is_tried_again(count, world.rhythm.boot_retries):
            messages[vm] = f"{where}: an administrator must recover it (onevm recover {vm})"
        elif not rooms.take(row):
            messages[vm] = f"{where}; it is tried once more when its floor fits there again"
        else:
            reason = f"{where}: attempt {count + 1}"
            steps.append(Deploy(period=seen.period, vm=vm, host=host, reason=reason))
            messages[vm] = f"{where}; it is tried once more"
    recorded = journal.record(connection, steps, world.now()).recorded
    return Mended({one.id: one for one in recorded if isinstance(one, Deploy)}, messages)


class _Rooms:
    """What hosts have left of their capacity, CPU and memory, while failed VMs start again."""

    def __init__(self, seen: Seen, decided: Sequence[Step], failed: list[int]) -> None:
        """`failed` are the rows of the VMs that hold nothing until they are tried again."""
        snapshot, own = seen.snapshot, slice(len(RESOURCES))
        vms = snapshot.vms
        outside = (vms.market < 0)[:, np.newaxis]
        self._amount: Floats = np.where(outside, vms.cap, vms.floor)[:, own]
        self._held = self._amount.copy()  # what no balloon has given back can't be given away
        self._held[:, MEMORY] = np.fmax(self._held[:, MEMORY], vms.held[:, MEMORY])
        self._host = vms.host
        self._left: Floats = seen.observation.host_capacity[:, own].copy()
        holds = (vms.host >= 0) & (vms.state != VmState.PENDING)
        holds[failed] = False
        for host, there in ((vms.host, holds), (vms.source, holds & (vms.source >= 0))):
            np.subtract.at(self._left, host[there], self._held[there])
        for step in decided:
            if isinstance(step, Deploy | Migrate) and step.vm in vms.id:
                self._reserve(seen, step)

    def _reserve(self, seen: Seen, step: Deploy | Migrate) -> None:
        """Count a VM that comes to a host beside the host that it is on, with what it brings."""
        row, at = seen.snapshot.vm_row(step.vm), seen.snapshot.host_row(step.host)
        if at != self._host[row]:
            self._left[at] -= (self._held if isinstance(step, Migrate) else self._amount)[row]

    def take(self, row: int) -> bool:
        """Reserve the floor of the VM in this row on its host, if it fits there."""
        host = int(self._host[row])
        left = self._left[host] - self._amount[row]
        if (left < 0).any():
            return False
        self._left[host] = left
        return True
