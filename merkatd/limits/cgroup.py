"""Weights for control groups of either version, which libvirt takes under one name.

Version 1 takes 2 to 262,144, version 2 takes 1 to 10,000. What both take is enough: quotas
decide who gets how much, weights only who gets it first.
"""

from merkatd.limits.cpu import CGROUP_V1, Weights

CGROUP = Weights(2, 10_000)


def to_cgroup(shares: int) -> int:
    """A step's weight as a control group of any version takes it."""
    weight = round(shares * CGROUP.greatest / CGROUP_V1.greatest)
    return min(max(weight, CGROUP.least), CGROUP.greatest)


def from_cgroup(weight: int) -> int:
    """The other way round, for weights that somebody else has set."""
    return round(weight * CGROUP_V1.greatest / CGROUP.greatest)
