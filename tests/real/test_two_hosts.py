"""Two real hosts: guests migrate between them, and losing one does not harm the other."""

from pathlib import Path

from tests.real.host import RealHost, until
from tests.real.site import Site, running

STAYS = 'MERKAT_PINNED="YES"'
"""Keeps the market from migrating a VM; an administrator still can."""
WANTED_US = {2: {50_000}, 3: {33_333}}
"""Quotas by the number of VMs with equal bids on a host of one core."""
IN_TIME = 3
"""The most periods until a new bid is in force: the period under way, the period that uses the bid,
and one that may end before the test reads it."""
LIMIT = 'call_limit = "2s"'
PINNED = 'pin_hosts = ["*"]\nreserved_cores = [1]'


def test_limits_follow_a_migration(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """Within a period after a live migration, the limits are set on the new host."""
    with running(tmp_path, mortal_hosts, cores=1) as site:
        vms = [site.new(1.0, vcpus=1, more=STAYS) for _ in range(3)]
        site.after_periods(3)
        vm = next(vm for vm in vms if site.guests.there[vm] != site.guests.there[vms[0]])
        assert site.guest(vm).quota_us() in {50_000, 100_000}
        target = site.guests.there[vms[0]]
        site.call("one.vm.migrate", vm, target, True, False, -1, 0)
        until(lambda: site.guests.there[vm] == target, "it moves")
        # The first of these periods may have begun before the guest arrived.
        site.after_periods(2)
        assert site.guest(vm).quota_us() in WANTED_US[len(_on(site, target))]
        assert not site.failed


def test_a_migrating_guest_delays_no_other(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """During a long migration other guests there get limits in time, and it does on arrival."""
    with running(tmp_path, mortal_hosts, cores=1) as site:
        vms = [site.new(1.0, vcpus=1, more=STAYS) for _ in range(3)]
        vm = next(vm for vm in vms if site.guests.there[vm] != site.guests.there[vms[0]])
        source, target = site.guests.there[vm], site.guests.there[vms[0]]
        mortal_hosts[source].plug("down")
        length = len(site.output())
        # Each attempt to migrate it fails after a while, and the next one begins.
        site.call("one.vm.migrate", vm, target, True, False, -1, 0)
        until(lambda: f"one-{vm}" in mortal_hosts[target].domains(), "it is on its way")
        site.after_periods(2)
        site.call("one.vm.update", vms[0], 'MERKAT_BID_CPU="3"', 1)
        before = site.periods()
        until(lambda: site.guest(vms[0]).quota_us() == 60_000, "the others are served")
        assert site.periods() <= before + IN_TIME
        assert "is away" not in site.output()[length:]
        mortal_hosts[source].plug("up")
        until(lambda: site.guests.there[vm] == target, "it comes")
        until(lambda: site.guest(vm).quota_us() == 20_000, "it is served")


def test_a_lost_host_harms_no_other(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """After a power cut, the other host's guests get limits in time, and the daemon reports it."""
    with running(tmp_path, mortal_hosts, cores=1, transport="ssh", more=LIMIT) as site:
        vms = [site.new(1.0, vcpus=1, more=STAYS) for _ in range(4)]
        site.after_periods(3)
        lost = mortal_hosts[1]
        beside = [vm for vm in vms if site.guests.there[vm] == 0]
        assert len(beside) == 2
        lost.kill()
        site.call("one.vm.update", beside[0], 'MERKAT_BID_CPU="3"', 1)
        before = site.periods()
        until(lambda: site.guest(beside[0]).quota_us() == 75_000, "the other host is served")
        assert site.periods() <= before + IN_TIME
        until(lambda: site.periods() > before, "the period ends as well")
        assert "host001 is away" in site.output()


def test_a_silent_libvirtd_delays_no_other_host(
    mortal_hosts: list[RealHost], tmp_path: Path
) -> None:
    """Other hosts get limits meanwhile, and its own once it answers again."""
    with running(tmp_path, mortal_hosts, cores=1, more=LIMIT) as site:
        vms = [site.new(1.0, vcpus=1, more=STAYS) for _ in range(4)]
        site.after_periods(3)
        silent = mortal_hosts[1]
        here = [vm for vm in vms if site.guests.there[vm] == 0]
        there = [vm for vm in vms if site.guests.there[vm] == 1]
        silent.stall_libvirtd()
        for vm in (here[0], there[0]):
            site.call("one.vm.update", vm, 'MERKAT_BID_CPU="3"', 1)
        before = site.periods()
        until(lambda: site.guest(here[0]).quota_us() == 75_000, "the other host is served")
        assert site.periods() <= before + IN_TIME
        silent.stall_libvirtd(stalled=False)
        until(lambda: site.guest(there[0]).quota_us() == 75_000, "it is served again")


def test_pins_stand_in_the_threads(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """Each virtual CPU is on its own core, and emulator threads are on the reserved core."""
    with running(tmp_path, mortal_hosts[:1], cores=2, more=PINNED) as site:
        vm = site.new(1.0, vcpus=1)
        site.after_periods(3)
        threads = site.guest(vm).threads()
        assert threads["CPU 0/TCG"] == {0}
        assert threads["qemu-system-x86"] == {1}
        assert site.guest(vm).scheduling["global_quota"] > 0
        site.command("release", "--yes")
        threads = site.guest(vm).threads()
        assert threads["CPU 0/TCG"] == threads["qemu-system-x86"] == {0, 1}


def _on(site: Site, host: int) -> list[int]:
    return [vm for vm, there in site.guests.there.items() if there == host]
