"""The speed of the simulation kernel: a day of a data centre under first fit.

python benchmarks/bench_kernel.py [HOSTS REQUESTS CYCLES]

The default is the data centre of Paper IV: 65,536 hosts in a tree, 230,000 requests, and 1,440
cycles of a minute, each with a monitoring and a decision. The CPU time is scaled by the present
speed of the machine.
"""

import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from simulator.baselines.placement.first_fit import FirstFit
from simulator.kernel.data_center import DataCenter, tree_of_hosts
from simulator.kernel.kernel_deciders import PlacerDecider
from simulator.kernel.kernel_run import KernelRun
from simulator.workloads.request_draws import MixedWorkload, draw_requests
from simulator.workloads.vm_types import PAPER_IV_HOST
from tests.machine_speed import slowness

HOSTS, REQUESTS, CYCLES = 65_536, 230_000, 1_440
GROUPS = 64
"""Groups of hosts in two clusters."""
CYCLE_S = 60.0
LIMIT_S = 60.0
LIMIT_MIB = 1536.0


def main() -> int:
    """Print the figures; return 1 if a limit is missed."""
    given = [int(word) for word in sys.argv[1:]] or [HOSTS, REQUESTS, CYCLES]
    hosts, requests, cycles = given
    figures = Figures()
    before = slowness()
    groups = (2, GROUPS // 2, max(hosts // GROUPS, 1))
    center = DataCenter(
        hosts=tree_of_hosts(groups, PAPER_IV_HOST, idle_watts=175.0, full_watts=250.0)
    )
    span_s = cycles * CYCLE_S
    drawn = draw_requests(MixedWorkload(count=requests, span_s=span_s), seed=0)
    begin_s = time.process_time()
    outcome = KernelRun(center, drawn, PlacerDecider(FirstFit()), span_s=span_s).run()
    cpu_s = time.process_time() - begin_s
    slow = (before + slowness()) / 2.0
    figures.plain("CPU seconds", cpu_s)
    figures.plain("slowness of the machine", slow)
    figures.at_most("CPU seconds on the quiet machine", cpu_s / slow, LIMIT_S)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    figures.at_most("memory, MiB", peak_mib, LIMIT_MIB)
    figures.plain("periods", outcome.periods)
    figures.plain("VMs started", outcome.totals.deploys)
    figures.plain("active hosts, mean", outcome.mean("active_hosts"))
    figures.plain("pending requests at the end", outcome.last("pending"))
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
