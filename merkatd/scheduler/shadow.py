"""The shadow: where another scheduler placed VMs, and where we would have, in the same cloud.

What it placed since the last look is taken away again, on paper, and we decide where it goes.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from twisted.logger import Logger

from merkatd.cluster import Deploy, VmState
from merkatd.database import comparisons, periods
from merkatd.database.comparisons import Comparison
from merkatd.scheduler.decide import worked_out
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.world import World

_log = Logger()


class Shadow:
    """Remembers who was where when it last looked."""

    def __init__(self) -> None:
        self._there: frozenset[int] | None = None

    def rest(self) -> None:
        """It is not looking any more; what happens meanwhile is not compared."""
        self._there = None

    async def look(self, world: World, seen: Seen) -> None:
        """Compare what was placed since it last looked; at the first look nothing is new."""
        there = _on_hosts(seen)
        before, self._there = self._there, frozenset(there)
        new = {vm: host for vm, host in there.items() if before is not None and vm not in before}
        if not new:
            return
        label = "+".join(market.strategy for market in world.markets)
        memory = await world.database.read(lambda connection: periods.memory(connection, label))
        found = await world.executor.run(lambda: compared(world, seen, memory, new))
        await world.database.run(lambda connection: comparisons.add(connection, found))
        for one in found:
            _log.info(
                "VM {vm} was placed on {theirs}; here it would be on {ours}: {why}",
                vm=one.vm,
                theirs=one.theirs,
                ours=one.ours or "no host yet",
                why=one.why,
            )


def _on_hosts(seen: Seen) -> Mapping[int, int]:
    """By VM id: the host of each VM that is on one, or on its way there."""
    look = seen.observation
    runs = np.isin(look.vm_state, (VmState.RUNNING, VmState.BUSY)) & (look.vm_host >= 0)
    return dict(zip(look.vm_id[runs].tolist(), look.vm_host[runs].tolist(), strict=True))


def compared(
    world: World, seen: Seen, memory: Mapping[str, object], new: Mapping[int, int]
) -> list[Comparison]:
    """What we would have done with these VMs in this cloud, had it not been done."""
    vms = seen.snapshot.vms
    rows = np.isin(vms.id, list(new))
    waiting = replace(
        vms,
        state=np.where(rows, int(VmState.PENDING), vms.state),
        host=np.where(rows, -1, vms.host),
        held=np.where(rows[:, np.newaxis], np.nan, vms.held),
    )
    without = replace(seen, snapshot=replace(seen.snapshot, vms=waiting))
    decision, _ = worked_out(world, without, memory)
    ours = {step.vm: step for step in decision.plan.of(Deploy) if step.vm in new}
    hosts = dict(zip(seen.observation.host_id.tolist(), seen.observation.host_name, strict=True))
    names = dict(zip(seen.observation.vm_id.tolist(), seen.observation.vm_name, strict=True))
    return [
        Comparison(
            period=seen.period,
            at_s=seen.observation.at_s,
            vm=vm,
            name=names[vm],
            theirs=hosts.get(host, f"host {host}"),
            ours=hosts[ours[vm].host] if vm in ours else None,
            why=ours[vm].reason if vm in ours else decision.reasons.get(vm, "it would wait"),
        )
        for vm, host in new.items()
    ]
