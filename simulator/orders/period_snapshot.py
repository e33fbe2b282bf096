"""The cloud of a period as the daemon observes it, with the orders in force and their funds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.hosts import Hosts, Markets, kept_from, less
from merkatd.cluster.orders import NO_ORDERS, StatedOrders
from merkatd.cluster.vms import Vms
from merkatd.currency.credits import MICRO
from merkatd.currency.solvency import affordable_parts
from merkatd.protocol.platform_messages import Amounts
from merkatd.scheduler.base.settings import MarketRules, Rhythm
from merkatd.scheduler.terms.ordered_vms import funded_periods, with_stated_orders
from simulator.market.vm_fleet import hosts_of
from simulator.model.simulated_cloud import RESOURCES, SimulatedCloud
from simulator.orders.patient_platform import PatientPlatform
from simulator.orders.simulated_vms import SimulatedVms


class ObservedCloud:
    """Builds the snapshots of periods."""

    def __init__(self, cloud: SimulatedCloud, market: MarketRules, vms: SimulatedVms) -> None:
        self._cloud, self._market, self._vms = cloud, market, vms
        self._hosts = hosts_of(cloud)
        self._prices = market.pricing.reserve_prices(RESOURCES)

    def snapshot(
        self, now_s: float, period: int, living: Sequence[PatientPlatform], prices: Amounts
    ) -> Snapshot:
        """Return the cloud with the limit orders of platforms; `prices` were announced last."""
        vms = self._vms.present
        for platform in living:
            platform.fill_new_order()
        saved = frozenset(self._vms.saved.tolist())
        stated = replace(stated_orders(living, self._market.name, prices), saved=saved)
        plain, words = self._plain(now_s, period, vms), self._vms.words(vms)
        return with_stated_orders(plain, words, stated, [self._market])

    def _plain(self, now_s: float, period: int, vms: Ints) -> Snapshot:
        """Return the cloud without limit orders."""
        count, size = len(vms), self._vms.sizes(vms)
        none, zeros = np.full(count, NO_ROW), np.zeros((count, len(RESOURCES)))
        owner = self._vms.owner[vms]
        return Snapshot(
            now_s,
            period,
            RESOURCES,
            Markets((self._market.name,), reserve=self._prices[np.newaxis]),
            self._hosts_now(vms, size),
            Vms(
                id=vms,
                name=("",) * count,
                state=self._vms.states(vms),
                host=self._vms.host[vms],
                market=np.zeros(count, dtype=np.int64),
                bid=zeros,
                floor=size * (0.0, self._market.floor_part),
                cap=size,
                held=np.full((count, len(RESOURCES)), np.nan),
                application=owner,
                owner=owner,
                vcpus=np.ones(count, dtype=np.int64),
                moved_at_s=self._vms.moved_at_s[vms],
                source=self._vms.source[vms],
                movable=np.ones(count, dtype=bool),
                requirement=none,
                role=none,
                dirty_mib_s=np.full(count, np.nan),
                kind=np.ones(count, dtype=np.int64),
            ),
        )

    def _hosts_now(self, vms: Ints, size: Floats) -> Hosts:
        """Return the hosts, without the memory that guests need on hosts that they leave."""
        leaving = np.flatnonzero(self._vms.source[vms] != NO_HOST)
        if not len(leaving):
            return self._hosts
        margin = 1.0 + self._market.floor_margin
        needed = np.minimum(size[leaving] * (0.0, self._cloud.memory_use * margin), size[leaving])
        sources = self._vms.source[vms][leaving].tolist()
        capacity = less(self._hosts.capacity, list(enumerate(sources)), needed)
        reserved = kept_from(self._hosts.capacity, capacity)
        return replace(self._hosts, capacity=capacity, reserved=reserved)


def stated_orders(living: Sequence[PatientPlatform], market: str, prices: Amounts) -> StatedOrders:
    """Return the orders in force; VMs in none wait for their platform's."""
    orders = sorted(
        (
            platform.order
            for platform in living
            if platform.order is not None and platform.order.vms
        ),
        key=lambda order: order.id,
    )
    ordered = {vm for order in orders for vm in order.vms}
    unordered = frozenset(
        vm
        for platform in living
        if platform.order is not None
        for vm in platform.vms
        if vm not in ordered
    )
    if not orders and not unordered:
        return NO_ORDERS
    return StatedOrders(orders, {market: prices} if orders else {}, unordered)


def afforded(snapshot: Snapshot, platforms: Sequence[PatientPlatform], rhythm: Rhythm) -> Snapshot:
    """Return the cloud in which no platform bids more than it can pay."""
    vms = snapshot.vms
    if not len(vms):
        return snapshot
    longest = rhythm.most_periods_charged
    rows = np.unique(vms.owner)
    balance = np.array([platforms[row].tenancy.balance for row in rows.tolist()])
    state = vms.state
    waits = state == VmState.PENDING
    there = (state == VmState.RUNNING) | (state == VmState.BUSY)
    rests = state == VmState.POWERED_OFF
    most = vms.bid.copy()
    most[rests & ~vms.starts] = 0.0
    times = funded_periods(snapshot, rhythm.interval_s, longest)
    most[waits] *= times[waits, np.newaxis]
    prices = np.tile(snapshot.markets.reserve[0], (len(vms), 1))
    part = affordable_parts(
        most,
        vms.floor,
        prices,
        np.searchsorted(rows, vms.owner),
        balance / MICRO / longest,
        there | rests,
        waits,
    )
    return replace(snapshot, vms=replace(vms, bid=vms.bid * part))
