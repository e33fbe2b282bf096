"""The market of simulated platforms: a period's decision by the daemon's strategy, carried out."""

from collections import deque
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from merkatd.cluster import ACTIVE, Decision, Deploy, Floats, Ints, Migrate, Snapshot, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.currency.solvency import affordable_parts
from merkatd.market.price import charges
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.contract import Pricing, with_pricing
from merkatd.placement.registry import strategy_named
from merkatd.platforms.rules.first_bids import reference_price
from merkatd.platforms.rules.start_conditions import MarketOffer
from merkatd.scheduler.base.settings import Rhythm
from simulator.market.market_run import OperationCounts
from simulator.market.simulated_platforms import SimulatedPlatform
from simulator.market.tenancy import MICRO
from simulator.market.vm_fleet import hosts_of, snapshot_of
from simulator.model.simulated_cloud import RESOURCES, SimulatedCloud

_PAST_INTERVALS = 10
"""The number of past intervals whose prices count in first bids."""
_NONE: Ints = np.zeros(0, dtype=np.int64)


class PaperMarket:
    """Decides in each period where VMs run, what they get, and the prices."""

    def __init__(self, cloud: SimulatedCloud, rhythm: Rhythm, seed: int) -> None:
        self._cloud, self._rhythm, self._seed = cloud, rhythm, seed
        self._hosts = hosts_of(cloud)
        self._entry = strategy_named(cloud.strategy)
        self._reserve = dict(zip(RESOURCES, (cloud.reserve_cpu, cloud.reserve_memory), strict=True))
        # The paper's rule to the letter: its figures count every bid in full.
        pricing = Pricing(rule=cloud.rule, reserve=self._reserve, whole_bids=True)
        self._settings = with_pricing(self._entry.defaults, pricing)
        self._memory: Mapping[str, Any] = {}
        self._past: deque[Floats] = deque(maxlen=_PAST_INTERVALS)
        self._past_s = self._moved_s = -inf
        self.price: Floats | None = None
        """The price of each resource; None before the first period."""
        self.prices: list[tuple[float, float]] = []
        """Pairs of time and price of a unit of CPU, at each change."""

    def offer(self, now_s: float) -> MarketOffer:
        """Return the market's present offer."""
        cloud = self._cloud
        return MarketOffer(
            now_s=now_s,
            interval_s=cloud.period_s,
            prices=None if self.price is None else _by_name(self.price),
            capacity={"cpu": cloud.units, "memory": cloud.nodes * cloud.memory_mib},
            reserve=self._reserve,
            advance_periods=self._rhythm.most_periods_charged,
        )

    def reference_prices(self) -> dict[str, float]:
        """Return the prices of first bids."""
        now = {} if self.price is None else _by_name(self.price)
        past = [_by_name(price) for price in self._past]
        return {
            name: reference_price(now.get(name, 0.0), [price[name] for price in past])
            for name in RESOURCES
        }

    def cost(self, platform: SimulatedPlatform) -> float:
        """Return what a platform's allocations cost per period."""
        if self.price is None:
            return 0.0
        prices = np.tile(self.price, (len(platform.given), 1))
        # The paper's rule to the letter: on a less crowded host a VM pays more than its bid.
        return float(charges(platform.bids, platform.given, prices, 1.0, above_bids=True).sum())

    def decide(
        self, platforms: Sequence[SimulatedPlatform], counts: OperationCounts, now_s: float
    ) -> Snapshot:
        """Decide, carry the decision out, and return the snapshot that it was made from."""
        snapshot = self._snapshot(platforms, counts.periods, now_s)
        random = repeatable_random(self._seed, snapshot.period, "")
        decision = self._entry.decide(snapshot, self._settings, self._memory, random)
        counts.decisions += 1
        counts.migrations += self._carry_out(platforms, decision, now_s)
        self._memory, self.price = decision.memory, decision.prices[0]
        first = 0
        for platform in platforms:
            last = first + len(platform.vm_state)
            platform.given = decision.allocations[first:last].copy()
            first = last
        if self._rhythm.part_since(self._past_s, now_s) == 1.0:
            self._past.append(self.price)
            self._past_s = now_s
        price = float(self.price[0])
        if not self.prices or self.prices[-1][1] != price:
            self.prices.append((now_s, price))
        return snapshot

    def _snapshot(
        self, platforms: Sequence[SimulatedPlatform], period: int, now_s: float
    ) -> Snapshot:
        """Return what the daemon observes, with bids that their payers can afford."""
        state = np.concatenate([_NONE, *(platform.vm_state for platform in platforms)])
        bid = np.concatenate(
            [np.zeros((0, len(RESOURCES))), *(platform.bids for platform in platforms)]
        )
        payer = np.repeat(
            np.arange(len(platforms)), [len(platform.vm_state) for platform in platforms]
        )
        balance = np.array([platform.tenancy.balance / MICRO for platform in platforms])
        none = np.zeros_like(bid)
        part = affordable_parts(
            bid,
            none,
            none,
            payer,
            np.maximum(balance, 0.0) / self._rhythm.most_periods_charged,
            is_one_of(state, ACTIVE),
            state == int(VmState.PENDING),
        )
        return snapshot_of(
            self._hosts,
            [platform.tenancy for platform in platforms],
            state,
            bid * part,
            now_s,
            period,
            # At most one period of an interval migrates VMs.
            may_move=self._rhythm.part_since(self._moved_s, now_s) == 1.0,
        )

    def _carry_out(
        self, platforms: Sequence[SimulatedPlatform], decision: Decision, now_s: float
    ) -> int:
        """Start and migrate VMs; return the number of migrations."""
        costs, ids = self._cloud.costs, [platform.tenancy.first_vm for platform in platforms]

        def found(vm: int) -> tuple[SimulatedPlatform, int]:
            platform = platforms[int(np.searchsorted(ids, vm, side="right")) - 1]
            return platform, vm - platform.tenancy.first_vm

        for step in decision.plan.of(Deploy):
            platform, task = found(step.vm)
            platform.tenancy.host[task] = step.host
            platform.begin(task, VmState.RUNNING, now_s + costs.boot_s)
        moves = decision.plan.of(Migrate)
        for move in moves:
            platform, task = found(move.vm)
            platform.tenancy.host[task] = move.host
            platform.tenancy.moved_at_s[task] = now_s
            end_s = now_s + costs.migrate_s(platform.tenancy.application.memory_mib)
            platform.begin(task, VmState.RUNNING, end_s, costs.migrating_speed)
        if moves:
            self._moved_s = now_s
        return len(moves)


def _by_name(price: Floats) -> dict[str, float]:
    return dict(zip(RESOURCES, price.tolist(), strict=True))
