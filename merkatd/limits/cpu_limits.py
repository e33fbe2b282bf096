"""CPU limits: quotas and weights from CPU shares, for control groups and Xen.

Every VM has a quota, and the quota equals the share: no VM gets more than its allocation, even if
the rest of the host is idle. A VM with its full size as share gets a quota of its full size, which
limits nothing.

# Note [Quotas of helper threads]

A hypervisor has helper threads beside a VM's virtual CPUs: the emulator's, and those for disks.
They work for the guest. So a VM whose virtual CPUs have quotas also has a quota as a whole: the sum
of these and a twentieth (HELPERS_PART). The helpers may use all that the virtual CPUs leave, and at
least that part: a host talks to its guests through these threads. A twentieth of a small share is
too little: each request to the guest then takes half a second. So the helpers have at least
HELPERS_LEAST, which is still a tight limit. Example: a share of 50 % of a core for two virtual CPUs
gives 25,000 us of 100,000 us to each, and 52,500 us to the whole VM.

Quotas are rounded down to whole microseconds. libvirt rejects quotas below LEAST_QUOTA_US: a
smaller share, even 0, is raised to that, so a VM always runs a little. The quota of a whole VM
follows from its share, and is raised once: its owner gains nothing by more virtual CPUs. Quotas of
virtual CPUs are raised one by one, but the quota of the whole VM limits their sum. So for each VM
the quotas of a host can exceed its shares by at most LEAST_QUOTA_US and the helpers' part.

Control groups of version 1 accept weights from 2 to 262,144, version 2 from 1 to 10,000. The common
range is enough: quotas decide how much a VM gets, weights only which VM gets it first.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Limit, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_MARKET
from merkatd.limits import limit_reasons
from merkatd.limits.enforced_limits import CPU, UNSET, EnforcedLimits
from merkatd.limits.occupancy import Occupancy
from merkatd.limits.settings import CpuSettings

UNITS_PER_CORE = 100
LEAST_QUOTA_US = 1_000
HELPERS_PART = 20
"""Divisor of the virtual CPUs' quota that gives the helpers' least quota."""
HELPERS_LEAST = 50
"""Divisor of a whole core that gives the helpers' least quota; the larger of the two counts."""
_ROUNDING_US = 1e-6


@dataclass(frozen=True, slots=True)
class Weights:
    """The range of weights that a scheduler accepts."""

    least: int
    greatest: int


CGROUP_V1 = Weights(2, 262_144)


class Quotas(NamedTuple):
    """Quotas of VMs, [vms]; UNSET for none."""

    vcpu_us: Ints
    """Quota of each virtual CPU; UNSET if the VM is pinned."""
    global_us: Ints
    """Quota of the whole VM, including its helper threads."""

    def units(self, vcpus: Ints, period_us: int) -> Floats:
        """Return the CPU that the quotas allow each VM, in percent of a core; infinite if unset."""
        per_us = UNITS_PER_CORE / period_us
        by_vcpu = np.where(self.vcpu_us > 0, self.vcpu_us * np.maximum(vcpus, 1) * per_us, np.inf)
        as_whole = np.where(self.global_us > 0, self.global_us * per_us, np.inf)
        return np.minimum(by_vcpu, as_whole)


def quotas(share: Floats, vcpus: Ints, pinned: Bools, period_us: int) -> Quotas:
    """Return the quotas that equal the shares, per virtual CPU, or per VM if it is pinned.

    Virtual CPUs of a VM that are pinned to cores of different load can't each use an equal part,
    but together they can use the whole share.
    """
    count = np.maximum(vcpus, 1)
    quota_us = np.maximum(share, 0.0) * (period_us / UNITS_PER_CORE)
    for_vcpu = np.minimum(np.floor(quota_us / count + _ROUNDING_US), period_us)
    for_all = np.minimum(np.floor(quota_us + _ROUNDING_US), period_us * count)
    vcpu_us = np.maximum(for_vcpu, LEAST_QUOTA_US).astype(np.int64)
    whole_us = np.maximum(for_all, LEAST_QUOTA_US).astype(np.int64)
    return Quotas(
        vcpu_us=np.where(pinned, UNSET, vcpu_us),
        global_us=np.where(pinned, whole_us, _with_helpers(whole_us, period_us)),
    )


def quotas_in_force(in_force: EnforcedLimits, vcpus: Ints, settings: CpuSettings) -> Floats:
    """Return [vms]: the CPU that quotas allow guests now, in percent of a core; NaN without one.

    The part of helper threads does not count.
    """
    now = Quotas(in_force.vcpu_quota_us, in_force.global_quota_us)
    units = np.minimum(now.units(vcpus, settings.quota_period_us), vcpus * float(UNITS_PER_CORE))
    return np.where((now.vcpu_us > 0) | (now.global_us > 0), units, np.nan)


def least_units(vcpus: Ints, settings: CpuSettings) -> Floats:
    """Return [vms]: the least quota that a host accepts, in percent of a core."""
    units: Floats = np.multiply(vcpus, LEAST_QUOTA_US * UNITS_PER_CORE / settings.quota_period_us)
    return units


def unchanged_units(quota: Floats, settings: CpuSettings) -> Floats:
    """Return [vms]: the difference of a quota that needs no step, in percent of a core."""
    band: Floats = np.maximum(settings.band_units, settings.band_part * quota)
    return band


def _with_helpers(whole_us: Ints, period_us: int) -> Ints:
    """Return the quotas of whole VMs: the sum over their virtual CPUs plus the helpers' part."""
    with_helpers: Ints = whole_us + np.maximum(whole_us // HELPERS_PART, period_us // HELPERS_LEAST)
    return with_helpers


def whole_quota(vcpu_us: int, vcpus: int, period_us: int) -> int:
    """Return the quota of a whole VM whose virtual CPUs have this quota each."""
    return int(_with_helpers(np.array(vcpu_us * vcpus), period_us))


def weights(bid: Floats, host: Ints, hosts: int, allowed: Weights = CGROUP_V1) -> Ints:
    """Return [vms]: weights proportional to the bids on a host, as far as the range allows.

    The highest bid of a host gets the greatest weight, so only the proportions of bids count. VMs
    without a bid or without a host get the least weight.
    """
    here = host != NO_HOST
    highest = np.zeros(hosts)
    np.maximum.at(highest, host[here], bid[here])
    of_host = np.where(here, highest[host] if hosts else 0.0, 0.0)
    part = np.divide(bid, of_host, out=np.zeros_like(bid), where=of_host > 0)
    weight: Ints = np.rint(part * allowed.greatest).astype(np.int64)
    return np.maximum(weight, allowed.least)


class DueCpuLimit(NamedTuple):
    """Limits that differ too much from the wanted ones, [vms]."""

    quota: Bools
    weight: Bools


def differs(
    wanted: Quotas, weight: Ints, vcpus: Ints, in_force: EnforcedLimits, settings: CpuSettings
) -> DueCpuLimit:
    """Return the limits that need a step; limits inside the settings' bands stay."""
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
    """Return a step's weight in the range that control groups of both versions accept."""
    weight = round(shares * CGROUP.greatest / CGROUP_V1.greatest)
    return min(max(weight, CGROUP.least), CGROUP.greatest)


def from_cgroup(weight: int) -> int:
    """Return the step's weight for a control group's weight, the inverse of `to_cgroup`."""
    return round(weight * CGROUP_V1.greatest / CGROUP.greatest)


def limit_steps(
    snapshot: Snapshot,
    occupancy: Occupancy,
    share: Floats,
    pinned: AbstractSet[int],
    in_force: EnforcedLimits,
    settings: CpuSettings,
) -> Iterator[Limit]:
    """Yield a step for each VM whose quota or weight differs, and for each VM that arrives.

    `share` is [vms], in percent of a core; `pinned` has the rows of VMs that are pinned after all
    steps. Steps of arriving VMs come after the step that brings the VM.
    """
    vms, hosts = snapshot.vms, len(snapshot.hosts)
    bids_here = occupancy.bidding & (vms.market != NO_MARKET) & (occupancy.then != NO_HOST)
    bid = np.where(bids_here, vms.bid[:, snapshot.resources.index(CPU)], 0.0)
    bids = np.bincount(occupancy.then[bids_here], bid[bids_here], hosts)
    pinned_vms = in_force.pin_policy | _marked(pinned, len(vms))
    quota = quotas(share, vms.vcpus, pinned_vms, settings.quota_period_us)
    weight = weights(bid, occupancy.then, hosts)
    due = differs(quota, weight, vms.vcpus, in_force, settings)
    arrives = _marked(occupancy.arrival.keys(), len(vms))
    for row in np.flatnonzero(occupancy.limited & (due.quota | due.weight | arrives)).tolist():
        host = int(occupancy.then[row])
        arrival = occupancy.arrival.get(row)
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
    """Return the VM's quota; None if it has none of this kind."""
    return int(quota_us[row]) if quota_us[row] > 0 else None


XEN = Weights(1, 65_535)
NO_CAP = 0


class Credit(NamedTuple):
    """The scheduler parameters of one domain."""

    weight: int
    cap: int
    """Limit of the whole VM, in percent of a core; NO_CAP for no limit."""


def credit(limit: Limit, vcpus: int) -> Credit:
    """Return the weight and the cap of a limit.

    A cap is rounded to the nearest percent, so it is at most half a unit above the share. It is at
    least 1, as 0 means no limit, and at most all virtual CPUs, as Xen rejects more.
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
