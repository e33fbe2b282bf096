"""Two real hosts: guests move between them, and one may be lost without harm to the other."""

from pathlib import Path

from tests.real.host import RealHost, until
from tests.real.site import Site, running

STAYS = 'MERKAT_PINNED="YES"'
"""Where the market may not move a VM, though an administrator may."""
WANTED_US = {2: {50_000}, 3: {33_333}}
"""By the number of VMs on a host of one core that all bid alike."""
IN_TIME = 3
"""Periods after which a new bid is in force at the latest: the one that was under way when it
came, one for it, and one that may end before anybody looks."""
LIMIT = 'call_limit = "2s"'
PINNED = 'pin_hosts = ["*"]\nreserved_cores = [1]'


def test_limits_come_along(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """After a live migration between real hosts the limits stand there within a period."""
    with running(tmp_path, mortal_hosts, cores=1) as site:
        vms = [site.new(1.0, vcpus=1, more=STAYS) for _ in range(3)]
        site.after_periods(3)
        vm = next(vm for vm in vms if site.guests.there[vm] != site.guests.there[vms[0]])
        assert site.guest(vm).quota_us() in {50_000, 100_000}
        target = site.guests.there[vms[0]]
        site.call("one.vm.migrate", vm, target, True, False, -1, 0)
        until(lambda: site.guests.there[vm] == target, "it moves")
        # The first of them may have begun before it was there.
        site.after_periods(2)
        assert site.guest(vm).quota_us() in WANTED_US[len(_on(site, target))]
        assert not site.failed


def test_a_guest_on_its_way_holds_up_nobody(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """It comes in for a long time: others there are served in time, it is once it has come."""
    with running(tmp_path, mortal_hosts, cores=1) as site:
        vms = [site.new(1.0, vcpus=1, more=STAYS) for _ in range(3)]
        vm = next(vm for vm in vms if site.guests.there[vm] != site.guests.there[vms[0]])
        source, target = site.guests.there[vm], site.guests.there[vms[0]]
        mortal_hosts[source].plug("down")
        said = len(site.said())
        # Each try to send it ends some time, and is followed by the next.
        site.call("one.vm.migrate", vm, target, True, False, -1, 0)
        until(lambda: f"one-{vm}" in mortal_hosts[target].domains(), "it is on its way")
        site.after_periods(2)
        site.call("one.vm.update", vms[0], 'MERKAT_BID_CPU="3"', 1)
        before = site.periods()
        until(lambda: site.guest(vms[0]).quota_us() == 60_000, "the others are served")
        assert site.periods() <= before + IN_TIME
        assert "is away" not in site.said()[said:]
        mortal_hosts[source].plug("up")
        until(lambda: site.guests.there[vm] == target, "it comes")
        until(lambda: site.guest(vm).quota_us() == 20_000, "it is served")


def test_a_lost_host_harms_no_other(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """Its plug is pulled: the other host's guests are served in time, and the daemon says so."""
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
        assert "host001 is away" in site.said()


def test_a_libvirtd_that_never_answers_holds_up_nobody(
    mortal_hosts: list[RealHost], tmp_path: Path
) -> None:
    """It takes calls and is silent: others are served, and it is again once it speaks."""
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
    """Each virtual CPU on the one core that is for it, emulators on the core reserved for them."""
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
