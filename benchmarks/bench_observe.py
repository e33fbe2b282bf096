"""The CPU time to read a large cloud, from the bytes of its pools to a snapshot.

python benchmarks/bench_observe.py

The cloud has 1,000 hosts and 10,000 VMs with disks, networks and context, in pages as a server
sends them. The CPU time of this process is compared with lxml's iterparse over the same bytes, and
with the time without the columns for strategies: what templates describe, history of use, declared
applications, and times of migrations.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
from lxml import etree

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.large_pools import HOSTS, VMS, host_pool, samples, vm_pool
from benchmarks.support.measurement import Figures
from benchmarks.support.stored_columns import PLATFORMS, ColumnStore
from merkatd.cluster import Snapshot
from merkatd.limits import EnforcedLimits
from merkatd.opennebula import observation_builder
from merkatd.opennebula.observation_builder import Pools, observed
from merkatd.opennebula.pools.host_pool import HostPool, read_samples
from merkatd.opennebula.pools.vm_pool import VmRow, read_page
from merkatd.scheduler.base.ports import GuestUse, Observation
from merkatd.scheduler.base.settings import RESOURCES, MarketRules
from merkatd.scheduler.base.traits import HostTraits
from merkatd.scheduler.observation import bidders, snapshot_builder
from merkatd.scheduler.observation.bidders import template_bids
from merkatd.scheduler.observation.observed import SAMPLES
from merkatd.scheduler.observation.snapshot_builder import StoredInputs, snapshot_of
from merkatd.scheduler.traits.vm_traits import NO_TRAITS

PAGE = 1_000
MOVED = 2_000
"""VMs that were migrated at some time."""
ROUNDS = 7
TIMES_BARE = 2.3
"""Includes the history records, on which charges depend, and the check for forged elements."""
TIMES_DESCRIBED = 1.1
"""For all columns for strategies, in times of the same pools without these columns."""
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


def snapshot(
    seen: Observation, applications: Mapping[int, int], store: ColumnStore | None = None
) -> None:
    """Build the snapshot of an observation, as in a first period without known bids.

    With a store, it also has the history of use, the declared applications, and the times of the
    last migrations; the daemon's work to store and read these is part of it.
    """
    wishes = {vm: template_bids(text, RESOURCES) for vm, text in seen.attributes.items()}
    nothing = np.zeros(0)
    no_ids = np.zeros(0, dtype=np.int64)
    none = np.zeros(0, dtype=bool)
    in_force = EnforcedLimits(no_ids, no_ids, no_ids, no_ids, nothing, none, none)
    use = GuestUse(no_ids, nothing, nothing, nothing, in_force)
    known = StoredInputs(bids={}, wishes=wishes, waiting=(), applications=applications)
    history = None
    if store is not None:
        stored = store.inputs(seen)
        known = replace(known, declared=stored.declared, moved_at_s=stored.moved_at_s)
        history = store.recent.history(seen, RESOURCES)
    cloud = snapshot_of(1, seen, use, known, (MarketRules(),), history=history)
    if store is not None:
        _require_filled(cloud)
    if (len(cloud.hosts), len(cloud.vms)) != (HOSTS, VMS):
        raise AssertionError(f"{len(cloud.hosts)} hosts and {len(cloud.vms)} VMs were read")


def _require_filled(cloud: Snapshot) -> None:
    """Raise AssertionError unless the store has filled its columns."""
    if cloud.history is None or cloud.history.vms.shape[0] != SAMPLES:
        raise AssertionError("the snapshot has no whole history")
    if np.isnan(cloud.history.vms).all() or np.isnan(cloud.history.hosts).all():
        raise AssertionError("the history has no use")
    if int((~np.isnan(cloud.vms.moved_at_s)).sum()) < MOVED:
        raise AssertionError("the snapshot has too few times of migrations")
    if (len(cloud.jobs), len(cloud.replicated)) != (PLATFORMS // 2, PLATFORMS // 2):
        raise AssertionError("the snapshot has not all declared applications")


@contextmanager
def left_out() -> Iterator[None]:
    """Leave out the columns that templates, disks and records describe.

    Those of the store are left out as well, as `snapshot` gets none.
    """
    unknown = np.full(HOSTS, np.nan)
    no_levels = np.zeros((HOSTS, 0), dtype=np.int64)
    nothing = HostTraits(
        domains={},
        topology=no_levels,
        link_mbit_s=unknown,
        idle_watts=unknown,
        full_watts=unknown,
        can_sleep=np.zeros(HOSTS, dtype=bool),
        asleep=np.zeros(HOSTS, dtype=bool),
    )
    hosts = {"domains": {}, "topology": no_levels, "link_mbps": unknown}
    vms = {"kind": np.zeros(VMS, dtype=np.int64), "dirty_mib_s": np.full(VMS, np.nan)}
    with (
        patch.object(observation_builder, "host_traits_of", lambda *_: nothing),
        patch.object(observation_builder, "_disks", lambda *_: {}),
        patch.object(bidders, "stated_traits", lambda *_: NO_TRAITS),
        patch.object(snapshot_builder, "host_columns", lambda *_: hosts),
        patch.object(snapshot_builder, "vm_columns", lambda *_: vms),
    ):
        yield


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

    store = ColumnStore(VMS, MOVED)
    store.fill(seen)

    def observe() -> None:
        seen = observed(read(pages, hosts, sampled), 0.0).observation
        snapshot(seen, store.applications)

    def build() -> None:
        snapshot(observed(pools, 0.0).observation, store.applications, store)

    def build_without() -> None:
        with left_out():
            snapshot(observed(pools, 0.0).observation, store.applications)

    bare_s, read_s, observed_s, snapshot_s, whole_s, built_s, plain_s = cpu_s(
        [
            lambda: bare(pages, hosts, sampled),
            lambda: read(pages, hosts, sampled),
            lambda: observed(pools, 0.0),
            lambda: snapshot(seen, store.applications),
            observe,
            build,
            build_without,
        ]
    )
    figures.plain("iterparse, CPU ms", bare_s * 1e3)
    figures.plain("from bytes to rows, CPU ms", read_s * 1e3)
    figures.plain(
        "from rows to an observation, with the allowed hosts of VMs, CPU ms", observed_s * 1e3
    )
    figures.plain("from an observation to a snapshot, CPU ms", snapshot_s * 1e3)
    figures.at_most("from bytes to a snapshot / iterparse", whole_s / bare_s, TIMES_BARE)
    figures.plain(
        "columns for strategies, from rows to a snapshot, CPU ms", (built_s - plain_s) * 1e3
    )
    described = "from bytes to a snapshot, with / without the columns for strategies"
    # Reading is the same in both, and its noise would exceed the difference.
    figures.at_most(described, (read_s + built_s) / (read_s + plain_s), TIMES_DESCRIBED)
    for page in (vm_pool(0, PAGE // 4), pages[0]):
        name = f"memory to read a page of {len(page) / 1e6:.1f} MB / its size"
        figures.at_most(name, peak_of(page) / len(page), TIMES_PAGE)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
