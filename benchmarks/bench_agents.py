"""The speed of node agents: a cycle of newscast.

python benchmarks/bench_agents.py [AGENTS]

The default is 100,000 agents with views of 20 entries, and a tenth of them for the growth. A cycle
is an exchange of views of each agent with a random peer. CPU times are medians, and scaled by the
present speed of the machine. The two sizes are measured in turn, so that other programs disturb
both alike.
"""

import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from simulator.agents.newscast_agents import NewscastAgents, NewscastTerms, random_peers
from simulator.agents.overlay_graphs import random_regular_overlay, scale_free_overlay
from tests.machine_speed import slowness

AGENTS, ENTRIES = 100_000, 20
FEWER = 10
"""The small size is the large one divided by this."""
CYCLES = 21
SETTLED = 5
"""Cycles before the measurement."""
LIMIT_S = 0.2
LIMIT_BYTES = 16.0
LIMIT_GROWTH = 12.0


def started(count: int, near_part: float = 0.0) -> NewscastAgents:
    """Return agents after some cycles, in racks of 40 and groups of 1,000."""
    numbers = np.arange(count)
    agents = NewscastAgents(
        random_peers(count, ENTRIES),
        terms=NewscastTerms(entries=ENTRIES, near_part=near_part),
        topology=np.stack((numbers // 1000, numbers // 40), axis=1),
    )
    for _ in range(SETTLED):
        agents.cycle()
    return agents


def cycle_s(agents: NewscastAgents) -> float:
    """Return the CPU seconds of a cycle."""
    begin_s = time.process_time()
    agents.cycle()
    return time.process_time() - begin_s


def yardstick_s(agents: NewscastAgents) -> float:
    """Return the CPU seconds of the bare minimum: each agent copies the view of a random one."""
    rows = np.random.default_rng(0).permutation(len(agents))
    begin_s = time.process_time()
    agents.views[rows].copy()
    return time.process_time() - begin_s


def memory(agents: NewscastAgents) -> tuple[float, float]:
    """Return the bytes an entry of the views and of the contents sent, and of all at the peak."""
    entries = len(agents) * ENTRIES
    tracemalloc.start()
    agents.cycle()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return agents.state_bytes / entries, (agents.views.nbytes + peak) / entries


def main() -> int:
    """Print the figures; return 1 if a limit is missed."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else AGENTS
    figures = Figures()
    before = slowness()
    many, few = started(count), started(count // FEWER)
    took = np.array([(cycle_s(many), cycle_s(few), yardstick_s(many)) for _ in range(CYCLES)])
    many_s, few_s, least_s = np.median(took, axis=0)
    slow = (before + slowness()) / 2.0
    figures.plain("CPU seconds of a cycle", many_s)
    figures.plain("slowness of the machine", slow)
    figures.at_most("CPU seconds of a cycle on the quiet machine", many_s / slow, LIMIT_S)
    figures.plain("times the bare minimum, a copy of random views", many_s / least_s)
    figures.at_most(f"growth of the time with {FEWER} times as many", many_s / few_s, LIMIT_GROWTH)
    stored, peak = memory(many)
    figures.at_most("bytes an entry, views and the copies in messages", stored, LIMIT_BYTES)
    figures.plain("bytes an entry, all of a cycle at its peak", peak)
    near = started(count, near_part=0.5)
    near_s = float(np.median([cycle_s(near) for _ in range(CYCLES)]))
    figures.plain("CPU seconds of a cycle with half of the entries for near peers", near_s)
    for name, make, links in (
        ("scale-free overlay", scale_free_overlay, 10),
        ("random regular overlay", random_regular_overlay, 20),
    ):
        make(100, links)
        begin_s = time.process_time()
        make(count, links)
        figures.plain(f"CPU seconds of a {name}, 20 neighbours", time.process_time() - begin_s)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
