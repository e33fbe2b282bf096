"""What a period has seen, and the use seen by the last ones.

CPU is what the counters rose by from one look to the next; a counter that went back began anew.
Guests on hosts that are away look as they were last seen, which says nothing of what they use.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot, Step, UsageHistory
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.database.scheduler.migration_history import RecentMigrations
from merkatd.limits import EnforcedLimits
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.claim_prices import Claims
from merkatd.scheduler.base.ports import GuestUse, Observation
from merkatd.scheduler.observation.bidders import TemplateBids
from merkatd.scheduler.observation.memory_in_use import InUse
from merkatd.scheduler.observation.step_outcomes import Verdicts


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What a period starts from."""

    period: int
    started_s: float
    observation: Observation
    snapshot: Snapshot
    in_force: EnforcedLimits
    verdicts: Verdicts
    wishes: Mapping[int, TemplateBids]
    use: GuestUse
    rates: Mapping[int, Rate] = field(default_factory=dict)
    """By VM id: what the VMs of groups have of their spending rates."""
    under_way: tuple[Step, ...] = ()
    """The steps that were neither confirmed nor given up before this observation."""
    moves: RecentMigrations = field(default_factory=RecentMigrations)
    """What became of recent migrations."""
    in_use: InUse | None = None
    """What VMs keep of the memory that they use, once it is settled."""
    claims: Claims | None = None
    """What VMs claim and have whatever they bid, once floors are those that bids pay for."""
    restarted: frozenset[int] = frozenset()
    """VMs that pay for memory beyond their shares (Note [Memory of guests that start])."""
    started_often: frozenset[int] = frozenset()
    """VMs that pay for what they have before they have limits (Note [Network and disk of guests
    that start])."""


@dataclass(frozen=True, slots=True, eq=False)
class CloudReading:
    """What a look at the cloud showed; nothing was stored for it."""

    started_s: float
    observation: Observation
    use: GuestUse
    said: Mapping[int, TemplateBids]
    """By VM id: what templates say."""


SAMPLES = 12
CPU, MEMORY = "cpu", "memory"
_NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """One look; rows ascend by VM id."""

    at_s: float
    vm: Ints
    host: Ints
    """The id of each VM's host,"""
    there: Ints
    """and of all hosts that were there and answered."""
    cpu_s: Floats
    used: Floats
    """[vms, 2]: percent of a core since the look before, and MiB; NaN where that is not known."""


class RecentUse:
    """The last few looks."""

    def __init__(self, most: int = SAMPLES) -> None:
        self._samples: deque[_Sample] = deque(maxlen=most)

    def met(self, seen: Observation, use: GuestUse) -> None:
        """Remember a look."""
        before = self._samples[-1] if self._samples else None
        if before is not None and seen.at_s == before.at_s:
            return
        if before is not None and seen.at_s < before.at_s:  # the clock was set back
            self._samples.clear()
            before = None
        answers = ~np.isin(seen.host_id, list(use.away))
        host = _of(seen.vm_id, seen.vm_host, use.vm_id, _NOWHERE)
        there = seen.host_id[answers]
        known = np.isin(host, there)
        vm, cpu_s = use.vm_id[known], use.cpu_s[known]
        units = np.full(len(vm), np.nan)
        if before is not None:
            rise = cpu_s - _of(before.vm, before.cpu_s, vm, np.nan)
            rise[np.isnan(rise) | (rise < 0)] = np.nan
            units = rise * UNITS_PER_CORE / (seen.at_s - before.at_s)
        used = np.stack([units, use.used_mib[known]], axis=1)
        self._samples.append(_Sample(seen.at_s, vm, host[known], there, cpu_s, used))

    def history(self, seen: Observation, resources: tuple[str, ...]) -> UsageHistory | None:
        """Row by row of an observation; None before the first look."""
        samples = tuple(self._samples)
        if not samples:
            return None
        columns = [resources.index(name) for name in (CPU, MEMORY)]
        vms = np.full((len(samples), len(seen.vm_id), len(resources)), np.nan)
        hosts = np.full((len(samples), len(seen.host_id), len(resources)), np.nan)
        for row, sample in enumerate(samples):
            on = _of(seen.host_id, np.arange(len(seen.host_id)), sample.host, _NOWHERE)
            there = np.isin(seen.host_id, sample.there)
            for kind, column in enumerate(columns):
                used = sample.used[:, kind]
                vms[row, :, column] = _of(sample.vm, used, seen.vm_id, np.nan)
                counts = (on != _NOWHERE) & ~np.isnan(used)
                sums = np.bincount(on[counts], used[counts], len(seen.host_id))
                silent = np.bincount(on[on != _NOWHERE], minlength=len(seen.host_id)) > 0
                silent &= np.bincount(on[counts], minlength=len(seen.host_id)) == 0
                hosts[row, :, column] = np.where(there & ~silent, sums, np.nan)
        return UsageHistory(np.array([sample.at_s for sample in samples]), vms, hosts)


def _of(ids: Ints, values: Any, wanted: Ints, missing: float) -> Any:
    """The value of each wanted id; ids ascend."""
    if not len(ids):
        return np.full(len(wanted), missing)
    rows = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[rows] == wanted, values[rows], missing)
