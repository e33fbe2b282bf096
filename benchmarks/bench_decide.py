"""The time of a decision, in yardsticks: stable argsorts of as many floats as there are VMs.

python benchmarks/bench_decide.py
"""

import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures, seconds, yardstick
from benchmarks.support.reference_strategies import climbed, transcribed
from merkatd.cluster import Snapshot
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.placement.base.least_load import start_market
from merkatd.placement.tabu.even_loads import level_loads
from merkatd.placement.tabu.paper import MarketSettings, algorithm_1
from merkatd.placement.tabu.tabu import TabuSettings
from tests.clouds import crowded

TABU = strategy_named("tabu")
GIB = 2**30


def deciding(snapshot: Snapshot, migrations: int) -> float:
    """Return the seconds of a whole decision of `tabu` with this number of migrations."""
    settings = TabuSettings(m_max_part=migrations / len(snapshot.vms), m_max_least=0)
    made = len(TABU.decide(snapshot, settings=settings).plan)
    if made != migrations:
        raise AssertionError(f"the decision must have {migrations} migrations (got {made})")
    return seconds(lambda: TABU.decide(snapshot, settings=settings))


def sharing(snapshot: Snapshot) -> float:
    """Return the seconds for all shares: market and hosts, two resources, caps and floors."""
    view = market_view(snapshot, 0)
    placed = view.place >= 0
    return seconds(lambda: (view.first(placed), view.on_hosts(view.place)))


def climbing(figures: Figures, snapshot: Snapshot, moves: int, decision_s: float) -> None:
    """Compare with a hill climb of as many moves: as a decision with the same output, and bare."""
    name = f"{len(snapshot.hosts)} hosts, {len(snapshot.vms)} VMs"
    decision = seconds(lambda: climbed(snapshot, moves))
    figures.at_most(f"decision / hill climb as a decision, {name}", decision_s / decision, 30)
    view = market_view(snapshot, 0)
    bare = seconds(lambda: level_loads(view, view.place, view.movable, moves))
    figures.plain(f"decision / the hill climb's moves alone, {name}", decision_s / bare)


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    iteration = {}
    for hosts, migrations, limit in ((1_000, 50, 500), (10_000, 500, 1_000)):
        snapshot = crowded(hosts, seed=1)
        vms = len(snapshot.vms)
        yard = yardstick(vms)
        name = f"{hosts} hosts, {vms} VMs"
        figures.plain(f"yardstick, {name}, ms", yard * 1e3)
        figures.at_most(f"shares, {name}, yardsticks", sharing(snapshot) / yard, 25)
        decision_s = deciding(snapshot, migrations)
        figures.at_most(
            f"decision, {name}, {migrations} migrations, yardsticks", decision_s / yard, limit
        )
        iteration[hosts] = (decision_s - deciding(snapshot, 0)) / migrations
        climbing(figures, snapshot, migrations, decision_s)
    figures.at_most(
        "time of an iteration, 100000 VMs / 10000 VMs", iteration[10_000] / iteration[1_000], 15
    )
    figures.at_most("memory of the whole process, 100000 VMs, GiB", memory_gib(), 0.5)
    snapshot = crowded(100, seed=1)
    settings = MarketSettings()
    ours = seconds(lambda: algorithm_1(start_market(snapshot, 0), settings), times=15)
    theirs = seconds(lambda: transcribed(snapshot, settings), times=3)
    if (transcribed(snapshot, settings) != algorithm_1(start_market(snapshot, 0), settings)).any():
        raise AssertionError("the transcription of Algorithm 1 places VMs differently")
    figures.at_least("Algorithm 1 as printed / paper, 100 hosts, 1000 VMs", theirs / ours, 100)
    return figures.exit_code()


def memory_gib() -> float:
    """Return the peak memory of a new process that makes the largest decision."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True
    )
    return int(done.stdout) / GIB


def largest_decision() -> None:
    """Decide once for 100,000 VMs, and print the peak memory."""
    settings = TabuSettings(m_max_part=0.005)
    TABU.decide(crowded(10_000, seed=1), settings=settings)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    if "--memory" in sys.argv:
        largest_decision()
    else:
        sys.exit(main())
