"""Traits of hosts that administrators describe, and the failures to expect of hosts and domains."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from merkatd.cluster import Bools, FailureRates, Floats, Ints

NETWORK, POWER = "network", "power"
"""The kinds of failure domains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSettings:
    """The failures to expect in a year, for strategies that spread VMs over failure domains.

    OpenNebula does not know them: the defaults are assumptions to replace with a site's own counts.
    """

    host_per_year: float = 0.5
    """Failures of a host a year: times that its VMs end because of the host alone."""
    network_per_year: float = 0.2
    """Failures of a network domain a year, such as a switch (MERKAT_NETWORK_DOMAIN)."""
    power_per_year: float = 0.1
    """Failures of a power domain a year, such as a feed (MERKAT_POWER_DOMAIN)."""

    def rates(self) -> FailureRates:
        """Return the rates as a table of a snapshot."""
        return FailureRates(
            kind=("host", NETWORK, POWER),
            per_year=np.array([self.host_per_year, self.network_per_year, self.power_per_year]),
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HostTraits:
    """The traits of hosts by their templates; rows are those of the observation."""

    domains: Mapping[str, Ints]
    """[hosts, 2] by kind: the domain and the redundant domain, -1 for none. No kind that no host
    names."""
    topology: Ints
    """[hosts, levels]: the place of each host, from the widest level to the narrowest."""
    link_mbit_s: Floats
    """The speed of each host's link, NaN if its template states none."""
    idle_watts: Floats
    full_watts: Floats
    """The power at no load and at full load, NaN if it is unknown."""
    can_sleep: Bools
    """Whether the daemon can switch the host off and on."""
    asleep: Bools
    """Whether it has switched the host off."""
    problems: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By host id: the mistakes in its attributes, which have no effect."""
