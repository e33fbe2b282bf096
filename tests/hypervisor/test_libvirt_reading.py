"""What is read of hosts: all guests in one call, limits in turn, and what others changed."""

from typing import Any

import libvirt
import pytest

from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.limits import UNSET
from tests.hypervisor.bed import Bed, at_once, balloon, limit
from tests.hypervisor.double import DoubleHost
from tests.hypervisor.handle import Handle

PART = 5


def settled(count: int = 10, kind: str = "qemu") -> tuple[Bed, DoubleHost]:
    """A host that was read, with its calls not yet counted."""
    host = DoubleHost(kind)
    for vm in range(count):
        host.start(vm)
    bed = Bed({0: host}, LibvirtSettings(check_every=PART))
    bed.read()
    host.calls.clear()
    return bed, host


def test_all_guests_in_one_call_and_limits_in_turn() -> None:
    """A fifth of the limits in each of five periods, each VM's once."""
    bed, host = settled()
    for _ in range(PART):
        bed.read()
        assert host.calls == {"getAllDomainStats": 1, "schedulerParameters": 2}
        host.calls.clear()


@pytest.mark.parametrize("kind", ["lxc", "xen"])
def test_where_there_is_no_bulk_call_each_is_asked(kind: str) -> None:
    """And those alone that are asked for."""
    bed, host = settled(3, kind)
    host.calls.clear()
    assert bed.read({1: 0}).vm_id.tolist() == [1]
    assert host.calls["info"] == 1
    assert host.calls["getAllDomainStats"] == 0


def test_use() -> None:
    """CPU time, what is held, what is used of it."""
    bed, host = settled(1)
    host.domains["one-0"].cpu_s = 12.5
    seen = bed.read()
    assert seen.cpu_s.tolist() == [12.5]
    assert seen.held_mib.tolist() == [1024.0]
    assert seen.used_mib.tolist() == [300.0]


def test_guests_are_made_to_tell_their_use_of_memory() -> None:
    """Unless somebody has set how often already."""
    host = DoubleHost()
    host.start(0)
    host.start(1, stats_period_s=3)
    Bed({0: host}).read()
    assert [host.domains[f"one-{vm}"].stats_period_s for vm in range(2)] == [10, 3]


def test_use_that_is_no_longer_told_is_not_known() -> None:
    """A guest that died holds an old number; after a minute nobody believes it."""
    bed, host = settled(1)
    there = host.domains["one-0"]
    there.told_at = 100
    assert bed.read().used_mib.tolist() == [300.0]
    there.told_at = 160
    assert bed.read().used_mib.tolist() == [300.0]
    seen = bed.read(after_s=61)
    assert seen.used_mib.tolist() != [300.0]
    assert seen.in_force.balloon.tolist() == [False]


def test_a_guest_that_is_busy_is_as_it_was() -> None:
    """Where only part of it can be told in that moment."""
    bed, host = settled(1)
    before = bed.read()
    host.domains["one-0"].busy = True
    after = bed.read()
    assert after.held_mib.tolist() == before.held_mib.tolist()
    assert after.used_mib.tolist() == before.used_mib.tolist()


def test_what_others_change_is_seen_counted_and_put_right() -> None:
    """Within as many periods as there are parts."""
    bed, host = settled(PART)
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


def test_a_guest_that_started_anew_has_its_host_s_own_limits() -> None:
    """Its domain has another id: nothing of what was set before is believed."""
    bed, host = settled(2)
    bed.apply(limit(0, vcpu=20_000), limit(1, vcpu=20_000), balloon(0, 700))
    host.start(0)
    there = bed.read().in_force
    assert there.vcpu_quota_us.tolist() == [UNSET, 20_000]
    assert there.memory_mib.tolist() == [UNSET, UNSET]
    assert bed.adapter.reach().drift == 0


def test_a_guest_that_came_from_another_host_is_read_there() -> None:
    """Limits go along with a live migration, or do not: the host is asked."""
    one, other = DoubleHost(), DoubleHost()
    there = one.start(0)
    bed = Bed({0: one, 1: other})
    bed.read()
    bed.apply(limit(0, vcpu=20_000))
    came = other.start(0)
    came.scheduler = dict(there.scheduler)
    del one.domains["one-0"]
    assert bed.read().in_force.vcpu_quota_us.tolist() == [20_000]
    assert bed.apply(limit(0, vcpu=30_000)) == {}
    assert came.scheduler["vcpu_quota"] == 30_000


def test_guests_that_end_while_they_are_read_are_left_out() -> None:
    """Whatever libvirt says of them by then."""
    bed, host = settled(0)
    for vm in range(3):
        host.start(vm)
    host.refuse = lambda call, domain: (
        libvirt.VIR_ERR_NO_DOMAIN if (call, domain) == ("XMLDesc", "one-1") else None
    )
    assert bed.read().vm_id.tolist() == [0, 2]
    assert bed.adapter.reach().away == {}


def test_a_guest_that_cannot_be_looked_at_harms_no_other() -> None:
    """It is left out until somebody knows its limits; after that they are as they were."""
    bed, host = settled(0)
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


def test_domains_of_others_are_none_of_ours() -> None:
    """Neither names that are not OpenNebula's nor VMs that nobody asked for."""
    bed, host = settled(1)
    host.start(5)
    domain: Any = host.domains.pop("one-5")
    domain.label = "db-server"
    host.domains["db-server"] = domain
    host.start(6)
    assert bed.read({0: 0}).vm_id.tolist() == [0]
    assert at_once(bed.adapter.read({})).vm_id.tolist() == []


@pytest.mark.parametrize("xml", ["<domain><vcpu current='x'>2</vcpu></domain>", "<domain><vcpu>2"])
def test_a_guest_whose_description_makes_no_sense_hides_no_other(
    xml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbours are read and limited, and their host is not said to be away."""
    plain = Handle.XMLDesc

    def odd(self: Handle, flags: int) -> str:
        return xml if self.name() == "one-1" else plain(self, flags)

    monkeypatch.setattr(Handle, "XMLDesc", odd)
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
def test_runs_are_told_by_one_call_a_host(kind: str) -> None:
    """A guest that was started anew has another one; no guest is read for it."""
    host = DoubleHost(kind)
    host.start(1)
    host.start(2)
    bed = Bed({0: host})
    use = bed.read()
    assert use.run is not None
    host.calls.clear()
    runs = at_once(bed.adapter.runs([0]))
    assert host.calls == {"listAllDomains": 1}
    assert runs == {0: dict(zip([1, 2], use.run.tolist(), strict=True))}
    host.start(1)
    again = at_once(bed.adapter.runs([0]))
    assert again[0][1] != runs[0][1]
    assert again[0][2] == runs[0][2]


def test_hosts_that_are_away_tell_no_runs() -> None:
    """The others do."""
    hosts = {0: DoubleHost(), 1: DoubleHost()}
    for vm, host in hosts.items():
        host.start(vm)
    bed = Bed(hosts)
    bed.read()
    hosts[0].up = False
    assert at_once(bed.adapter.runs([0, 1])).keys() == {1}
