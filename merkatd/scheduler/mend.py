"""Mending: a VM that failed to boot is started once more where it is; after that people must.

OpenNebula keeps such a VM charged to its host and waits for somebody to recover it. To recreate
it would lose what its disks hold, so nothing else than another attempt is made by ourselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from merkatd.cluster import Deploy
from merkatd.database import decisions, journal
from merkatd.database.steps import OUTSTANDING, StepState, StoredStep
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.world import World

FAILED = "BOOT_FAILURE"
_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class Mended:
    """What is done about VMs that failed to boot."""

    steps: Mapping[str, Deploy] = field(default_factory=dict)
    """By id: other attempts, in the journal and not sent yet."""
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: what its owner is told."""


async def mend(world: World, seen: Seen) -> Mended:
    """Write down another attempt for each that has not had enough of them."""
    words, hosts = seen.observation.vm_words, seen.observation.vm_host
    rows = [row for row, said in enumerate(words) if said == FAILED and hosts[row] >= 0]
    if not rows:
        return Mended()
    return await world.database.run(lambda connection: _store(connection, world, seen, rows))


def _store(connection: sa.Connection, world: World, seen: Seen, rows: list[int]) -> Mended:
    steps, messages = [], {}
    names = dict(zip(seen.observation.host_id.tolist(), seen.observation.host_name, strict=True))
    for row in rows:
        vm, host = int(seen.observation.vm_id[row]), int(seen.observation.vm_host[row])
        failed = attempts(decisions.history(connection, vm, _LOOKED_AT))
        if failed is None:
            continue
        where = f"it failed to boot on {names.get(host, f'host {host}')}"
        if 0 < failed <= world.rhythm.boot_retries:
            reason = f"{where}: attempt {failed + 1}"
            steps.append(Deploy(period=seen.period, vm=vm, host=host, reason=reason))
            messages[vm] = f"{where}; it is tried once more"
        else:
            messages[vm] = f"{where}: an administrator must recover it (onevm recover {vm})"
    recorded = journal.record(connection, steps, world.now()).recorded
    return Mended({one.id: one for one in recorded if isinstance(one, Deploy)}, messages)


def attempts(history: tuple[StoredStep, ...]) -> int | None:
    """How often in a row we failed to start it, by its steps, newest first; None: on its way."""
    failed = 0
    for stored in history:
        if stored.state in OUTSTANDING:
            return None
        if stored.step.kind != Deploy.kind:
            continue
        if stored.state is StepState.CONFIRMED:
            break
        failed += stored.state is StepState.EXPIRED
    return failed
