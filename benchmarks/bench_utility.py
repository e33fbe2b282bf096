"""The CPU time of a decision of `utility`, and how it grows.

python benchmarks/bench_utility.py

The limits hold for the quiet machine: times are divided by how much slower the machine is at the
moment (`tests/machine_speed.py`). The first cloud is that of the paper, whose placement takes 1.5 s
there (Figure 11).
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from benchmarks.support.measurement import Figures
from merkatd.cluster import Snapshot
from merkatd.placement import strategy_named
from tests.machine_speed import slowness
from tests.placement.utility.mixed_clouds import mixed_cloud

UTILITY = strategy_named("utility")
SMALL_MS, LARGE_S, GROWTH = 15.0, 2.0, 15.0


def cpu_s(snapshot: Snapshot, times: int) -> float:
    """Return the median CPU seconds of a decision on the quiet machine."""
    settings = UTILITY.settings(cycle_s=600.0)
    UTILITY.decide(snapshot, settings=settings)
    took = []
    for _ in range(times):
        slow, begun = slowness(), time.process_time()
        UTILITY.decide(snapshot, settings=settings)
        took.append((time.process_time() - begun) / slow)
    return float(np.median(took))


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    small = cpu_s(mixed_cloud(1, hosts=25, placed=75, waiting=50, services=0), 9)
    figures.at_most("25 hosts, 75 jobs placed, 50 waiting, ms of CPU", small * 1e3, SMALL_MS)
    times = {}
    for part in (1, 10):
        snapshot = mixed_cloud(
            2, hosts=100 * part, placed=300 * part, waiting=100 * part, services=5 * part
        )
        times[part] = cpu_s(snapshot, 3)
    name = "1000 hosts, 3000 jobs placed, 1000 waiting, 50 services, s of CPU"
    figures.at_most(name, times[10], LARGE_S)
    figures.at_most("growth from 100 to 1000 hosts", times[10] / times[1], GROWTH)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
