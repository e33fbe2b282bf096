"""From shares to what a host is told: quotas, weights, pins, balloons, network and disk limits.

Pure functions on values: nothing here speaks to a host. `decide` does it for a whole
cloud; the parts it is made of are one module each.
"""

from merkatd.limits.core_assignment import pins
from merkatd.limits.cpu_limits import (
    CGROUP,
    CGROUP_V1,
    LEAST_QUOTA_US,
    NO_CAP,
    XEN,
    Credit,
    Quotas,
    Weights,
    credit,
    from_cgroup,
    quotas,
    to_cgroup,
    weights,
    whole_quota,
)
from merkatd.limits.enforced_limits import BEYOND, UNSET, Cores, InForce, Pinned, Topology
from merkatd.limits.io_limits import PER_UNIT
from merkatd.limits.limit_plan import Limits, decide
from merkatd.limits.settings import CpuSettings, LimitsSettings, MemorySettings, PinSettings

__all__ = [
    "BEYOND",
    "CGROUP",
    "CGROUP_V1",
    "LEAST_QUOTA_US",
    "NO_CAP",
    "PER_UNIT",
    "UNSET",
    "XEN",
    "Cores",
    "CpuSettings",
    "Credit",
    "InForce",
    "Limits",
    "LimitsSettings",
    "MemorySettings",
    "PinSettings",
    "Pinned",
    "Quotas",
    "Topology",
    "Weights",
    "credit",
    "decide",
    "from_cgroup",
    "pins",
    "quotas",
    "to_cgroup",
    "weights",
    "whole_quota",
]
