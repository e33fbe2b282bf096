"""The observation of a period, and the use of resources in recent ones.

CPU use is the increase of a counter between two observations; a counter that went back was reset.
For hosts that do not answer, the last known values of guests are repeated; these give no use.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot, Step, UsageHistory
from merkatd.cluster.columns import NO_HOST, is_one_of, rows_of, values_of
from merkatd.database.base.schema import Arrays
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.database.scheduler.migration_history import RecentMigrations
from merkatd.limits import EnforcedLimits
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.claim_prices import Claims
from merkatd.scheduler.base.ports import GuestUse, Histories, Observation
from merkatd.scheduler.clearing.cleared_room import ClearedRoom
from merkatd.scheduler.observation.bidders import TemplateBids
from merkatd.scheduler.observation.memory_in_use import MemoryInUse
from merkatd.scheduler.observation.step_outcomes import Verdicts


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The input of a period's decision."""

    period: int
    started_s: float
    observation: Observation
    snapshot: Snapshot
    in_force: EnforcedLimits
    verdicts: Verdicts
    wishes: Mapping[int, TemplateBids]
    use: GuestUse
    rates: Mapping[int, Rate] = field(default_factory=dict)
    """By VM id: the spending rates of VMs in groups."""
    under_way: tuple[Step, ...] = ()
    """The steps that were outstanding before this observation."""
    histories: Histories = field(default_factory=dict)
    """By VM id: all records of VMs whose last record does not show when they ran."""
    moves: RecentMigrations = field(default_factory=RecentMigrations)
    """The results of recent migrations."""
    in_use: MemoryInUse | None = None
    """The used memory that VMs keep, once it is decided."""
    claims: Claims | None = None
    """The VMs' claims, and the amounts they have regardless of bids, once floors are paid ones."""
    room: ClearedRoom | None = None
    """The room that was cleared for limit orders before; None if there is none."""
    weights_age_s: Floats | None = None
    """[markets]: the time for which the weights of limit orders' goods were averaged."""
    restarted: frozenset[int] = frozenset()
    """VMs that pay for memory beyond their shares (Note [Memory of guests that start])."""
    started_often: frozenset[int] = frozenset()
    """VMs that pay for resources before they get limits (Note [Network and disk of guests that
    start])."""


@dataclass(frozen=True, slots=True, eq=False)
class CloudReading:
    """The data of one reading of the cloud, before anything is stored."""

    started_s: float
    observation: Observation
    use: GuestUse
    bids: Mapping[int, TemplateBids]
    """The bids in templates, by VM id."""


SAMPLES = 12
_NEARLY = 0.1
"""A tolerance in intervals: real intervals differ."""
CPU, MEMORY = "cpu", "memory"


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """One observation; rows ascend by VM id."""

    at_s: float
    vm: Ints
    host: Ints
    """[vms]: the id of each VM's host."""
    there: Ints
    """The ids of all hosts that existed and answered."""
    cpu_s: Floats
    used: Floats
    """[vms, 2]: percent of a core since the previous observation, and MiB; NaN if unknown."""


def _units_since(before: _Sample, at_s: float, vm: Ints, cpu_s: Floats) -> Floats:
    """[vms]: the percent of a core that VMs have used since a sample; NaN if unknown."""
    rise = cpu_s - values_of(before.vm, before.cpu_s, vm, np.nan)
    rise[np.isnan(rise) | (rise < 0)] = np.nan
    units: Floats = rise * UNITS_PER_CORE / (at_s - before.at_s)
    return units


class RecentUse:
    """The use in the last few intervals.

    Early periods observe more often. Two samples that together last an interval at most become one,
    so that the samples cover as many intervals as without early periods.
    """

    def __init__(self, most: int = SAMPLES) -> None:
        self._samples: deque[_Sample] = deque(maxlen=most)

    def met(self, seen: Observation, use: GuestUse, each_s: float = 0.0) -> None:
        """Store the use of an observation; samples that last `each_s` together become one."""
        before = self._samples[-1] if self._samples else None
        if before is not None and seen.at_s == before.at_s:
            return
        if before is not None and seen.at_s < before.at_s:  # the clock was set back
            self._samples.clear()
            before = None
        answers = ~is_one_of(seen.host_id, use.away)
        host = values_of(seen.vm_id, seen.vm_host, use.vm_id, NO_HOST)
        there = seen.host_id[answers]
        known = is_one_of(host, there)
        vm, cpu_s = use.vm_id[known], use.cpu_s[known]
        units = np.full(len(vm), np.nan)
        if before is not None:
            units = _units_since(before, seen.at_s, vm, cpu_s)
        earlier = self._samples[-2] if len(self._samples) > 1 else None
        if earlier is not None and seen.at_s - earlier.at_s <= each_s * (1 + _NEARLY):
            together = _units_since(earlier, seen.at_s, vm, cpu_s)
            units = np.where(np.isnan(together), units, together)
            self._samples.pop()
        used = np.stack([units, use.used_mib[known]], axis=1)
        self._samples.append(_Sample(seen.at_s, vm, host[known], there, cpu_s, used))

    def to_store(self) -> dict[float, Arrays]:
        """Return the samples by their times, as `restore` takes them."""
        return {
            sample.at_s: {
                "vm": sample.vm,
                "host": sample.host,
                "there": sample.there,
                "cpu_s": sample.cpu_s,
                "used": sample.used,
            }
            for sample in self._samples
        }

    def restore(self, stored: Mapping[float, Arrays], now_s: float, each_s: float) -> None:
        """Begin with the samples of an earlier daemon, unless they are too old or in the future."""
        if self._samples or not stored:
            return
        if not 0.0 <= now_s - max(stored) <= SAMPLES * each_s:
            return
        newest = sorted(stored)[-(self._samples.maxlen or SAMPLES) :]
        self._samples.extend(_Sample(at_s=at_s, **stored[at_s]) for at_s in newest)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was observed yet."""
        return not self._samples

    def history(self, seen: Observation, resources: tuple[str, ...]) -> UsageHistory | None:
        """Return the history by the rows of an observation; None before the first one."""
        samples = tuple(self._samples)
        if not samples:
            return None
        columns = [resources.index(name) for name in (CPU, MEMORY)]
        vms = np.full((len(samples), len(seen.vm_id), len(resources)), np.nan)
        hosts = np.full((len(samples), len(seen.host_id), len(resources)), np.nan)
        for row, sample in enumerate(samples):
            on = rows_of(seen.host_id, sample.host)
            there = is_one_of(seen.host_id, sample.there)
            for kind, column in enumerate(columns):
                used = sample.used[:, kind]
                vms[row, :, column] = values_of(sample.vm, used, seen.vm_id, np.nan)
                counts = (on != NO_HOST) & ~np.isnan(used)
                sums = np.bincount(on[counts], used[counts], len(seen.host_id))
                silent = np.bincount(on[on != NO_HOST], minlength=len(seen.host_id)) > 0
                silent &= np.bincount(on[counts], minlength=len(seen.host_id)) == 0
                hosts[row, :, column] = np.where(there & ~silent, sums, np.nan)
        return UsageHistory(np.array([sample.at_s for sample in samples]), vms, hosts)
