"""From shares to what a host is told: quotas, weights, pins and balloons.

Pure functions on values: nothing here speaks to a host. `decide` does it for a whole
cloud; the parts it is made of are one module each.
"""

from merkatd.limits.cpu import CGROUP_V1, LEAST_QUOTA_US, Quotas, Weights, quotas, weights
from merkatd.limits.decide import Limits, decide
from merkatd.limits.in_force import UNSET, Cores, InForce
from merkatd.limits.pins import pins
from merkatd.limits.settings import CpuSettings, LimitsSettings, MemorySettings, PinSettings
from merkatd.limits.topology import Pinned, Topology
from merkatd.limits.xen import NO_CAP, XEN, Credit, credit

__all__ = [
    "CGROUP_V1",
    "LEAST_QUOTA_US",
    "NO_CAP",
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
    "pins",
    "quotas",
    "weights",
]
