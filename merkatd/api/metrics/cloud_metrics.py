"""Metrics of the cloud after the last period, in base units.

Groups are OpenNebula's groups of users, made by administrators: as many as projects or
departments, but far fewer than users or VMs.

The number of labels is bounded: markets, resources and states, but never VMs, tenants or hosts,
which can be a hundred thousand.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from prometheus_client.core import GaugeMetricFamily

from merkatd.cluster import Floats, HostState, Ints, Snapshot, VmState
from merkatd.cluster.columns import values_of
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.announce import Announcement


@dataclass(frozen=True, slots=True)
class MetricUnit:
    """The base unit of a resource."""

    name: str
    """The end of the metrics' names."""
    scale: float
    """The number of base units in a unit of the code."""


UNITS = {
    "cpu": MetricUnit("cores", 0.01),
    "memory": MetricUnit("bytes", float(1 << 20)),
    "network": MetricUnit("bytes_per_second", 125_000.0),
    "disk": MetricUnit("bytes_per_second", float(1 << 20)),
}
"""Base units by resource; the units of the code are percent of a core, MiB, Mbit/s and MiB/s."""


def by_group(announcement: Announcement) -> Iterator[GaugeMetricFamily]:
    """Yield the VMs, bids, allocations and costs of each group that has VMs."""
    seen, decision = announcement.seen, announcement.decided.decision
    vms = seen.snapshot.vms
    groups, owner = np.unique(_group_of(seen), return_inverse=True)
    known = seen.observation.group_name
    names = [known.get(group, str(group)) for group in groups.tolist()]
    counts = GaugeMetricFamily(
        "merkat_group_vms", "VMs of a group, by state", labels=("group", "state")
    )
    for state in VmState:
        held = np.bincount(owner[vms.state == state], minlength=len(groups))
        for name, count in zip(names, held.tolist(), strict=True):
            counts.add_metric((name, state.name.lower()), count)
    yield counts
    for number, resource in enumerate(seen.snapshot.resources):
        unit = UNITS[resource]
        amount = decision.allocations[:, number] * unit.scale
        yield _summed(
            f"merkat_group_{resource}_allocated_{unit.name}",
            "Resources allocated to the VMs of a group",
            names,
            owner,
            amount,
        )
    yield _summed(
        "merkat_group_bids_credits",
        "All bids of a group, in credits a period",
        names,
        owner,
        vms.bid.sum(axis=1),
    )
    price = np.zeros_like(decision.allocations)
    priced = vms.market >= 0
    price[priced] = np.nan_to_num(decision.prices[vms.market[priced]], posinf=0.0)
    yield _summed(
        "merkat_group_cost_credits",
        "Cost of a group's allocations for a whole period at the announced prices",
        names,
        owner,
        (decision.allocations * price).sum(axis=1),
    )


def _group_of(observed: Observed) -> Ints:
    """Return the group of each VM by row of the snapshot; -1 if it is unknown."""
    ids, groups = observed.observation.vm_id, observed.observation.vm_group
    group_of_vm: Ints = values_of(ids, groups, observed.snapshot.vms.id, -1)
    return group_of_vm


def _summed(
    name: str, help_text: str, names: list[str], owner: Ints, amount: Floats
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=("group",))
    sums = np.bincount(owner, weights=amount, minlength=len(names))
    for group, value in zip(names, sums.tolist(), strict=True):
        family.add_metric((group,), value)
    return family


Families = Iterator[GaugeMetricFamily]


def families(announcement: Announcement) -> Families:
    """Yield the metrics of the cloud after a period."""
    snapshot = announcement.seen.snapshot
    yield from _prices(announcement)
    yield from _goods(snapshot, announcement.decided.decision.allocations)
    yield _counted("merkat_hosts", "Hosts by state", snapshot.hosts.state, HostState)
    yield _counted("merkat_vms", "VMs by state", snapshot.vms.state, VmState)
    yield from _limit_orders(announcement)
    ailing = len(announcement.seen.observation.ailing)
    yield GaugeMetricFamily(
        "merkat_vms_unreadable",
        "VMs with unreadable data, which the daemon does not manage",
        ailing,
    )
    yield GaugeMetricFamily(
        "merkat_hosts_away",
        "Hosts that do not answer; their VMs keep their last limits",
        len(announcement.seen.use.away),
    )
    yield GaugeMetricFamily(
        "merkat_steps_outstanding",
        "Steps that were sent and whose outcome is not known yet",
        len(announcement.seen.verdicts.waiting),
    )


def _limit_orders(announcement: Announcement) -> Families:
    """Yield the number of limit orders by state, and their costs."""
    outcomes = announcement.decided.decision.orders
    stated = announcement.seen.snapshot.orders.id.tolist()
    run = sum(outcome.runs for outcome in outcomes.values())
    family = GaugeMetricFamily(
        "merkat_limit_orders",
        "Limit orders by state; an idle one has no VM that runs or waits in a market with orders",
        labels=("state",),
    )
    states = {"runs": run, "waits": len(outcomes) - run, "idle": len(stated) - len(outcomes)}
    for state, count in states.items():
        family.add_metric((state,), count)
    yield family
    yield GaugeMetricFamily(
        "merkat_limit_orders_cost_credits",
        "Credits a period that all limit orders pay together",
        sum(outcome.cost or 0.0 for outcome in outcomes.values()),
    )


def _prices(announcement: Announcement) -> Families:
    family = GaugeMetricFamily(
        "merkat_price_credits",
        "Credits for a unit of a resource (1 % of a core, 1 MiB, 1 Mbit/s, 1 MiB/s) and period",
        labels=("market", "resource"),
    )
    for market, prices in announcement.prices.items():
        for resource, price in prices.items():
            family.add_metric((market, resource), price)
    yield family


def _goods(snapshot: Snapshot, given: Floats) -> Families:
    """Yield the capacity, the allocations, the use and the bids of each resource."""
    markets, hosts, vms = snapshot.markets.name, snapshot.hosts, snapshot.vms
    on = hosts.state == HostState.ON
    used = np.zeros_like(given) if snapshot.history is None else snapshot.history.vms[-1]
    bids = GaugeMetricFamily(
        "merkat_bids_credits", "All bids, in credits a period", labels=("market", "resource")
    )
    for number, resource in enumerate(snapshot.resources):
        unit = UNITS[resource]
        for what, help_text, owner, amount in (
            ("capacity", "Capacity of the hosts of a market", hosts.market[on], hosts.capacity[on]),
            ("allocated", "Resources allocated to the VMs of a market", vms.market, given),
            ("used", "Resources that the VMs used, as far as hosts report", vms.market, used),
        ):
            family = GaugeMetricFamily(
                f"merkat_{resource}_{what}_{unit.name}", help_text, labels=("market",)
            )
            sums = _sums(owner, np.nan_to_num(amount[:, number]), len(markets))
            for market, amount_sum in zip(markets, sums.tolist(), strict=True):
                family.add_metric((market,), amount_sum * unit.scale)
            yield family
        paid = _sums(vms.market, vms.bid[:, number], len(markets))
        for market, bid in zip(markets, paid.tolist(), strict=True):
            bids.add_metric((market, resource), bid)
    yield bids


def _sums(owner: Ints, amount: Floats, markets: int) -> Floats:
    inside = owner >= 0
    sums = np.bincount(owner[inside], weights=amount[inside], minlength=markets)
    return np.asarray(sums, dtype=np.float64)


def _counted(
    name: str, help_text: str, states: Ints, kinds: type[HostState] | type[VmState]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=("state",))
    for state in kinds:
        family.add_metric((state.name.lower(),), int(np.count_nonzero(states == state)))
    return family
