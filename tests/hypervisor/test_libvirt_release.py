"""Removing Merkat leaves no trace: every VM has what it would have without it."""

from dataclasses import replace
from pathlib import Path

import pytest

from merkatd.cluster import Balloon, Limit, Pin
from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.scheduler.base.ports import FullSize, ReleaseResult
from tests.hypervisor.bed import Bed, at_once, balloon, limit, pin
from tests.hypervisor.double import DoubleDomain, DoubleHost
from tests.hypervisor.handle import NO_QUOTA
from tests.hypervisor.xl import FakeXl

PINNING = LibvirtSettings(pin_hosts=frozenset({"*"}), reserved_cores=frozenset({0}))


def whole(vm: int, host: int = 0, cpu_units: float = 150) -> FullSize:
    """A VM of one and a half cores."""
    return FullSize(vm=vm, host=host, cpu_units=cpu_units, memory_mib=1024, vcpus=2)


def limited(kind: str, most_shares: int = 262_144) -> tuple[Bed, DoubleHost, DoubleDomain]:
    """A VM that has every limit there is."""
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
def test_a_virtual_machine(most_shares: int, own: int) -> None:
    """Control groups of version 1 have 1024 a core, those of version 2 have 100."""
    bed, _, there = limited("qemu", most_shares)
    assert there.pins != [(True,) * 4] * 2
    did = at_once(bed.adapter.release([whole(0)]))
    assert did == {
        0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory, no pins")
    }
    assert there.scheduler["vcpu_quota"] == there.scheduler["global_quota"] == NO_QUOTA
    assert there.scheduler["cpu_shares"] == own
    assert there.held_kib == there.size_kib
    assert there.pins == [(True,) * 4] * 2
    assert there.emulator == (True,) * 4
    assert there.stats_period_s == 0


def test_a_container() -> None:
    """Its hard limit is its size again."""
    bed, _, there = limited("lxc")
    did = at_once(bed.adapter.release([whole(0)]))
    assert did == {0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory")}
    assert there.scheduler == {"cpu_shares": 1536, "vcpu_period": 100_000, "vcpu_quota": NO_QUOTA}
    assert there.held_kib == there.size_kib


def test_a_xen_guest(tmp_path: Path) -> None:
    """No cap, 256 a core, and pins by the command for it."""
    xl = FakeXl(tmp_path)
    xl.pin("one-0", "1", "2")
    _, host, there = limited("xen")
    fresh = Bed({0: host}, replace(PINNING, xen_command=xl.command))
    did = at_once(fresh.adapter.release([whole(0)]))
    assert did == {
        0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory, no pins")
    }
    assert there.scheduler == {"weight": 384, "cap": 0}
    assert there.held_kib == there.size_kib
    assert xl.pins("one-0") == ["all", "all"]


def test_by_a_daemon_that_knows_nothing_yet() -> None:
    """It was started only for this: what an earlier one set goes as well."""
    _, host, there = limited("qemu")
    fresh = Bed({0: host}, PINNING)
    assert at_once(fresh.adapter.release([whole(0)]))[0].problem == ""
    assert there.scheduler["vcpu_quota"] == NO_QUOTA
    assert there.pins == [(True,) * 4] * 2
    assert there.stats_period_s == 0


def test_what_was_there_before_stays() -> None:
    """How often a guest tells its use, where Merkat did not set it."""
    host = DoubleHost()
    there = host.start(0, stats_period_s=3)
    bed = Bed({0: host})
    bed.read()
    at_once(bed.adapter.release([whole(0)]))
    assert there.stats_period_s == 3


def test_hosts_that_are_away_are_named() -> None:
    """And the VMs that could not be given back what they had."""
    bed, host, _ = limited("qemu")
    host.up = False
    did = at_once(bed.adapter.release([whole(0)]))
    assert did[0].did == ""
    assert "reset by peer" in did[0].problem


def test_one_thing_that_fails_keeps_back_no_other() -> None:
    """It is named."""
    bed, host, there = limited("qemu")
    host.refuse = lambda call, _domain: 38 if call == "setMemory" else None
    did = at_once(bed.adapter.release([whole(0)]))[0]
    assert did.did == "no CPU quota and OpenNebula's CPU weight, no pins"
    assert did.problem.startswith("full memory: ")
    assert there.scheduler["vcpu_quota"] == NO_QUOTA


def test_once_more_is_as_good() -> None:
    """And setting limits again is possible."""
    bed, _, there = limited("qemu")
    at_once(bed.adapter.release([whole(0)]))
    assert at_once(bed.adapter.release([whole(0)]))[0].problem == ""
    bed.read()
    assert bed.apply(limit(0, vcpu=20_000)) == {}
    assert there.scheduler["vcpu_quota"] == 20_000
