"""Limits on hosts that enforce shares: quotas, weights, pins, balloons, network and disk limits.

Pure functions on values, without access to hosts. `plan_limits` plans all limits of a cloud; each
kind of limit has a module of its own.
"""

from merkatd.limits.core_assignment import assign_cores
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
from merkatd.limits.enforced_limits import BEYOND, UNSET, Cores, EnforcedLimits, Pinned, Topology
from merkatd.limits.io_limits import PER_UNIT
from merkatd.limits.limit_plan import LimitPlan, plan_limits
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
    "EnforcedLimits",
    "LimitPlan",
    "LimitsSettings",
    "MemorySettings",
    "PinSettings",
    "Pinned",
    "Quotas",
    "Topology",
    "Weights",
    "assign_cores",
    "credit",
    "from_cgroup",
    "plan_limits",
    "quotas",
    "to_cgroup",
    "weights",
    "whole_quota",
]
