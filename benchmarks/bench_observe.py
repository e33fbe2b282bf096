"""The CPU time to read a large cloud, from the bytes of its pools to a snapshot.

python benchmarks/bench_observe.py

The cloud has 1,000 hosts and 10,000 VMs with disks, networks and context, in pages as a server
sends them. The CPU time of this process is compared with lxml's iterparse over the same bytes.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from lxml import etree

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.large_pools import HOSTS, VMS, host_pool, samples, vm_pool
from benchmarks.support.measurement import Figures
from merkatd.limits import EnforcedLimits
from merkatd.opennebula.observation_builder import Pools, observed
from merkatd.opennebula.pools.host_pool import HostPool, read_samples
from merkatd.opennebula.pools.vm_pool import VmRow, read_page
from merkatd.scheduler.base.ports import GuestUse, Observation
from merkatd.scheduler.base.settings import RESOURCES, MarketRules
from merkatd.scheduler.observation.bidders import template_bids
from merkatd.scheduler.observation.snapshot_builder import StoredInputs, snapshot_of

PAGE = 1_000
ROUNDS = 7
TIMES_BARE = 2.3
"""Includes the history records, on which charges depend, and the check for forged elements."""
TIMES_PAGE = 2.0
"""Maximum extra memory to read a page, in sizes of the page. The trees of lxml are not counted:
only one exists at a time, of one VM."""


def bare(pages: Sequence[str], hosts: str, sampled: str) -> None:
    """Visit each element once with lxml."""
    for text, tag in [*((page, "VM") for page in pages), (hosts, "HOST"), (sampled, "MONITORING")]:
        for _, element in etree.iterparse(BytesIO(text.encode()), tag=tag):
            element.clear()


def read(pages: Sequence[str], hosts: str, sampled: str) -> Pools:
    """Return all pools as rows."""
    vms: list[VmRow] = []
    for page in pages:
        vms += read_page(page).vms
    return Pools(vms, [], {}, HostPool().read(hosts), read_samples(sampled))


def snapshot(seen: Observation) -> None:
    """Build the snapshot of an observation, as in a first period without known bids."""
    wishes = {vm: template_bids(text, RESOURCES) for vm, text in seen.attributes.items()}
    nothing = np.zeros(0)
    no_ids = np.zeros(0, dtype=np.int64)
    none = np.zeros(0, dtype=bool)
    in_force = EnforcedLimits(no_ids, no_ids, no_ids, no_ids, nothing, none, none)
    use = GuestUse(no_ids, nothing, nothing, nothing, in_force)
    cloud = snapshot_of(
        1, seen, use, StoredInputs(bids={}, wishes=wishes, waiting=()), (MarketRules(),)
    )
    if (len(cloud.hosts), len(cloud.vms)) != (HOSTS, VMS):
        raise AssertionError(f"{len(cloud.hosts)} hosts and {len(cloud.vms)} VMs were read")


def cpu_s(works: Sequence[Callable[[], object]]) -> list[float]:
    """Return the CPU seconds of each work: medians of rounds in which they take turns."""
    took: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for work, mine in zip(works, took, strict=True):
            gc.collect()
            begin = time.process_time()
            work()
            mine.append(time.process_time() - begin)
    return [float(np.median(mine)) for mine in took]


def peak_of(text: str) -> float:
    """Return Python's peak memory beyond that of the rows, in bytes."""
    read_page(text)
    tracemalloc.start()
    rows = read_page(text)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (peak - kept) if rows.vms else float("inf")


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    pages = [vm_pool(first, first + PAGE) for first in range(0, VMS, PAGE)]
    hosts, sampled = host_pool(HOSTS, VMS), samples(HOSTS)
    gc.collect()
    gc.freeze()
    size = sum(map(len, pages)) + len(hosts) + len(sampled)
    figures.plain("bytes of all pools, millions", size / 1e6)
    figures.plain("bytes of a VM", sum(map(len, pages)) / VMS)
    pools = read(pages, hosts, sampled)
    seen = observed(pools, 0.0).observation

    def observe() -> None:
        snapshot(observed(read(pages, hosts, sampled), 0.0).observation)

    bare_s, read_s, observed_s, snapshot_s, whole_s = cpu_s(
        [
            lambda: bare(pages, hosts, sampled),
            lambda: read(pages, hosts, sampled),
            lambda: observed(pools, 0.0),
            lambda: snapshot(seen),
            observe,
        ]
    )
    figures.plain("iterparse, CPU ms", bare_s * 1e3)
    figures.plain("from bytes to rows, CPU ms", read_s * 1e3)
    figures.plain(
        "from rows to an observation, with the allowed hosts of VMs, CPU ms", observed_s * 1e3
    )
    figures.plain("from an observation to a snapshot, CPU ms", snapshot_s * 1e3)
    figures.at_most("from bytes to a snapshot / iterparse", whole_s / bare_s, TIMES_BARE)
    for page in (vm_pool(0, PAGE // 4), pages[0]):
        name = f"memory to read a page of {len(page) / 1e6:.1f} MB / its size"
        figures.at_most(name, peak_of(page) / len(page), TIMES_PAGE)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
