"""Where use is charged, a VM that stays idle keeps next to nothing from others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import UsageHistory
from merkatd.placement.groups.cpu_use import LOOKS, MARGIN, limited_to_use
from tests.clouds import cloud, hosts_table, vms_table
from tests.groups.site import Site, template

IDLE = "0.000001"
CORES = 4


def does(demand: str) -> str:
    """What a guest of three virtual CPUs does: a part of all it could."""
    return f'EMBEDDED=[WORK="1e9",DEMAND="{demand}",MEMORY_USE="64"]'


def now_does(site: Site, vm: int, demand: str) -> None:
    """From now on it wants so much."""
    site.bench.ok("one.vm.update", vm, does(demand), 1)


def idles(site: Site, vm: int, number: int) -> None:
    """Change nothing."""


def beside_a_rich_one(
    played: Callable[[Site, int, int], None] | None, begin: str = IDLE
) -> tuple[float, float, float]:
    """Core-seconds of two busy VMs in eight periods; what a rich VM kept, and what it used.

    The last two in percent of a core, summed over the periods. `played` is what its owner does in
    each period, with its VM; None where there is no such VM. At first it does what `begin` says.
    """
    site = Site(hosts=1)
    try:
        site.create(100.0, 2)
        lines = template().splitlines()[:-1]
        if played is not None:
            site.create(1e5, 1, site.eve, template="\n".join([*lines, does(begin)]))
        for _ in range(9):
            site.period()
            site.clock.advance(60)
        rich = next((vm for vm, _ in counters(site, site.eve)), -1)
        before, used = dict(counters(site, site.ann)), sum(s for _, s in counters(site, site.eve))
        kept = 0.0
        for number in range(8):
            if played is not None:
                played(site, rich, number)
            last = site.period()
            row = last.seen.snapshot.vm_row(rich) if rich >= 0 else None
            kept += 0.0 if row is None else float(last.decided.decision.allocations[row, 0])
            site.clock.advance(60)
        mine = sum(after - before[vm] for vm, after in counters(site, site.ann))
        used = sum(s for _, s in counters(site, site.eve)) - used
        return mine, kept, used / 60 * 100
    finally:
        site.close()


def counters(site: Site, owner: int) -> list[tuple[int, float]]:
    """The VMs of an owner, with the core-seconds that each has computed."""
    rows = site.cloud.world.vms.rows
    read = site.cloud.guests.read().items()
    return [(vm, usage.cpu_s) for vm, usage in read if rows[vm].uid == owner]


def test_an_idle_vm_with_a_high_rate_leaves_the_host_to_its_neighbours() -> None:
    """A thousand times theirs: they have all but a tenth of a core. Limits may be off by 2 %."""
    alone, _, _ = beside_a_rich_one(None)
    beside, kept, _ = beside_a_rich_one(idles)
    assert alone == pytest.approx(8 * 60 * CORES, rel=0.01)
    assert beside >= alone * (0.98 - MARGIN / (CORES * 100))
    assert kept <= 8 * 1.1 * MARGIN


@pytest.mark.parametrize("every", [2, 3, 4])
def test_who_computes_now_and_then_pays_for_half_of_what_it_keeps(every: int) -> None:
    """Of all but the share that it has for two looks more, and what a tenth of a core grows to."""

    def now_and_then(site: Site, vm: int, number: int) -> None:
        now_does(site, vm, IDLE if number % every else "1")

    _, kept, used = beside_a_rich_one(now_and_then, "1")
    assert used >= 0.45 * (kept - LOOKS * 300 - 8 * 3 * MARGIN), (kept, used)


def test_a_vm_that_becomes_busy_has_its_whole_share_after_five_periods() -> None:
    """Of three cores, on a full host: 10, 30, 70, 150, 300 percent of a core."""
    has: list[float] = []

    def from_now_on(site: Site, vm: int, number: int) -> None:
        if number == 0:
            now_does(site, vm, "1")
        has.append(site.quota(vm))

    beside_a_rich_one(from_now_on)
    assert has[0] == pytest.approx(10, abs=1)
    assert has[5] >= 290
    assert has[:6] == sorted(has[:6])


def test_an_owner_is_told_why_a_share_is_small() -> None:
    """In SCHED_MESSAGE; and a claim to cores keeps none for an idle VM."""
    site = Site(hosts=1)
    try:
        site.create(100.0, 2)
        idle = f'CPU="1"\nVCPU="3"\nMEMORY="1024"\nMERKAT_MIN_CPU="300"\n{does(IDLE)}'
        vm = site.bench.new(idle)
        site.periods(6)
        last = site.periods(1)
        row = last.seen.snapshot.vm_row(vm)
        assert last.decided.decision.allocations[row, 0] <= 1.1 * MARGIN
        assert last.decided.decision.reasons[vm].startswith("it used little CPU lately")
    finally:
        site.close()


def test_a_vm_of_which_nothing_is_known_counts_with_all_that_it_can_use() -> None:
    """The higher of two looks counts, and one that is known is enough."""
    hosts = hosts_table(np.array([[400.0, 4096.0]]))
    vms = vms_table([0] * 3, [[1.0, 1.0]] * 3, [[300.0, 1024.0]] * 3)
    snapshot = cloud(hosts, vms)
    assert limited_to_use(snapshot) is snapshot
    samples = np.full((3, 3, 2), np.nan)
    samples[:, 1, 0] = [200.0, 20.0, 5.0]
    samples[2, 2, 0] = 120.0
    history = UsageHistory(np.arange(3.0), samples, np.full((3, 1, 2), np.nan))
    known = replace(snapshot, history=history)
    assert limited_to_use(known).vms.cap[:, 0].tolist() == [300.0, 50.0, 250.0]
