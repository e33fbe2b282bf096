"""The cost of a whole period for each VM, as a decision has it."""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.cluster.orders import order_costs
from merkatd.limits import LimitPlan
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.price import charges
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.charging.used_cpu import CPU
from merkatd.scheduler.observation.snapshot_builder import MEMORY


def costs_of_period(
    snapshot: Snapshot,
    decision: Decision,
    limits: LimitPlan,
    host: Ints,
    markets: Sequence[MarketRules],
    rate: Floats,
) -> Floats:
    """Return the cost of a whole period for each VM that runs or is about to: [vms, resources].

    If use is charged, this is the cost of using the whole allocation, at the `rate` of a core.
    """
    pays = snapshot.vms.bidding & (host != NO_HOST)
    by_vm = np.zeros_like(snapshot.vms.bid)
    held_mib = held_memory.held(snapshot, limits)
    given = held_memory.with_held(decision.allocations, held_mib)
    floors = held_memory.with_held(snapshot.vms.floor, held_mib)
    for row, market in enumerate(markets):
        rows = np.flatnonzero(pays & (snapshot.vms.market == row))
        if market.by_use:
            by_vm[rows, CPU] = rate[rows] * decision.allocations[rows, CPU] / UNITS_PER_CORE
            continue
        by_vm[rows] = charges(
            snapshot.vms.bid[rows],
            given[rows],
            np.tile(decision.prices[row], (len(rows), 1)),
            1.0,
            floors=floors[rows],
            reserve=market.pricing.reserve_prices(snapshot.resources),
        )
    if decision.order_terms is not None:
        of_order = order_costs(
            snapshot.vms, decision.order_terms, decision.allocations, decision.prices
        )
        reserve = np.array([rules.pricing.reserve_prices(snapshot.resources) for rules in markets])
        beyond_mib = np.fmax(held_mib - decision.allocations[:, MEMORY], 0.0)
        of_order[:, MEMORY] += beyond_mib * reserve[snapshot.vms.market, MEMORY]
        by_vm = np.where(pays[:, np.newaxis] & ~np.isnan(of_order), of_order, by_vm)
    return by_vm
