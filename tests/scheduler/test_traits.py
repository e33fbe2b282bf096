"""Columns of the snapshot that describe hosts and VMs, with the whole daemon."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Snapshot, VmKind
from merkatd.cluster.snapshot_json import dumps, loads
from merkatd.database.retention import Horizon, delete_old_rows
from merkatd.database.scheduler import journal
from merkatd.database.vm_history_store import VmHistories, read_histories
from merkatd.scheduler.base.ports import GuestUse
from merkatd.scheduler.base.settings import GoodsSettings
from merkatd.scheduler.base.traits import FailureSettings
from tests.scheduler.frontend import Frontend

REPLACE, ADD = 0, 1


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Yield a frontend with three hosts."""
    made = Frontend(goods=GoodsSettings(host_network_mbit_s=2500.0))
    yield made
    made.close()


def snapshot(frontend: Frontend, periods: int = 1) -> Snapshot:
    """Return the snapshot of the last of some periods."""
    return frontend.periods(periods).seen.snapshot


def describe(frontend: Frontend, *templates: str) -> None:
    """Give hosts 0, 1, ... these templates."""
    for host, text in enumerate(templates):
        frontend.bench.ok("one.host.update", host, text, REPLACE)


def test_a_link_has_the_bandwidth_that_its_host_states(frontend: Frontend) -> None:
    """MERKAT_LINK precedes MERKAT_NETWORK, which precedes the bandwidth of all hosts."""
    describe(frontend, 'MERKAT_LINK="40000"\nMERKAT_NETWORK="400"', 'MERKAT_NETWORK="400"', 'A="1"')
    assert snapshot(frontend).hosts.link_mbps.tolist() == [40_000.0, 400.0, 2_500.0]
    describe(frontend, 'MERKAT_LINK="fast"\nMERKAT_NETWORK="400"', 'MERKAT_NETWORK="-"', 'A="1"')
    assert snapshot(frontend).hosts.link_mbps.tolist() == [400.0, 2_500.0, 2_500.0]


def test_the_snapshot_has_the_traits_of_hosts(frontend: Frontend) -> None:
    """They survive both forms, and the failure rates are those of the configuration."""
    text = 'MERKAT_POWER_DOMAIN="{} x"\nMERKAT_TOPOLOGY="dc/{}"\nMERKAT_FULL_WATTS="{}"'
    describe(frontend, *(text.format(f"f{n % 2}", f"r{n // 2}", 100 + n) for n in range(3)))
    seen = snapshot(frontend)
    assert seen.hosts.domains["power"].tolist() == [[0, 2], [1, 2], [0, 2]]
    assert seen.hosts.topology.tolist() == [[0, 0], [0, 0], [0, 1]]
    assert seen.hosts.full_watts.tolist() == [100.0, 101.0, 102.0]
    assert np.isnan(seen.hosts.idle_watts).all()
    assert seen.failure_rates.kind == ("host", "network", "power")
    assert seen.failure_rates.per_year.tolist() == [0.5, 0.2, 0.1]
    assert dumps(loads(dumps(seen))) == dumps(seen)
    world = frontend.scheduler.world
    frontend.scheduler.adopt(replace(world, failures=FailureSettings(host_per_year=3.0)))
    assert snapshot(frontend).failure_rates.per_year.tolist() == [3.0, 0.2, 0.1]


def test_owners_describe_their_vms(frontend: Frontend) -> None:
    """The kind and the dirty rate follow the template; without it the rate is unknown."""
    frontend.vm(MERKAT_KIND="batch", MERKAT_DIRTY_RATE="12.5")
    frontend.vm(MERKAT_KIND="SERVICE")
    frontend.vm()
    frontend.bench.ok("one.vm.update", frontend.vm(), 'MERKAT=[KIND="BATCH", DIRTY_RATE="0"]', ADD)
    vms = snapshot(frontend).vms
    assert vms.kind.tolist() == [VmKind.BATCH, VmKind.SERVICE, VmKind.SERVICE, VmKind.BATCH]
    assert vms.dirty_mib_s[[0, 3]].tolist() == [12.5, 0.0]
    assert np.isnan(vms.dirty_mib_s[1:3]).all()


def test_a_measured_rate_replaces_the_stated_one(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest without a measurement keeps the rate of its template."""
    for _ in range(3):
        frontend.vm(MERKAT_DIRTY_RATE="5")
    hypervisors = frontend.scheduler.world.hypervisors
    read = hypervisors.read

    async def measured(places: Mapping[int, int]) -> GuestUse:
        use = await read(places)
        return replace(use, dirty_mib_s=np.where(use.vm_id == 1, 80.0, np.nan))

    monkeypatch.setattr(hypervisors, "read", measured)
    vms = snapshot(frontend, 3).vms
    assert dict(zip(vms.id.tolist(), vms.dirty_mib_s.tolist(), strict=True)) == {0: 5, 1: 80, 2: 5}


def test_an_owner_learns_of_a_wrong_description(frontend: Frontend) -> None:
    """The message is the VM's SCHED_MESSAGE, and the other attribute counts."""
    vm = frontend.vm(MERKAT_KIND="job", MERKAT_DIRTY_RATE="-3")
    other = frontend.vm(MERKAT_KIND="batch", MERKAT_DIRTY_RATE="many")
    vms = snapshot(frontend, 2).vms
    assert vms.kind.tolist() == [VmKind.SERVICE, VmKind.BATCH]
    assert np.isnan(vms.dirty_mib_s).all()
    message = frontend.bench.vm(vm).user_template.get("SCHED_MESSAGE")
    assert "MERKAT_KIND must be SERVICE or BATCH (got 'job')" in message
    assert "MERKAT_DIRTY_RATE must be a number from 0 to 1e+15 (got '-3')" in message
    assert "(got 'many')" in frontend.bench.vm(other).user_template.get("SCHED_MESSAGE")


def test_a_guest_has_started_only_while_it_runs(frontend: Frontend) -> None:
    """The time is that of OpenNebula's record; a VM that is off or waits has none."""
    before_s = frontend.clock.seconds()
    vm = frontend.vm()
    waits = frontend.vm(SCHED_REQUIREMENTS="ID=99")
    vms = snapshot(frontend, 3).vms
    (row,) = np.flatnonzero(vms.id == vm)
    record = frontend.bench.vm(vm).history[-1]
    assert before_s <= vms.started_s[row] == record.rstime
    assert np.isnan(vms.started_s[vms.id == waits]).all()
    frontend.bench.ok("one.vm.action", "poweroff-hard", vm)
    frontend.clock.advance(30)
    assert np.isnan(snapshot(frontend).vms.started_s).all()


def test_a_migration_is_dated_by_its_confirmation(frontend: Frontend) -> None:
    """The time is in the journal; OpenNebula's new record begins on the new host."""
    vm = frontend.vm()
    vms = snapshot(frontend, 3).vms
    assert np.isnan(vms.moved_at_s).all()
    frontend.bench.ok("one.vm.action", "resched", vm)
    begun_s, host = frontend.clock.seconds(), frontend.host_of(vm)
    latest = snapshot(frontend, 3)
    assert frontend.host_of(vm) != host
    assert begun_s < latest.vms.moved_at_s[0] <= latest.now_s
    assert begun_s < latest.vms.started_s[0] <= latest.vms.moved_at_s[0]


def test_the_last_migration_is_known_while_the_vm_exists(frontend: Frontend) -> None:
    """However long ago it was, also if the journal has forgotten it."""
    vm = frontend.vm()
    frontend.periods(3)
    frontend.bench.ok("one.vm.action", "resched", vm)
    moved_s = snapshot(frontend, 3).vms.moved_at_s[0]
    assert moved_s > 0
    frontend.clock.advance(30 * 86_400.0)
    horizon = Horizon(details_period=10**6, details_s=0.0, history_s=0.0)
    frontend.read(lambda c: delete_old_rows(c, horizon))
    assert not frontend.read(lambda c: journal.recent(c, journal.StepFilter(vm=vm), 99))
    frontend.start_daemon()
    assert snapshot(frontend).vms.moved_at_s.tolist() == [moved_s]
    frontend.bench.ok("one.vm.action", "terminate-hard", vm)
    frontend.periods(2)
    assert frontend.read(read_histories) == VmHistories()


def test_disks_have_their_size_and_storage(frontend: Frontend) -> None:
    """Disks on a local system datastore are not shared; a VM without a host has no storage yet."""
    bench = frontend.bench
    text = 'NAME="{}"\nTYPE="DATABLOCK"\nSIZE="{}"\nFORMAT="raw"'
    images = [bench.ok("one.image.allocate", text.format(n, 100 * (n + 1)), 1) for n in range(2)]
    disks = "\n".join(f'DISK=[IMAGE_ID="{image}"]' for image in images)
    made = [bench.new(f'CPU="1"\nMEMORY="512"\n{more}') for more in (disks, "", disks)]
    bench.ok("one.vm.update", made[2], 'SCHED_REQUIREMENTS="ID=99"', ADD)
    vms = snapshot(frontend, 3).vms
    assert vms.disk_mib.tolist() == [300.0, 0.0, 300.0]
    assert vms.shared_disk.tolist() == [True, True, True]
    bench.ok("one.datastore.update", 0, 'SHARED="NO"', ADD)
    vms = snapshot(frontend).vms
    assert vms.host.tolist()[2] == -1
    assert vms.shared_disk.tolist() == [False, True, True]
