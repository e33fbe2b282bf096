"""The time to clear limit orders and to compute all shares, in yardsticks (see `bench_decide.py`).

python benchmarks/bench_orders.py [SEED]

A third of the VMs are in orders of 1 to 16 VMs, drawn from the seed, and 30 % of the orders wait at
first. Two clouds are measured: one in which all orders are new, and this one after two periods. In
the first, the clearing is also measured with each VM bound to one of eight clusters of hosts. Then
each cluster is a local market (Note [Local prices] in `placement/market/orders/local_markets.py`).
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures, seconds, yardstick
from benchmarks.support.ordered_clouds import in_clusters, next_period, with_gangs
from merkatd.cluster import Snapshot
from merkatd.cluster.orders import with_order_terms
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.placement.contract import Pricing
from merkatd.placement.market.orders.order_clearing import clear_orders
from tests.clouds import crowded

PRICING = Pricing(reserve={"cpu": 1e-4, "memory": 1e-6})
WAITING = 0.3
LIMIT = 25
CLUSTERS = 8


def measure(figures: Figures, name: str, snapshot: Snapshot) -> None:
    """Print the times to clear all orders and to compute the shares beside them."""
    yard = yardstick(len(snapshot.vms))
    cleared = clear_orders(snapshot, PRICING)
    runs = sum(outcome.runs for outcome in cleared.outcomes.values())
    view = market_view(with_order_terms(snapshot, cleared.terms), 0)
    placed = view.place >= 0
    clearing = seconds(lambda: clear_orders(snapshot, PRICING)) / yard
    shares = seconds(lambda: (view.first(placed), view.on_hosts(view.place))) / yard
    figures.plain(f"orders that run, of {len(cleared.outcomes)}, {name}", runs)
    figures.plain(f"clearing, {name}, yardsticks", clearing)
    figures.plain(f"shares, {name}, yardsticks", shares)
    figures.at_most(f"clearing and shares, {name}, yardsticks", clearing + shares, LIMIT)


def measure_clusters(figures: Figures, name: str, snapshot: Snapshot) -> None:
    """Print the time to clear all orders with local markets."""
    clearing = seconds(lambda: clear_orders(snapshot, PRICING)) / yardstick(len(snapshot.vms))
    figures.plain(f"clearing, {name}, {CLUSTERS} clusters, yardsticks", clearing)


def main(seed: int) -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    entry = strategy_named("tabu")
    settings = replace(entry.defaults, pricing=PRICING)
    for hosts in (1_000, 10_000):
        snapshot = with_gangs(crowded(hosts, seed=1), seed, WAITING)
        name = f"{len(snapshot.vms)} VMs"
        measure(figures, f"new orders, {name}", snapshot)
        measure_clusters(figures, f"new orders, {name}", in_clusters(snapshot, CLUSTERS, seed))
        for _ in range(2):
            decision = entry.decide(snapshot, settings=settings)
            snapshot = next_period(snapshot, decision)
        measure(figures, f"orders after two periods, {name}", snapshot)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 0))
