"""Removing Merkat leaves no trace: every VM gets what it would have without Merkat."""

from dataclasses import replace
from pathlib import Path

import pytest

from merkatd.cluster import Balloon, Limit, Pin
from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.scheduler.base.ports import FullSize, ReleaseResult
from tests.hypervisor.bed import Bed, balloon, limit, pin, run_now
from tests.hypervisor.double import DoubleDomain, DoubleHost
from tests.hypervisor.handle import NO_QUOTA
from tests.hypervisor.xl import FakeXl

PINNING = LibvirtSettings(pin_hosts=frozenset({"*"}), reserved_cores=frozenset({0}))


def full_size(vm: int, host: int = 0, cpu_units: float = 150) -> FullSize:
    """Return a VM of one and a half cores."""
    return FullSize(vm=vm, host=host, cpu_units=cpu_units, memory_mib=1024, vcpus=2)


def limited(kind: str, most_shares: int = 262_144) -> tuple[Bed, DoubleHost, DoubleDomain]:
    """Return a VM with every kind of limit."""
    host = DoubleHost(kind, most_shares=most_shares)
    there = host.start(0)
    bed = Bed({0: host}, PINNING)
    bed.read()
    steps: list[Limit | Pin | Balloon] = [limit(0, vcpu=20_000, shares=77), balloon(0, 700)]
    if kind == "qemu":
        steps.append(pin(0, ((1,), (2,))))
    assert bed.apply(*steps) == {}
    return bed, host, there


@pytest.mark.parametrize(("most_shares", "own"), [(262_144, 1536), (10_000, 150)])
def test_a_virtual_machine_is_released(most_shares: int, own: int) -> None:
    """Its weight is 1024 a core in control groups of version 1, and 100 in version 2."""
    bed, _, there = limited("qemu", most_shares)
    assert there.pins != [(True,) * 4] * 2
    did = run_now(bed.adapter.release([full_size(0)]))
    assert did == {
        0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory, no pins")
    }
    assert there.scheduler["vcpu_quota"] == there.scheduler["global_quota"] == NO_QUOTA
    assert there.scheduler["cpu_shares"] == own
    assert there.held_kib == there.size_kib
    assert there.pins == [(True,) * 4] * 2
    assert there.emulator == (True,) * 4
    assert there.stats_period_s == 0


def test_a_container_is_released() -> None:
    """Its hard limit is its size again."""
    bed, _, there = limited("lxc")
    did = run_now(bed.adapter.release([full_size(0)]))
    assert did == {0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory")}
    assert there.scheduler == {"cpu_shares": 1536, "vcpu_period": 100_000, "vcpu_quota": NO_QUOTA}
    assert there.held_kib == there.size_kib


def test_a_xen_guest_is_released(tmp_path: Path) -> None:
    """It has no cap, a weight of 256 a core, and pins removed by the command."""
    xl = FakeXl(tmp_path)
    xl.pin("one-0", "1", "2")
    _, host, there = limited("xen")
    fresh = Bed({0: host}, replace(PINNING, xen_command=xl.command))
    did = run_now(fresh.adapter.release([full_size(0)]))
    assert did == {
        0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory, no pins")
    }
    assert there.scheduler == {"weight": 384, "cap": 0}
    assert there.held_kib == there.size_kib
    assert xl.pins("one-0") == ["all", "all"]


def test_a_new_daemon_releases_limits_of_an_earlier_one() -> None:
    """A daemon started only for the release removes them too."""
    _, host, there = limited("qemu")
    fresh = Bed({0: host}, PINNING)
    assert run_now(fresh.adapter.release([full_size(0)]))[0].problem == ""
    assert there.scheduler["vcpu_quota"] == NO_QUOTA
    assert there.pins == [(True,) * 4] * 2
    assert there.stats_period_s == 0


def test_other_programs_settings_stay() -> None:
    """A reporting period of the guest that Merkat did not set is kept."""
    host = DoubleHost()
    there = host.start(0, stats_period_s=3)
    bed = Bed({0: host})
    bed.read()
    run_now(bed.adapter.release([full_size(0)]))
    assert there.stats_period_s == 3


def test_unreachable_hosts_are_named() -> None:
    """The result names the VMs that could not be released."""
    bed, host, _ = limited("qemu")
    host.up = False
    did = run_now(bed.adapter.release([full_size(0)]))
    assert did[0].did == ""
    assert "reset by peer" in did[0].problem


def test_a_failing_part_does_not_stop_the_others() -> None:
    """The result names the part that failed."""
    bed, host, there = limited("qemu")
    host.refuse = lambda call, _domain: 38 if call == "setMemory" else None
    did = run_now(bed.adapter.release([full_size(0)]))[0]
    assert did.did == "no CPU quota and OpenNebula's CPU weight, no pins"
    assert did.problem.startswith("full memory: ")
    assert there.scheduler["vcpu_quota"] == NO_QUOTA


def test_release_can_be_repeated_and_limits_set_again() -> None:
    """A second release succeeds, and later limits apply."""
    bed, _, there = limited("qemu")
    run_now(bed.adapter.release([full_size(0)]))
    assert run_now(bed.adapter.release([full_size(0)]))[0].problem == ""
    bed.read()
    assert bed.apply(limit(0, vcpu=20_000)) == {}
    assert there.scheduler["vcpu_quota"] == 20_000
