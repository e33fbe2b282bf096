"""The same CPU decision in the words of Xen's credit scheduler: a weight and a cap."""

from typing import NamedTuple

from merkatd.cluster import Limit
from merkatd.limits.cpu import CGROUP_V1, UNITS_PER_CORE, Weights

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
