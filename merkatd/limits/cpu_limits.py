"""CPU shares to quotas and weights, for control groups and Xen.

A quota is always set, and it is the share: nobody gets more than the market gave, whether
or not the rest of the host is idle. A VM that was given its full size gets a quota of its
full size, which stops nothing.

A hypervisor has threads beside a VM's virtual CPUs: its emulator's, and those for disks. They work
for the guest, so the whole of a VM has a quota too, where its virtual CPUs have one each: the sum
of theirs and a twentieth (HELPERS_PART). The helpers may use all that the virtual CPUs leave, and
have that part where the virtual CPUs leave nothing: a host talks to its guests through these
threads. A twentieth of a small share is too little for that: each question to the guest then takes
half a second. The helpers therefore have at least HELPERS_LEAST, which is far from unlimited.

Quotas are rounded down to whole microseconds. libvirt takes none below LEAST_QUOTA_US: a
smaller share, even none at all, is lifted to that, so a VM always runs a little. The quota for the
whole of a VM comes from its share, and is lifted once: the number of its virtual CPUs, which its
owner chooses, buys it nothing. Those are lifted one by one, but together they have no more than the
whole. So the quotas of a host can exceed its shares by at most LEAST_QUOTA_US and what the helpers
have, for each VM.

Version 1 takes 2 to 262,144, version 2 takes 1 to 10,000. What both take is enough: quotas
decide who gets how much, weights only who gets it first.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Limit, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.limits import limit_reasons
from merkatd.limits.enforced_limits import CPU, UNSET, EnforcedLimits
from merkatd.limits.occupancy import Occupancy
from merkatd.limits.settings import CpuSettings

UNITS_PER_CORE = 100
LEAST_QUOTA_US = 1_000
HELPERS_PART = 20
"""The threads beside the virtual CPUs have at least one part in so many of what these have,"""
HELPERS_LEAST = 50
"""and one part in so many of a core."""
_ROUNDING_US = 1e-6


@dataclass(frozen=True, slots=True)
class Weights:
    """The range in which a scheduler takes weights."""

    least: int
    greatest: int


CGROUP_V1 = Weights(2, 262_144)


class Quotas(NamedTuple):
    """[vms]; UNSET for none."""

    vcpu_us: Ints
    """For each virtual CPU; none where the VM is pinned."""
    global_us: Ints
    """For the whole VM, with the threads beside its virtual CPUs."""

    def units(self, vcpus: Ints, period_us: int) -> Floats:
        """What the quotas let each VM use, in percent of a core; infinite without any."""
        per_us = UNITS_PER_CORE / period_us
        by_vcpu = np.where(self.vcpu_us > 0, self.vcpu_us * np.maximum(vcpus, 1) * per_us, np.inf)
        as_whole = np.where(self.global_us > 0, self.global_us * per_us, np.inf)
        return np.minimum(by_vcpu, as_whole)


def quotas(share: Floats, vcpus: Ints, pinned: Bools, period_us: int) -> Quotas:
    """Each VM's share, for each of its virtual CPUs, or for the whole VM where it is pinned.

    Virtual CPUs of one VM pinned to cores of different load can't each use an equal part;
    together they can use the whole.
    """
    count = np.maximum(vcpus, 1)
    whole = np.maximum(share, 0.0) * (period_us / UNITS_PER_CORE)
    for_vcpu = np.minimum(np.floor(whole / count + _ROUNDING_US), period_us)
    for_all = np.minimum(np.floor(whole + _ROUNDING_US), period_us * count)
    vcpu_us = np.maximum(for_vcpu, LEAST_QUOTA_US).astype(np.int64)
    whole_us = np.maximum(for_all, LEAST_QUOTA_US).astype(np.int64)
    return Quotas(
        vcpu_us=np.where(pinned, UNSET, vcpu_us),
        global_us=np.where(pinned, whole_us, _with_helpers(whole_us, period_us)),
    )


def _with_helpers(whole_us: Ints, period_us: int) -> Ints:
    """The quota for the whole of VMs whose virtual CPUs may use so much together."""
    whole: Ints = whole_us + np.maximum(whole_us // HELPERS_PART, period_us // HELPERS_LEAST)
    return whole


def whole_quota(vcpu_us: int, vcpus: int, period_us: int) -> int:
    """Return the quota for the whole of a VM whose virtual CPUs have such a quota each."""
    return int(_with_helpers(np.array(vcpu_us * vcpus), period_us))


def weights(bid: Floats, host: Ints, hosts: int, allowed: Weights = CGROUP_V1) -> Ints:
    """[vms]: proportional to the bids of one host, as far as the range allows.

    The highest bid of a host gets the greatest weight and who bids nothing the least, so
    that only the proportions of the bids count. VMs that are nowhere get the least too.
    """
    here = host != NOWHERE
    highest = np.zeros(hosts)
    np.maximum.at(highest, host[here], bid[here])
    of_host = np.where(here, highest[host] if hosts else 0.0, 0.0)
    part = np.divide(bid, of_host, out=np.zeros_like(bid), where=of_host > 0)
    weight: Ints = np.rint(part * allowed.greatest).astype(np.int64)
    return np.maximum(weight, allowed.least)


class DueCpuLimit(NamedTuple):
    """[vms]: what in force is too far from what is wanted."""

    quota: Bools
    weight: Bools


def differs(
    wanted: Quotas, weight: Ints, vcpus: Ints, in_force: EnforcedLimits, settings: CpuSettings
) -> DueCpuLimit:
    """Which limits have to be set; those inside the settings' bands stay."""
    now = Quotas(in_force.vcpu_quota_us, in_force.global_quota_us)
    other_way = ((wanted.vcpu_us > 0) != (now.vcpu_us > 0)) | (
        (wanted.global_us > 0) != (now.global_us > 0)
    )
    per_us = UNITS_PER_CORE / settings.quota_period_us
    far = np.zeros(len(vcpus), dtype=bool)
    for there, aim, count in (
        (now.vcpu_us, wanted.vcpu_us, np.maximum(vcpus, 1)),
        (now.global_us, wanted.global_us, np.ones_like(vcpus)),
    ):
        units = aim * count * per_us
        band = np.maximum(settings.band_units, settings.band_part * units)
        far |= (aim > 0) & (np.abs(there * count * per_us - units) > band)
    return DueCpuLimit(
        quota=other_way | far,
        weight=np.abs(weight - in_force.shares) > settings.weight_band_part * weight,
    )


CGROUP = Weights(2, 10_000)


def to_cgroup(shares: int) -> int:
    """A step's weight as a control group of any version takes it."""
    weight = round(shares * CGROUP.greatest / CGROUP_V1.greatest)
    return min(max(weight, CGROUP.least), CGROUP.greatest)


def from_cgroup(weight: int) -> int:
    """The other way round, for weights that somebody else has set."""
    return round(weight * CGROUP_V1.greatest / CGROUP.greatest)


def limit_steps(
    snapshot: Snapshot,
    scene: Occupancy,
    share: Floats,
    pinned: AbstractSet[int],
    in_force: EnforcedLimits,
    settings: CpuSettings,
) -> Iterator[Limit]:
    """Where the quota or the weight is off; after the step that brings a VM, in any case.

    `share` is in percent of a core, for each VM; `pinned` are the rows of VMs that are pinned
    once all steps are taken.
    """
    vms, hosts = snapshot.vms, len(snapshot.hosts)
    bids_here = scene.bidding & (vms.market != NOWHERE) & (scene.then != NOWHERE)
    bid = np.where(bids_here, vms.bid[:, snapshot.resources.index(CPU)], 0.0)
    bids = np.bincount(scene.then[bids_here], bid[bids_here], hosts)
    whole = in_force.pin_policy | _marked(pinned, len(vms))
    quota = quotas(share, vms.vcpus, whole, settings.quota_period_us)
    weight = weights(bid, scene.then, hosts)
    due = differs(quota, weight, vms.vcpus, in_force, settings)
    arrives = _marked(scene.arrival.keys(), len(vms))
    for row in np.flatnonzero(scene.told & (due.quota | due.weight | arrives)).tolist():
        host = int(scene.then[row])
        arrival = scene.arrival.get(row)
        yield Limit(
            period=snapshot.period,
            vm=int(vms.id[row]),
            vcpu_quota_us=_or_none(quota.vcpu_us, row),
            global_quota_us=_or_none(quota.global_us, row),
            quota_period_us=settings.quota_period_us,
            shares=int(weight[row]),
            after=(arrival.id,) if arrival else (),
            reason=limit_reasons.why_limit(
                snapshot,
                row,
                host,
                float(share[row]),
                float(bids[host]),
                only_weight=not (due.quota[row] or arrival),
            ),
        )


def _marked(rows: AbstractSet[int], count: int) -> Bools:
    marked = np.zeros(count, dtype=bool)
    marked[np.fromiter(rows, dtype=np.int64, count=len(rows))] = True
    return marked


def _or_none(quota_us: Ints, row: int) -> int | None:
    """None where the VM has no quota of this kind."""
    return int(quota_us[row]) if quota_us[row] > 0 else None


XEN = Weights(1, 65_535)
NO_CAP = 0


class Credit(NamedTuple):
    """The scheduler parameters of one domain."""

    weight: int
    cap: int
    """For the whole VM, in percent of a core; NO_CAP lets it use all its virtual CPUs."""


def credit(limit: Limit, vcpus: int) -> Credit:
    """Weight and cap of a limit.

    A cap is rounded to the nearest percent, so it is at most half a unit above the share; it
    is at least 1, as 0 would set the VM free, and at most all its virtual CPUs, as Xen
    refuses more.
    """
    weight = round(limit.shares * XEN.greatest / CGROUP_V1.greatest)
    return Credit(min(max(weight, XEN.least), XEN.greatest), _cap(limit, max(vcpus, 1)))


def _cap(limit: Limit, vcpus: int) -> int:
    quotas_us = []
    if limit.vcpu_quota_us is not None:
        quotas_us.append(limit.vcpu_quota_us * vcpus)
    if limit.global_quota_us is not None:
        quotas_us.append(limit.global_quota_us)
    if not quotas_us:
        return NO_CAP
    units = round(min(quotas_us) * UNITS_PER_CORE / limit.quota_period_us)
    return min(max(units, 1), UNITS_PER_CORE * vcpus)
