"""The cloud as the last period left it, as metrics. Pure.

Labels are bounded: markets, resources and states; never VMs, tenants or hosts, of which there
may be a hundred thousand.
"""

from collections.abc import Iterator

import numpy as np
from prometheus_client.core import GaugeMetricFamily

from merkatd.api.metrics.units import UNITS
from merkatd.cluster import Floats, HostState, Ints, Snapshot, VmState
from merkatd.scheduler.phases.announce import Announcement

Families = Iterator[GaugeMetricFamily]


def families(announcement: Announcement) -> Families:
    """All there is to say of a period that is over."""
    snapshot = announcement.seen.snapshot
    yield from _prices(announcement)
    yield from _goods(snapshot, announcement.decided.decision.allocations)
    yield _counted("merkat_hosts", "Hosts by state", snapshot.hosts.state, HostState)
    yield _counted("merkat_vms", "VMs by state", snapshot.vms.state, VmState)
    ailing = len(announcement.seen.observation.ailing)
    yield GaugeMetricFamily(
        "merkat_vms_unreadable", "VMs whose data can't be read, and that are left alone", ailing
    )
    yield GaugeMetricFamily(
        "merkat_hosts_away",
        "Hosts that do not answer, and whose VMs keep their last limits",
        len(announcement.seen.use.away),
    )
    yield GaugeMetricFamily(
        "merkat_steps_outstanding",
        "Steps that were sent and of which nothing is known yet",
        len(announcement.seen.verdicts.waiting),
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
    """Of each resource: what the hosts have, what VMs were given, what is bid."""
    markets, hosts, vms = snapshot.markets.name, snapshot.hosts, snapshot.vms
    on = hosts.state == HostState.ON
    used = np.zeros_like(given) if snapshot.history is None else snapshot.history.vms[-1]
    bids = GaugeMetricFamily(
        "merkat_bids_credits", "All bids, in credits a period", labels=("market", "resource")
    )
    for number, resource in enumerate(snapshot.resources):
        unit = UNITS[resource]
        for what, help_text, owner, amount in (
            ("capacity", "What the hosts of a market have", hosts.market[on], hosts.capacity[on]),
            ("allocated", "What the VMs of a market were given", vms.market, given),
            ("used", "What they really used, as far as their hosts say", vms.market, used),
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
