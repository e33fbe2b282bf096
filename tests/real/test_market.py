"""All of Merkat on real hosts: guests slow down and speed up with the price."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.domains import cores_used
from tests.real.host import RealHost, until
from tests.real.site import Site, running

WINDOW_S = 4.0
CHECK_EVERY = 3
"""The periods in which the limits of each VM are read back once."""


@pytest.fixture
def site(mortal_hosts: list[RealHost], tmp_path: Path) -> Iterator[Site]:
    """Yield a site with one host of one core, for which two guests compete."""
    host = mortal_hosts[0]
    host.keep_to(0)
    more = f'check_every = {CHECK_EVERY}\nretry_least = "1s"\nretry_most = "2s"'
    with running(tmp_path, [host], cores=1, more=more) as running_site:
        yield running_site


def test_bids_divide_a_core_and_move_with_it(site: Site) -> None:
    """Shares are 1 to 3 within 10 %, then 3 to 1; a guest that is alone has the whole core."""
    vms = [site.new(1.0, vcpus=1), site.new(3.0, vcpus=1)]
    site.after_periods(3)
    lower, higher = cores_used([site.guest(vm) for vm in vms], WINDOW_S)
    assert higher / lower == pytest.approx(3.0, rel=0.1)
    got = site.guest(vms[0]).got(WINDOW_S)
    assert got.within(0.225, 0.2625), got
    site.call("one.vm.update", vms[0], 'MERKAT_BID_CPU="9"', 1)
    site.after_periods(3)
    nine, three = cores_used([site.guest(vm) for vm in vms], WINDOW_S)
    assert nine / three == pytest.approx(3.0, rel=0.1)
    site.call("one.vm.action", "terminate-hard", vms[0])
    site.after_periods(4)
    got = site.guest(vms[1]).got(WINDOW_S)
    assert got.within(0.9, 1.1), got
    assert not site.failed


def test_foreign_changes_are_reverted(site: Site) -> None:
    """Foreign changes are reverted and counted within the periods that check every VM once."""
    vm = site.new(1.0, vcpus=1)
    site.new(3.0, vcpus=1)
    site.after_periods(CHECK_EVERY + 1)
    assert site.status()["drift"] == 0
    guest = site.guest(vm)
    wanted = guest.scheduling
    assert wanted["vcpu_quota"] == 25_000
    # The kernel accepts no quota of a virtual CPU above that of the whole VM.
    changed = {"vcpu_quota": 26_000, "cpu_shares": 77}
    assert wanted["global_quota"] > changed["vcpu_quota"]
    guest.domain.setSchedulerParametersFlags(changed, 1)
    # The first of these periods may have begun before the change.
    site.after_periods(CHECK_EVERY + 1)
    assert guest.scheduling == wanted
    assert site.status()["drift"] == len(changed)


def test_nothing_is_sent_while_nothing_changes(site: Site) -> None:
    """While all limits are as decided, no step is planned, and libvirtd receives only reads."""
    vms = [site.new(1.0, vcpus=1), site.new(3.0, vcpus=1)]
    site.after_periods(4)
    host = site.hosts[0]
    steps, changes = site.steps_sent(), host.changes()
    assert changes >= len(vms)
    site.after_periods(5)
    assert (site.steps_sent(), host.changes()) == (steps, changes)
    assert [site.guest(vm).scheduling["vcpu_quota"] for vm in vms] == [25_000, 75_000]


def test_release_leaves_no_trace(site: Site) -> None:
    """Release restores the quotas, shares and pins that OpenNebula had set."""
    vms = [site.new(1.0, vcpus=1), site.new(3.0, vcpus=1)]
    site.after_periods(3)
    assert site.guest(vms[0]).scheduling["vcpu_quota"] == 25_000
    site.command("release", "--yes")
    for vm in vms:
        guest = site.guest(vm)
        assert guest.scheduling["vcpu_quota"] < 0
        assert guest.scheduling["global_quota"] < 0
        assert guest.scheduling["cpu_shares"] == 1024
        assert guest.threads()["CPU 0/TCG"] == {0}


def test_libvirtd_may_die_and_come_back(site: Site) -> None:
    """Guests keep their limits meanwhile; afterwards limits follow the bids again."""
    host = site.hosts[0]
    vms = [site.new(1.0, vcpus=1), site.new(3.0, vcpus=1)]
    site.after_periods(3)
    host.kill_libvirtd()
    site.after_periods(2)
    host.start_libvirtd()
    guests = [site.guest(vm) for vm in vms]
    until(lambda: None not in [guest.quota_us() for guest in guests], "it knows its guests again")
    assert [guest.quota_us() for guest in guests] == [25_000, 75_000]
    site.call("one.vm.update", vms[0], 'MERKAT_BID_CPU="9"', 1)
    until(lambda: guests[0].quota_us() == 75_000, "the new bid's limit")
    assert not site.failed
