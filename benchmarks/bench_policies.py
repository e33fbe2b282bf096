"""CPU time of a policy's decision for a VM or a cluster: at most 50 microseconds each."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from merkatd.policies.deadline import Funds, Work, bid_max, performance
from merkatd.policies.horizontal import Fleet, Prices, scale, upper_bound
from merkatd.policies.suspension import Case, suspends
from merkatd.policies.vertical import Performance, SpendingLimit, VmPosition, adapt

MOST_S = 50e-6
ROUNDS, CALLS = 30, 300
PRICES = Prices(others=(1.0, 0.1), capacity=(7000.0, 235520.0))
SIZE = (100.0, 900.0)
SLOW = Performance(value=1.3, reference=1.0, low=0.75, high=0.95)
STANDING = VmPosition(
    bid=(4.0, 4.0), allocation=(50.0, 500.0), least=(10.0, 90.0), most=SIZE, keeping=(103.0, 92.0)
)
MEANS = SpendingLimit(bid_min=1e-6, bid_max=1000.0)
FLEET = Fleet(vms=40, most=200, size=SIZE)
WORK = Work(steps=1000, done=400, ideal_step_s=2.0)
PURSE = Funds(credits=1000.0, renewal=100.0, renewal_s=3600.0)
CASE = Case(purse=PURSE, left_s=3000.0, work_s=1200.0, full=SIZE, prices=PRICES, interval_s=60.0)


def each_s(call: Callable[[], Any]) -> float:
    """Return the CPU time of a call in the best of many rounds, to exclude other processes."""
    took = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        for _ in range(CALLS):
            call()
        took.append((time.process_time() - began_s) / CALLS)
    return min(took)


def deadline() -> None:
    """Make all calls of a deadline controller to its policy."""
    performance(WORK, 3000.0, 4.8)
    bid_max(PURSE, 3000.0, 60.0, 4)


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    known = adapt(STANDING, SLOW, MEANS).traces
    decisions: dict[str, Callable[[], Any]] = {
        "Algorithm 2, a VM": lambda: adapt(STANDING, SLOW, MEANS, known),
        "Algorithm 3, up to 200 VMs": lambda: upper_bound(200, 20000.0, SIZE, PRICES),
        "Algorithm 4, a cluster of 40 VMs": lambda: scale(FLEET, SLOW, 20000.0, PRICES),
        "deadline: pace, what may be spent": deadline,
        "whether to suspend": lambda: suspends(CASE),
    }
    figures = Figures()
    for name, call in decisions.items():
        figures.at_most(f"policies: {name}, microseconds", each_s(call) * 1e6, MOST_S * 1e6)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
