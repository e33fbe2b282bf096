"""Reading of hosts: all guests in one call, limits in turn, and changes by other programs."""

from typing import Any

import libvirt
import pytest

from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.limits import UNSET
from tests.hypervisor.bed import Bed, balloon, limit, run_now
from tests.hypervisor.double import DoubleHost
from tests.hypervisor.handle import Handle

PART = 5


def settle(count: int = 10, kind: str = "qemu") -> tuple[Bed, DoubleHost]:
    """Return a host that was read, with its count of calls reset."""
    host = DoubleHost(kind)
    for vm in range(count):
        host.start(vm)
    bed = Bed({0: host}, LibvirtSettings(check_every=PART))
    bed.read()
    host.calls.clear()
    return bed, host


def test_all_guests_are_read_in_one_call_and_limits_in_turn() -> None:
    """Each period reads a fifth of the limits, and each VM's once in five periods."""
    bed, host = settle()
    for _ in range(PART):
        bed.read()
        assert host.calls == {"getAllDomainStats": 1, "schedulerParameters": 2}
        host.calls.clear()


def test_a_reading_to_show_forgets_no_other_guest() -> None:
    """Others can still be limited, and keep their last values while their host is away."""
    bed, host = settle(2)
    run_now(bed.adapter.read({1: 0}, to_show=True))
    assert bed.apply(limit(0, 50_000)) == {}
    run_now(bed.adapter.read({1: 0}, to_show=True))
    host.up = False
    assert bed.read({0: 0, 1: 0}).in_force.vcpu_quota_us.tolist() == [50_000, UNSET]


@pytest.mark.parametrize("kind", ["lxc", "xen"])
def test_without_a_bulk_call_each_requested_guest_is_read(kind: str) -> None:
    """Guests that were not requested are not read."""
    bed, host = settle(3, kind)
    host.calls.clear()
    assert bed.read({1: 0}).vm_id.tolist() == [1]
    assert host.calls["info"] == 1
    assert host.calls["getAllDomainStats"] == 0


def test_use_is_read() -> None:
    """The reading has CPU time, held memory and used memory."""
    bed, host = settle(1)
    host.domains["one-0"].cpu_s = 12.5
    seen = bed.read()
    assert seen.cpu_s.tolist() == [12.5]
    assert seen.held_mib.tolist() == [1024.0]
    assert seen.used_mib.tolist() == [300.0]


def test_guests_are_set_to_report_their_memory_use() -> None:
    """A reporting period that is already set is kept."""
    host = DoubleHost()
    host.start(0)
    host.start(1, stats_period_s=3)
    Bed({0: host}).read()
    assert [host.domains[f"one-{vm}"].stats_period_s for vm in range(2)] == [10, 3]


def test_outdated_memory_use_is_unknown() -> None:
    """A dead guest keeps its last number, which expires after a minute."""
    bed, host = settle(1)
    there = host.domains["one-0"]
    there.told_at = 100
    assert bed.read().used_mib.tolist() == [300.0]
    there.told_at = 160
    assert bed.read().used_mib.tolist() == [300.0]
    seen = bed.read(after_s=61)
    assert seen.used_mib.tolist() != [300.0]
    assert seen.in_force.balloon.tolist() == [False]


def test_a_busy_guest_keeps_its_last_values() -> None:
    """If libvirt returns only a part of its values, the last ones are used."""
    bed, host = settle(1)
    before = bed.read()
    host.domains["one-0"].busy = True
    after = bed.read()
    assert after.held_mib.tolist() == before.held_mib.tolist()
    assert after.used_mib.tolist() == before.used_mib.tolist()


def test_changes_by_others_are_detected_counted_and_reverted() -> None:
    """This takes at most as many periods as there are parts."""
    bed, host = settle(PART)
    steps = [limit(vm, vcpu=20_000) for vm in range(PART)]
    bed.apply(*steps)
    bed.read()
    host.domains["one-3"].scheduler["vcpu_quota"] = 77_000
    seen = [bed.read().in_force.vcpu_quota_us[3] for _ in range(PART)]
    assert 77_000 in seen
    assert bed.adapter.reach().drift == 1
    assert bed.apply(*steps) == {}
    assert host.domains["one-3"].scheduler["vcpu_quota"] == 20_000
    assert bed.read().in_force.vcpu_quota_us.tolist() == [20_000] * PART
    assert bed.adapter.reach().drift == 1


def test_a_restarted_guest_has_its_hosts_own_limits() -> None:
    """Its domain has a new id, so limits that were set before no longer count."""
    bed, host = settle(2)
    bed.apply(limit(0, vcpu=20_000), limit(1, vcpu=20_000), balloon(0, 700))
    host.start(0)
    there = bed.read().in_force
    assert there.vcpu_quota_us.tolist() == [UNSET, 20_000]
    assert there.memory_mib.tolist() == [UNSET, UNSET]
    assert bed.adapter.reach().drift == 0


def test_a_migrated_guest_is_read_on_its_new_host() -> None:
    """A live migration may keep limits or not, so the host is read."""
    first, other = DoubleHost(), DoubleHost()
    there = first.start(0)
    bed = Bed({0: first, 1: other})
    bed.read()
    bed.apply(limit(0, vcpu=20_000))
    came = other.start(0)
    came.scheduler = dict(there.scheduler)
    del first.domains["one-0"]
    assert bed.read().in_force.vcpu_quota_us.tolist() == [20_000]
    assert bed.apply(limit(0, vcpu=30_000)) == {}
    assert came.scheduler["vcpu_quota"] == 30_000


def test_guests_that_end_while_they_are_read_are_left_out() -> None:
    """Whatever error libvirt returns for them, the other guests are read."""
    bed, host = settle(0)
    for vm in range(3):
        host.start(vm)
    host.refuse = lambda call, domain: (
        libvirt.VIR_ERR_NO_DOMAIN if (call, domain) == ("XMLDesc", "one-1") else None
    )
    assert bed.read().vm_id.tolist() == [0, 2]
    assert bed.adapter.reach().away == {}


def test_an_unreadable_guest_does_not_affect_others() -> None:
    """It is left out until its limits are known, and keeps its known limits later."""
    bed, host = settle(0)
    for vm in range(2):
        host.start(vm)
    invalid = libvirt.VIR_ERR_OPERATION_INVALID
    host.refuse = lambda call, domain: (
        invalid if (call, domain) == ("schedulerParameters", "one-1") else None
    )
    assert bed.read().vm_id.tolist() == [0]
    host.refuse = lambda _call, _domain: None
    assert bed.read().vm_id.tolist() == [0, 1]
    bed.apply(limit(1, vcpu=20_000))
    host.refuse = lambda call, _domain: invalid if call == "schedulerParameters" else None
    for _ in range(PART):
        assert bed.read().in_force.vcpu_quota_us.tolist() == [UNSET, 20_000]
    assert bed.adapter.reach().away == {}


def test_foreign_domains_are_ignored() -> None:
    """Domains without OpenNebula's names and VMs that were not requested are left out."""
    bed, host = settle(1)
    host.start(5)
    domain: Any = host.domains.pop("one-5")
    domain.label = "db-server"
    host.domains["db-server"] = domain
    host.start(6)
    assert bed.read({0: 0}).vm_id.tolist() == [0]
    assert run_now(bed.adapter.read({})).vm_id.tolist() == []


@pytest.mark.parametrize("xml", ["<domain><vcpu current='x'>2</vcpu></domain>", "<domain><vcpu>2"])
def test_a_guest_with_a_broken_description_hides_no_other(
    xml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbours are read and limited, and their host does not count as away."""
    plain = Handle.XMLDesc

    def return_broken_xml(self: Handle, flags: int) -> str:
        return xml if self.name() == "one-1" else plain(self, flags)

    monkeypatch.setattr(Handle, "XMLDesc", return_broken_xml)
    host = DoubleHost()
    for vm in range(3):
        host.start(vm)
    bed = Bed({0: host})
    assert bed.read().vm_id.tolist() == [0, 2]
    assert bed.adapter.reach().away == {}
    refused = bed.apply(*[limit(vm, vcpu=20_000) for vm in range(3)])
    assert len(refused) <= 1
    assert {host.domains[f"one-{vm}"].scheduler["vcpu_quota"] for vm in (0, 2)} == {20_000}


@pytest.mark.parametrize("kind", ["qemu", "lxc", "xen"])
def test_runs_need_one_call_a_host(kind: str) -> None:
    """A restarted guest has another run, and no guest is read for it."""
    host = DoubleHost(kind)
    host.start(1)
    host.start(2)
    bed = Bed({0: host})
    use = bed.read()
    assert use.run is not None
    host.calls.clear()
    runs = run_now(bed.adapter.runs([0]))
    assert host.calls == {"listAllDomains": 1}
    assert runs == {0: dict(zip([1, 2], use.run.tolist(), strict=True))}
    host.start(1)
    again = run_now(bed.adapter.runs([0]))
    assert again[0][1] != runs[0][1]
    assert again[0][2] == runs[0][2]


def test_hosts_that_are_away_have_no_runs() -> None:
    """The runs of the other hosts are returned."""
    hosts = {0: DoubleHost(), 1: DoubleHost()}
    for vm, host in hosts.items():
        host.start(vm)
    bed = Bed(hosts)
    bed.read()
    hosts[0].up = False
    assert run_now(bed.adapter.runs([0, 1])).keys() == {1}
