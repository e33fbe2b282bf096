"""A run of the market in which each application states a limit order, as the daemon clears it.

Every application has its VMs from its submission on. They wait, run or are saved together, as the
market decides (`merkatd/placement/market/order_clearing.py`). Its limit follows the policy of
patient applications (`merkatd/policies/patience.py`), and never falls while it runs. From a start
on it counts with `running_factor` times its limit: its least run is the rest of its work.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Deploy, Floats, Ints, Orders, Snapshot, Step, Stop
from merkatd.cluster.columns import NO_HOST
from merkatd.cluster.hosts import Markets
from merkatd.cluster.orders import GoodsOffers
from merkatd.market.goods_weights import next_weights
from merkatd.market.price import PriceRule
from merkatd.policies.patience import CpuNeed, PatienceSettings, limit_price
from simulator.market.market_run import MarketRun, VirtualMarket, check_sizes
from simulator.market.tenancy import MICRO, Phase, Tenancy
from simulator.market.vm_fleet import Columns, act, columns_of, set_speeds, snapshot_of
from simulator.model.simulated_cloud import CORE, RESOURCES, SimulatedCloud
from simulator.workloads.job_applications import Application, TenantKind


def simulate_orders(
    applications: Sequence[Application],
    cloud: SimulatedCloud,
    temper: PatienceSettings,
    rng: np.random.Generator,
    liars: Mapping[int, float] | None = None,
) -> MarketRun:
    """Run the applications, in order of submission, to the end of the last.

    `liars` has, by row of dishonest applications, the factor of the stated limit.
    """
    check_sizes(applications, cloud)
    clearing = replace(cloud, rule=PriceRule.CLEARING)
    return _OrderRun(applications, clearing, temper, rng, liars or {}).to_the_end()


class _OrderRun(VirtualMarket):
    def __init__(
        self,
        applications: Sequence[Application],
        cloud: SimulatedCloud,
        temper: PatienceSettings,
        rng: np.random.Generator,
        liars: Mapping[int, float],
    ) -> None:
        super().__init__(applications, cloud, rng)
        self._temper, self._eager = temper, replace(temper, horizon_s=0.0)
        self._liars = liars
        self._announced: Floats = np.full((1, len(RESOURCES)), np.nan)
        self._goods: GoodsOffers | None = None
        self._age_s, self._decided_s = np.zeros(1), 0.0
        self._costs: list[tuple[Tenancy, float]] = []
        """Credits per period of the applications that run."""
        self._room_is_made = False
        """Whether VMs have just left, so that others can start in their room."""

    def owed(self, elapsed_s: float) -> Iterable[tuple[Tenancy, float]]:
        """Return what the orders cost."""
        periods = elapsed_s / self.cloud.period_s
        return [(tenancy, cost * periods) for tenancy, cost in self._costs]

    def due_s(self) -> float:
        """Return the next period's start: at once if room was made for others."""
        return self.period_s if self._room_is_made else super().due_s()

    def period(self) -> None:
        """Run a period as the daemon does."""
        there = [each for each in self.live if each.phase in {Phase.WAITING, Phase.PLACED}]
        for tenancy in there:
            if tenancy.phase is Phase.WAITING:
                if not len(tenancy.host) or tenancy.host[0] != NO_HOST:
                    tenancy.place()
                    tenancy.phase = Phase.WAITING
                tenancy.limit = self._limit(tenancy)
            else:
                tenancy.limit = max(tenancy.limit, self._limit(tenancy))
        columns = columns_of(there, {Phase.WAITING, Phase.PLACED})
        snapshot = self._with_orders(columns)
        decision = self.entry.decide(snapshot, self.rng, self.memory, self.settings)
        self.counts.decisions += 1
        self.note_price(float(decision.prices[0, 0]))
        self._announced, self.memory = decision.prices, decision.memory
        self._goods, self._decided_s = decision.goods_offers, self.now_s
        self._carry_out(columns, snapshot, decision)

    def _with_orders(self, columns: Columns) -> Snapshot:
        """Return the snapshot in which each application has a limit order."""
        plain = snapshot_of(self.cloud, self.hosts, columns, self.now_s, self.counts.periods)
        there = columns.tenancies
        order = np.repeat(np.arange(len(there)), columns.size)
        bid = np.zeros_like(plain.vms.bid)
        bid[:, 0] = columns.spread([self._in_force(tenancy) for tenancy in there]) * CORE
        reserve = np.array([[self.cloud.reserve_cpu, self.cloud.reserve_memory]])
        return replace(
            plain,
            vms=replace(plain.vms, bid=bid, order=order),
            orders=Orders(
                id=np.array([tenancy.row for tenancy in there], dtype=np.int64),
                runs=np.array([each.phase is Phase.PLACED for each in there], dtype=bool),
            ),
            markets=Markets(
                ("simulated",),
                reserve=reserve,
                announced=self._announced,
                weights=self._next_weights(),
            ),
        )

    def _next_weights(self) -> Floats:
        """Return the weights of goods that follow from the last decision; NaN before the first."""
        if self._goods is None:
            return np.full((1, len(RESOURCES)), np.nan)
        passed_s = self.now_s - self._decided_s
        goods = self._goods
        weights, self._age_s = next_weights(goods.weights, goods.offers, self._age_s, passed_s)
        return weights

    def _in_force(self, tenancy: Tenancy) -> float:
        """Return the limit that counts, in credits per unit and period."""
        if tenancy.phase is not Phase.PLACED:
            return tenancy.limit
        has = tenancy.balance / MICRO / tenancy.units
        return min(tenancy.limit * self._temper.running_factor, max(has, 0.0))

    def _carry_out(self, columns: Columns, snapshot: Snapshot, decision: Decision) -> None:
        """Start, move and save VMs, and note what the orders cost."""
        rows = {int(vm): row for row, vm in enumerate(snapshot.vms.id)}
        order = snapshot.vms.order

        def of(kind: type[Step]) -> list[Tenancy]:
            at = {int(order[rows[step.vm]]) for step in decision.plan.of(kind)}
            return [columns.tenancies[row] for row in sorted(at)]

        for tenancy in of(Deploy):
            if tenancy.phase is Phase.WAITING:
                tenancy.phase = Phase.PLACED
                self.counts.resumes += tenancy.on_disk
                self.counts.vm_resumes += tenancy.application.tasks * tenancy.on_disk
        migrations = act(self.cloud, columns, decision, self.now_s)
        displaced = of(Stop)
        for tenancy in displaced:
            self.suspend(tenancy)
        self._room_is_made = bool(displaced)
        self.counts.migrations += migrations
        self.dirty = migrations > 0
        placed = [tenancy.phase is Phase.PLACED for tenancy in columns.tenancies]
        running = columns_of(columns.tenancies)
        given = decision.allocations[np.repeat(np.array(placed, dtype=bool), columns.size)]
        set_speeds(self.cloud, running, given, self.now_s)
        self._note_costs(columns, order, decision)

    def _note_costs(self, columns: Columns, order: Ints, decision: Decision) -> None:
        terms = decision.order_terms
        self._costs = []
        if terms is None:
            return
        cost = np.bincount(order[terms.rows], terms.cost.sum(axis=1), len(columns.tenancies))
        pairs = zip(columns.tenancies, cost.tolist(), strict=True)
        self._costs = [(each, paid) for each, paid in pairs if each.phase is Phase.PLACED]

    def _limit(self, tenancy: Tenancy) -> float:
        """Return the limit that the policy states now, in credits per unit and period."""
        cloud, application = self.cloud, tenancy.application
        ahead_s = tenancy.startup_s(cloud) if tenancy.phase is Phase.WAITING else 0.0
        need = CpuNeed(
            means=tenancy.means(self.now_s, cloud.renewal_s),
            units=tenancy.units,
            capacity=cloud.units,
            work_s=tenancy.left_s + ahead_s,
            left_s=application.due_s - self.now_s,
        )
        performance = application.tenant is TenantKind.FULL_PERFORMANCE
        temper = self._eager if performance else self._temper
        stated = limit_price(need, cloud.period_s, temper) * self._liars.get(tenancy.row, 1.0)
        return max(min(stated, tenancy.balance / MICRO / tenancy.units), 0.0)
