"""Shadow mode: comparing another scheduler's placements with this daemon's, in the same cloud.

For new placements, the comparison removes the VMs from the snapshot and decides where to place
them. For migrations, it compares the other scheduler's moves since the last observation with the
moves that this daemon had decided then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from twisted.logger import Logger

from merkatd.cluster import ACTIVE, Deploy, Migrate, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.database.scheduler import comparison_store
from merkatd.database.scheduler.comparison_store import Comparison
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.decide import PeriodDecision, decided_unstored
from merkatd.scheduler.phases.market_decisions import DecisionStart

_log = Logger()


class ShadowMode:
    """Remembers the host of each VM, and the moves decided, at the last observation."""

    def __init__(self) -> None:
        self._there: Mapping[int, int] | None = None
        self._wanted: dict[int, Migrate] = {}
        self._said: Mapping[int, int] = {}
        """By VM id: the target of a move that is already recorded."""

    def rest(self) -> None:
        """Stop comparing, and forget the last observation."""
        self._there, self._wanted, self._said = None, {}, {}

    async def look(
        self, context: PeriodContext, observed: Observed, decided: PeriodDecision
    ) -> None:
        """Compare the changes since the last observation; the first one is only the basis.

        The decided migrations are compared at the next observation.
        """
        there, under_way = _on_hosts(observed), _under_way(observed)
        before, self._there = self._there, there
        wanted = self._wanted
        self._wanted = {vm: wanted[vm] for vm in wanted.keys() & under_way}
        self._wanted |= {step.vm: step for step in decided.decision.plan.of(Migrate)}
        if before is None:
            return
        comparisons: list[Comparison] = []
        new = {vm: host for vm, host in there.items() if vm not in before}
        if new:
            comparisons += await context.executor.run(
                lambda: compared(context, observed, decided.start, new)
            )
        # A VM in transition is compared once it has settled.
        self._there = {**there, **{vm: before[vm] for vm in before.keys() & under_way}}
        stay = {vm: there[vm] for vm in (there.keys() & before.keys()) - under_way}
        comparisons += moved(observed, before, stay, wanted, self._said)
        known = {vm: self._said[vm] for vm in self._said.keys() & under_way}
        self._said = known | {
            vm: step.host for vm, step in wanted.items() if stay.get(vm) == step.source
        }
        await context.database.run(lambda connection: comparison_store.add(connection, comparisons))
        for comparison in comparisons:
            _say(comparison)


def _say(comparison: Comparison) -> None:
    done = (
        "placed"
        if comparison.source is None
        else "moved"
        if comparison.theirs != comparison.source
        else "left"
    )
    _log.info(
        "VM {vm} was {done} on {theirs}; here it would be on {ours}: {why}",
        vm=comparison.vm,
        done=done,
        theirs=comparison.theirs,
        ours=comparison.ours or "no host yet",
        why=comparison.why,
    )


def _on_hosts(observed: Observed) -> Mapping[int, int]:
    """Return the host of each VM that is on one or on its way there, by id."""
    look = observed.observation
    runs = is_one_of(look.vm_state, ACTIVE) & (look.vm_host >= 0)
    return dict(zip(look.vm_id[runs].tolist(), look.vm_host[runs].tolist(), strict=True))


def _under_way(observed: Observed) -> frozenset[int]:
    """Return the ids of the busy VMs."""
    look = observed.observation
    return frozenset(look.vm_id[look.vm_state == VmState.BUSY].tolist())


def compared(
    context: PeriodContext, observed: Observed, start: DecisionStart, new: Mapping[int, int]
) -> list[Comparison]:
    """Return this daemon's placements of these VMs in the cloud without them.

    The decision begins with the same as that of the period, and its memory is not stored.
    """
    vms = observed.snapshot.vms
    rows = is_one_of(vms.id, new)
    waiting = replace(
        vms,
        state=np.where(rows, int(VmState.PENDING), vms.state),
        placeable=vms.placeable | rows,
        host=np.where(rows, -1, vms.host),
        held=np.where(rows[:, np.newaxis], np.nan, vms.held),
    )
    without = replace(observed, snapshot=replace(observed.snapshot, vms=waiting))
    decision, _ = decided_unstored(context, without, start)
    ours = {step.vm: step for step in decision.plan.of(Deploy) if step.vm in new}
    hosts, names = _names(observed)
    return [
        Comparison(
            period=observed.period,
            at_s=observed.observation.at_s,
            vm=vm,
            name=names[vm],
            theirs=hosts[host],
            ours=hosts[ours[vm].host] if vm in ours else None,
            why=ours[vm].reason if vm in ours else decision.reasons.get(vm, "it would wait"),
        )
        for vm, host in new.items()
    ]


def moved(
    observed: Observed,
    before: Mapping[int, int],
    there: Mapping[int, int],
    wanted: Mapping[int, Migrate],
    known: Mapping[int, int],
) -> Iterator[Comparison]:
    """Yield the moves of one side that the other did not make, for VMs that are `there`.

    A move that is decided repeatedly but never made is yielded once.
    """
    hosts, names = _names(observed)
    for vm, host in there.items():
        ours = wanted.get(vm)
        if host == before[vm] and (ours is None or known.get(vm) == ours.host):
            continue
        yield Comparison(
            period=observed.period,
            at_s=observed.observation.at_s,
            vm=vm,
            name=names[vm],
            source=hosts[before[vm]],
            theirs=hosts[host],
            ours=hosts[before[vm] if ours is None else ours.host],
            why="it would have stayed" if ours is None else ours.reason,
        )


class _Hosts(dict[int, str]):
    """Names of hosts by id; a host that is gone is shown by its number."""

    def __missing__(self, host: int) -> str:
        return f"host {host}"


def _names(observed: Observed) -> tuple[Mapping[int, str], Mapping[int, str]]:
    look = observed.observation
    hosts = _Hosts(zip(look.host_id.tolist(), look.host_name, strict=True))
    return hosts, dict(zip(look.vm_id.tolist(), look.vm_name, strict=True))
