"""The time of the three phases of the group scheduler: groups, cores, hosts.

python benchmarks/bench_groups.py

The limit is 300 yardsticks (stable argsorts of as many floats as there are VMs) plus the time of
one exact assignment of 1,000 to 1,000 with different costs.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from scipy.optimize import linear_sum_assignment

from benchmarks.support.measurement import Figures, seconds, yardstick
from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.limits.core_assignment import assign_cores
from merkatd.limits.enforced_limits import Pinned, Topology
from merkatd.placement.base.least_load import start_market
from merkatd.placement.groups.group_strategy import regroup
from tests.clouds import cloud, hosts_table, vms_table

HOSTS, VMS, CORES = 1_000, 10_000, 32


def requests(seed: int) -> Snapshot:
    """Return running groups of 1 to 50 VMs with 1 to 8 virtual CPUs and log-normal rates."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 51, VMS)
    group = np.repeat(np.arange(VMS), sizes)[:VMS]
    vcpus = rng.choice([1, 2, 4, 8], VMS)[group]
    rate = (rng.lognormal(0.0, 1.0, VMS) / sizes)[group]
    cap = np.stack([vcpus * 100.0, np.full(VMS, 1024.0)], axis=1)
    return cloud(
        hosts_table(np.tile([CORES * 100.0, 262_144.0], (HOSTS, 1))),
        vms_table(
            rng.integers(0, HOSTS, VMS),
            np.stack([rate, np.zeros(VMS)], axis=1),
            cap,
            floor=cap * [0.0, 1.0],
            vcpus=vcpus,
        ),
    )


def pinned(snapshot: Snapshot, place: Ints, share: Floats) -> int:
    """Run phase 2 on every host; return the number of virtual CPUs that got a core."""
    topology = Topology(dict.fromkeys(range(CORES), 0))
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(HOSTS + 1))
    vcpus, shares = snapshot.vms.vcpus.tolist(), share.tolist()
    rates = snapshot.vms.bid[:, 0].tolist()
    count = 0
    for host in range(HOSTS):
        there = order[ends[host] : ends[host + 1]].tolist()
        chosen = assign_cores(
            topology, [Pinned(vm, vcpus[vm], shares[vm], rate=rates[vm]) for vm in there], 20.0
        )
        count += sum(map(len, chosen.values()))
    return count


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    snapshot = requests(seed=1)
    game = start_market(snapshot, 0)
    name = f"{HOSTS} hosts, {VMS} VMs"
    yard = yardstick(VMS)
    figures.plain(f"yardstick, {name}, ms", yard * 1e3)
    cost = np.random.default_rng(2).random((HOSTS, HOSTS))
    assignment = seconds(lambda: linear_sum_assignment(cost))
    figures.plain("one assignment of 1000 x 1000, yardsticks", assignment / yard)
    place = regroup(game)
    share = game.view.on_hosts(place).allocation[:, 0]
    if pinned(snapshot, place, share) != int(snapshot.vms.vcpus.sum()):
        raise AssertionError("a virtual CPU has no core")
    grouping = seconds(lambda: regroup(game))
    figures.plain(f"phases 1 and 3, {name}, yardsticks", grouping / yard)
    cores = seconds(lambda: pinned(snapshot, place, share))
    figures.plain(f"phase 2, {name}, yardsticks", cores / yard)
    figures.at_most(
        f"all three phases less one assignment, {name}, yardsticks",
        (grouping + cores - assignment) / yard,
        300,
    )
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
