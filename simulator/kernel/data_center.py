"""Data centres: hosts of any sizes in a tree, their failures and prices, and when they decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from merkatd.cluster import FailureRates, Floats, Hosts, HostState, Ints
from merkatd.cluster.columns import no_rows
from simulator.model.load_triggers import TriggerLimits
from simulator.model.simulated_cloud import OperationCosts

HOST_UNIT = "host"
"""The kind of failures of single hosts, as in `FailureRates`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The prices of what a data centre spends."""

    energy_kwh: float = 0.0
    moved_gib: float = 0.0
    """Price of a GiB that migrations send through the network."""
    violation_vm_h: float = 0.0
    """Penalty for an hour in which a VM lacks a part of its demand."""
    fixed_h: float = 0.0
    """Cost of an hour of the data centre, whatever runs there."""
    core_h: float = 0.0
    """What tenants pay for an hour of a core of a VM that runs."""
    memory_gib_h: float = 0.0
    """What tenants pay for an hour of a GiB of memory of a VM that runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRhythm:
    """The times at which a data centre is monitored and decided about."""

    period_s: float = 60.0
    monitor_s: float = 60.0
    decide_at_events: bool = False
    """Whether a decision also follows each moment at which VMs arrive or room becomes free."""
    whole_plans: bool = False
    """Whether a step that must come after an operation begins as soon as that has ended, instead of
    in the next period, which decides again."""
    patience_s: float = np.inf
    """The time after which a request that never got a host is rejected."""

    def __post_init__(self) -> None:
        for name in ("period_s", "monitor_s", "patience_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be greater than 0 (got {getattr(self, name)})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCenter:
    """What the kernel simulates, besides the VMs."""

    hosts: Hosts
    costs: OperationCosts = field(default_factory=OperationCosts)
    rates: FailureRates = field(default_factory=lambda: no_rows(FailureRates))
    """Failures a year of a host, and of a domain of each kind."""
    repair_s: Mapping[str, float] = field(default_factory=dict)
    """Mean time to repair by kind; an hour for other kinds."""
    wake_s: float = 60.0
    """The time from the order to wake a host until it takes VMs."""
    asleep_watts: float = 0.0
    """The power of a host that sleeps."""
    migrating_part: float = 0.5
    """The part of a host's link that a migration uses (Paper IV: less than 1)."""
    tariff: Tariff = field(default_factory=Tariff)
    triggers: TriggerLimits = field(default_factory=TriggerLimits)
    rhythm: KernelRhythm = field(default_factory=KernelRhythm)

    def __post_init__(self) -> None:
        if not 0 < self.migrating_part <= 1:
            raise ValueError(
                f"migrating_part: must be above 0 and at most 1 (got {self.migrating_part})"
            )
        known = {HOST_UNIT, *self.hosts.domains}
        for name, kinds in (("rates", self.rates.kind), ("repair_s", tuple(self.repair_s))):
            for kind in kinds:
                if kind not in known:
                    accepted = ", ".join(sorted(known))
                    raise ValueError(f"{name}: unknown kind {kind!r}, expected one of {accepted}")


def tree_of_hosts(
    branches: Sequence[int], capacity: Sequence[float] | Floats, **columns: Any
) -> Hosts:
    """Return equal or different hosts as the leaves of a tree.

    `branches` has the number of branches of a node at each level: (2, 32, 1024) are two clusters of
    32 groups of 1,024 hosts. `capacity` is that of every host, or [hosts, resources]. Other columns
    of `Hosts` may be given, such as `link_mbps` and `idle_watts`; one number holds for all hosts.
    """
    if not branches or min(branches) < 1:
        raise ValueError(f"branches: must be numbers of at least 1 (got {tuple(branches)})")
    count = prod(branches)
    at = np.arange(count)
    spans = [prod(branches[level + 1 :]) for level in range(len(branches) - 1)]
    levels = [at // span for span in spans]
    wide = np.broadcast_to(np.asarray(capacity, dtype=float), (count, np.shape(capacity)[-1]))
    given: dict[str, Any] = {
        name: np.full(count, value) if isinstance(value, int | float) else value
        for name, value in columns.items()
    }
    usual: dict[str, Any] = {
        "id": at,
        "name": tuple(f"host{row}" for row in range(count)),
        "state": np.full(count, int(HostState.ON)),
        "market": np.zeros(count, dtype=np.int64),
        "capacity": wide.copy(),
        "used": np.full(wide.shape, np.nan),
        "domains": {},
        "topology": np.stack(levels, axis=1) if levels else np.zeros((count, 0), dtype=int),
        "link_mbps": np.full(count, np.nan),
        "idle_watts": np.zeros(count),
        "full_watts": np.zeros(count),
    }
    return Hosts(**(usual | given))


def equal_domains(hosts: int, domains: int, *, redundant: bool = False) -> Ints:
    """Return [hosts, 2]: the domain of each host, and the redundant one or -1.

    Hosts in a row share a domain; the next domain is the redundant one.
    """
    if not 1 <= domains <= max(hosts, 1):
        raise ValueError(f"domains: must be from 1 to {max(hosts, 1)} (got {domains})")
    first = np.arange(hosts) * domains // max(hosts, 1)
    second = (first + 1) % domains if redundant and domains > 1 else np.full(hosts, -1)
    return np.stack([first, second], axis=1)


def distances(topology: Ints, sources: Ints, hosts: Ints) -> Ints:
    """Return the levels that a message from each source to each host climbs in the tree.

    1 within a group, and one more for each wider level at which both differ (Paper IV, 4.3.1).
    """
    if topology.shape[1] == 0:
        return np.ones(len(sources), dtype=np.int64)
    differs = topology[sources] != topology[hosts]
    climbed: Ints = 1 + np.where(differs.any(axis=1), differs.shape[1] - differs.argmax(axis=1), 0)
    return climbed
