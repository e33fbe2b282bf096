"""Whole periods on hosts behind libvirt: they settle, recover, and skip unreachable hosts."""

from collections.abc import Iterator
from typing import Any

import pytest

from merkatd.cluster import Balloon, Limit, Migrate, Pin
from merkatd.currency import MICRO
from merkatd.database.scheduler import price_store
from merkatd.database.scheduler.order_store import Order
from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.scheduler.charging.owed_amounts import owed_by_vm
from merkatd.scheduler.observation.snapshot_builder import MEMORY
from merkatd.scheduler.phases.announce import Announcement
from tests.hypervisor.bed import Bed
from tests.hypervisor.double import DoubleHost
from tests.hypervisor.handle import NO_QUOTA
from tests.scheduler.frontend import PAPER_MARKET, Frontend
from tests.served import questions_at

ON_HOST = (Limit, Pin, Balloon)
SETTINGS = LibvirtSettings(
    check_every=2, pin_hosts=frozenset({"host000"}), reserved_cores=frozenset({0})
)


class Site:
    """A cloud whose VMs are domains of two doubles."""

    def __init__(self) -> None:
        self.hosts = {0: DoubleHost(cores=4), 1: DoubleHost(cores=4)}
        self.bed = Bed(self.hosts, SETTINGS)
        self.frontend = Frontend(hosts=2, hypervisors=self.bed.adapter, markets=(PAPER_MARKET,))
        self.vms: list[int] = []
        self.rigid: set[int] = set()
        """VMs whose guests have no balloon."""

    def vm(self, bid: float, **attributes: Any) -> None:
        """Add a VM of two cores."""
        self.vms.append(self.frontend.vm(bid, **attributes))

    def follow(self) -> None:
        """Start and remove domains as OpenNebula's drivers would."""
        for vm in self.vms:
            runs = self.frontend.state(vm) == "RUNNING"
            at = self.frontend.host_of(vm) if runs else None
            for number, host in self.hosts.items():
                domain = f"one-{vm}"
                if number != at:
                    host.domains.pop(domain, None)
                elif domain not in host.domains:
                    balloon = "none" if vm in self.rigid else "virtio"
                    host.start(vm, vcpus=2, memory_mib=2048, balloon=balloon)

    def period(self) -> Announcement:
        """Run a period and a minute; return its announcement."""
        self.follow()
        latest = self.frontend.period()
        self.frontend.clock.advance(60)
        self.bed.clock.advance(60)
        self.follow()
        return latest

    def settled(self) -> Announcement:
        """Run periods until nothing changes; return the last announcement."""
        for _ in range(12):
            latest = self.period()
            if latest.seen.period > 2 and not latest.decided.steps:
                return latest
        raise AssertionError(f"still changing: {latest.decided.steps}")

    def domain(self, vm: int) -> Any:
        """Return a VM's domain on its host."""
        return next(h.domains[f"one-{vm}"] for h in self.hosts.values() if f"one-{vm}" in h.domains)


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a site with six VMs with bids from 1 to 6."""
    new_site = Site()
    for bid in range(1, 7):
        new_site.vm(float(bid))
    yield new_site
    new_site.frontend.close()


def host_steps(latest: Announcement) -> list[Any]:
    """Return the steps that hosts got in a period."""
    return [step for step in latest.decided.steps if isinstance(step, ON_HOST)]


def test_shares_become_quotas_and_are_sent_once(site: Site) -> None:
    """Each quota equals the share; VMs on the host with pins have one quota in all."""
    latest = site.settled()
    snapshot, decision = latest.seen.snapshot, latest.decided.decision
    for vm in site.vms:
        row = snapshot.vm_row(vm)
        there = site.domain(vm).scheduler
        units = decision.allocations[row, 0]
        if snapshot.hosts.name[snapshot.vms.host[row]] == "host000":
            assert there["global_quota"] == pytest.approx(units * 1_000, rel=0.03)
            assert all(sum(may) == 1 for may in site.domain(vm).pins)
        else:
            assert there["vcpu_quota"] == pytest.approx(units * 500, rel=0.03)
    before = {number: host.changes() for number, host in site.hosts.items()}
    for _ in range(3):
        site.period()
    assert {number: host.changes() for number, host in site.hosts.items()} == before


def test_a_guest_without_a_balloon_pays_for_its_whole_memory(site: Site) -> None:
    """It pays for all its memory, whatever its share is; the others pay for their shares."""
    site.vm(1.0, MERKAT_MAX_MEMORY=1024)
    site.rigid.add(site.vms[-1])
    site.vm(1.0, MERKAT_MAX_MEMORY=1024)
    latest = site.settled()
    snapshot, decision = latest.seen.snapshot, latest.decided.decision
    rigid, other = site.vms[-2:]
    assert decision.allocations[snapshot.vm_row(rigid), MEMORY] == 1024
    arrays = site.frontend.read(
        lambda connection: price_store.load_allocations(connection, snapshot.period)
    )
    assert arrays is not None
    rows, owed = owed_by_vm(arrays, snapshot.vms.id, 1.0, [PAPER_MARKET])
    mib = owed[:, MEMORY] / MICRO / decision.prices[0, MEMORY]
    paid = dict(zip(arrays["vm"][rows].tolist(), mib.tolist(), strict=True))
    assert paid[rigid] == pytest.approx(2048)
    assert paid[other] == pytest.approx(1024)


def test_changes_by_others_are_reverted(site: Site) -> None:
    """They are reverted within `check_every` periods plus one."""
    site.settled()
    there = site.domain(site.vms[0]).scheduler
    before = dict(there)
    quota = "vcpu_quota" if there["vcpu_quota"] != NO_QUOTA else "global_quota"
    there[quota] = 177_000
    for _ in range(3):
        site.period()
    assert there == before
    assert site.bed.adapter.reach().drift >= 1


def test_a_restarted_vm_is_limited_again(site: Site) -> None:
    """OpenNebula restarts it with its own weight and no quota, and the next period reacts."""
    site.settled()
    vm = site.vms[5]
    number = site.frontend.host_of(vm)
    before = dict(site.domain(vm).scheduler)
    site.hosts[number].start(vm, vcpus=2, memory_mib=2048)
    assert site.domain(vm).scheduler != before
    site.period()
    assert site.domain(vm).scheduler == before


def test_limits_are_shown_during_a_period_without_effect_on_its_steps(site: Site) -> None:
    """They are of the VMs of the last period, so a new VM's limits were refused."""
    scheduler, adapter = site.frontend.scheduler, site.bed.adapter
    scheduler.latest = site.settled()
    questions, apply = questions_at(scheduler), adapter.apply
    site.vm(4.0)
    scheduler.latest = site.period()

    async def apply_after_a_look(steps: Any) -> Any:
        await questions.answer("limits", {})
        return await apply(steps)

    adapter.apply = apply_after_a_look  # type: ignore[method-assign]
    latest = site.period()
    assert latest.acted.sent
    assert not latest.acted.refused
    assert site.domain(site.vms[-1]).scheduler["global_quota"] > 0


def test_hosts_that_are_away_get_no_steps(site: Site) -> None:
    """The journal has no steps for them either, and other hosts are served."""
    site.settled()
    site.hosts[1].up = False
    site.vm(40.0)
    site.vm(40.0)
    for _ in range(3):
        latest = site.period()
        hosts_called = {
            int(latest.seen.observation.vm_host[step.vm]) for step in host_steps(latest)
        }
        assert 1 not in hosts_called
    assert latest.acted.refused == 0
    site.hosts[1].up = True
    site.bed.clock.advance(1_000)
    assert any(
        int(latest.seen.observation.vm_host[step.vm]) == 1
        for latest in (site.period() for _ in range(3))
        for step in host_steps(latest)
    )


def test_pins_are_removed_before_a_migration(site: Site) -> None:
    """The target may lack the cores that the VM was pinned to."""
    site.settled()
    pinned = [vm for vm in site.vms if site.frontend.host_of(vm) == 0]
    assert pinned
    for vm in pinned:
        assert any(not all(may) for may in site.domain(vm).pins)
    freed: list[tuple[int, ...]] = []
    host = site.hosts[0]
    send = site.frontend.scheduler.world.cloud.send

    async def record_pins(step: Any) -> Any:
        if isinstance(step, Migrate) and step.source == 0:
            freed.append(tuple(map(sum, host.domains[f"one-{step.vm}"].pins)))
        return await send(step)

    site.frontend.scheduler.world.cloud.send = record_pins  # type: ignore[method-assign]
    site.frontend.order(Order.DRAIN, 0)
    for _ in range(6):
        site.period()
    assert freed
    assert set(freed) == {(4, 4)}


def test_vms_that_opennebula_pins_keep_their_cores(site: Site) -> None:
    """They get a quota in all, and Merkat never pins them."""
    text = 'CPU=1\nVCPU=2\nMEMORY=2048\nMERKAT_BID_CPU=3\nTOPOLOGY=[PIN_POLICY="CORE"]'
    vm = site.frontend.bench.new(text)
    site.vms.append(vm)
    site.frontend.bench.ok("one.vm.deploy", vm, 0)
    site.frontend.clock.advance(60)
    site.follow()
    at = site.hosts[site.frontend.host_of(vm)]
    theirs = [(False, False, False, True), (False, True, False, False)]
    site.domain(vm).pins = list(theirs)
    latest = site.settled()
    assert vm in latest.seen.observation.pin_policy
    assert site.domain(vm).pins == theirs
    assert site.domain(vm).scheduler["global_quota"] > 0
    assert site.domain(vm).scheduler["vcpu_quota"] == NO_QUOTA
    assert at.domains[f"one-{vm}"].emulator == (True,) * 4


def test_a_guest_that_reports_more_free_memory_than_it_has_stops_no_period(site: Site) -> None:
    """A guest's own driver writes these numbers; it then needs no memory at all."""
    site.settled()
    liar = site.vms[0]
    site.domain(liar).used_mib = -100.0
    latest = site.period()
    row = latest.seen.snapshot.vm_row(liar)
    assert latest.seen.snapshot.vms.floor[row, MEMORY] == 0.0
    assert len(latest.decided.decision.allocations) == len(site.vms)
