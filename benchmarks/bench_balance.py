"""How well `tabu` balances, compared with a hill climb on the largest load with as many moves.

The clouds have hosts of 3,200 units and 256 GiB and ten VMs per host, four fifths of them on half
of the hosts. Bids are log-normal with sigma 1; VMs have 1, 2, 4 or 8 cores (--uniform: caps uniform
from 100 to 800 units instead).

python benchmarks/bench_balance.py [--uniform]
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from benchmarks.support.reference_strategies import climbed, greatest_relief
from merkatd.cluster import Decision, Migrate, Snapshot
from merkatd.market.error import assess_placement
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.placement.tabu.even_loads import host_bids, host_loads
from merkatd.placement.tabu.tabu import TabuSettings
from tests.clouds import crowded, flavoured, placed

SIZES = (20, 50, 100, 200, 500)
SEEDS = (0, 1, 2)


def outcome(snapshot: Snapshot, decision: Decision | None) -> tuple[float, float]:
    """Return shortfall and largest load, now or after the plan is carried out."""
    host = snapshot.vms.host if decision is None else placed(snapshot, decision)
    view = market_view(snapshot, 0)
    load = host_loads(host_bids(view, host), view.capacity).max()
    return float(assess_placement(snapshot, host).shortfall[0]), float(load)


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    make = crowded if "--uniform" in sys.argv else flavoured
    taken = []
    for hosts in SIZES:
        for seed in SEEDS:
            snapshot = make(hosts, seed)
            most = TabuSettings().m_max(len(snapshot.vms))
            ours = strategy_named("tabu").decide(snapshot)
            free = strategy_named("tabu").decide(snapshot, settings=TabuSettings(load_price=-1.0))
            before, load = outcome(snapshot, None)
            our_shortfall, our_load = outcome(snapshot, ours)
            climb_shortfall, climb_load = outcome(snapshot, climbed(snapshot, most))
            name = f"{hosts} hosts, {len(snapshot.vms)} VMs, cloud {seed}"
            bound = greatest_relief(snapshot, most)
            possible = 1 - outcome(snapshot, free)[0] / before
            taken.append(1 - our_shortfall / before)
            figures.plain(f"{name}: migrations", len(ours.plan.of(Migrate)))
            figures.plain(f"{name}: shortfall before, credits", before)
            figures.plain(f"{name}: largest load before", load)
            figures.plain(f"{name}: part of the shortfall taken away", taken[-1])
            alone = f"{name}: the same with loads left as they come"
            if make is flavoured:
                figures.at_least(alone, possible, 0.25)
            else:
                figures.plain(alone, possible)
            figures.at_least(f"{name}: of the greatest part any plan could", possible / bound, 0.85)
            figures.at_most(f"{name}: shortfall / hill climb's", our_shortfall / climb_shortfall, 1)
            figures.at_most(f"{name}: largest load / hill climb's", our_load / climb_load, 1.15)
    mean = float(np.mean(taken))
    if make is flavoured:
        figures.at_least("mean part of the shortfall taken away", mean, 0.25)
    else:
        figures.plain("mean part of the shortfall taken away", mean)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
