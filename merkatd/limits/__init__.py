"""From shares to what a host is told: quotas, weights, pins, balloons, network and disk limits.

Pure functions on values: nothing here speaks to a host. `decide` does it for a whole
cloud; the parts it is made of are one module each.
"""

from merkatd.limits.cgroup import CGROUP, from_cgroup, to_cgroup
from merkatd.limits.cpu import (
    CGROUP_V1,
    LEAST_QUOTA_US,
    Quotas,
    Weights,
    quotas,
    weights,
    whole_quota,
)
from merkatd.limits.decide import Limits, decide
from merkatd.limits.in_force import BEYOND, UNSET, Cores, InForce
from merkatd.limits.pins import pins
from merkatd.limits.settings import CpuSettings, LimitsSettings, MemorySettings, PinSettings
from merkatd.limits.throttle import PER_UNIT
from merkatd.limits.topology import Pinned, Topology
from merkatd.limits.xen import NO_CAP, XEN, Credit, credit

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
