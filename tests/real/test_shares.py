"""Shares are real: the measured CPU of a guest is the share that it was given."""

import time

import libvirt
import numpy as np
import pytest

from merkatd.limits import UNSET, to_cgroup
from merkatd.limits.cpu_limits import quotas
from tests.real.domains import Guest, boot, contain
from tests.real.host import RealHost
from tests.real.measuring import Got, measured
from tests.real.port import PERIOD_US, Port, balloon, limit, pin

WINDOW_S = 4.0
VM = 3
ABOVE, BELOW = 1.05, 0.90
TICKS_S = 0.1
"""The error of a reading: hundredths of a second for each of a guest's threads."""
MOMENTS = 8
"""The number of measurements, of which the machine must be calm in one."""
MOMENT_S = 1.5
SETTLING_S = 0.5
"""A few periods of the kernel, in which a guest may use what it saved before the quota."""


@pytest.fixture(scope="module")
def guest(hosts: list[RealHost]) -> Guest:
    """Return a guest with two busy virtual CPUs, alone on the machine."""
    return boot(hosts[0], VM, vcpus=2)


@pytest.mark.parametrize("units", [10, 25, 50, 120])
def test_a_share_is_what_is_really_got(port: Port, guest: Guest, units: int) -> None:
    """It is at most 5 % above the share and 10 % below, in percent of a core, over two vCPUs.

    This includes QEMU's other threads, which no quota of virtual CPUs counts. Their use grows with
    the load of the machine, so the least of several measurements counts.
    """
    quota = quotas(np.array([float(units)]), np.array([2]), np.array([False]), PERIOD_US)
    port.read({VM: 0})
    port.apply(limit(VM, vcpu=int(quota.vcpu_us[0]), all_vcpus=int(quota.global_us[0])))
    time.sleep(SETTLING_S)
    got = measured(lambda: guest.vcpu_s, WINDOW_S)
    assert got.within(units * BELOW / 100, units * ABOVE / 100), got
    moments: list[Got] = []
    while len(moments) < MOMENTS and not any(
        moment.least <= units * ABOVE / 100 for moment in moments
    ):
        moments.append(guest.got(MOMENT_S))
    assert min(moment.least for moment in moments) <= units * ABOVE / 100, moments
    use = port.read({VM: 0})
    assert use.in_force.vcpu_quota_us.tolist() == [quota.vcpu_us[0]]


@pytest.mark.parametrize("units", [25, 120])
def test_a_pinned_vm_gets_its_share(port: Port, guest: Guest, units: int) -> None:
    """A pinned VM has one quota for all its virtual CPUs, on cores of its own."""
    quota = quotas(np.array([float(units)]), np.array([2]), np.array([True]), PERIOD_US)
    port.read({VM: 0})
    port.apply(pin(VM, (1,), (0,)), limit(VM, all_vcpus=int(quota.global_us[0])))
    got = _settled(guest)
    assert got.within(units * BELOW / 100, units * ABOVE / 100), got
    threads = guest.threads()
    assert (threads["CPU 0/TCG"], threads["CPU 1/TCG"]) == ({1}, {0})
    port.apply(pin(VM), limit(VM, vcpu=PERIOD_US))
    assert guest.threads()["CPU 0/TCG"] == guest.threads()["CPU 1/TCG"] == {0, 1}
    assert guest.scheduling["global_quota"] < 0


def test_other_threads_are_limited_with_it(port: Port, guest: Guest) -> None:
    """One call removes a quota that another program sets for these threads."""
    share = limit(VM, vcpu=25_000, all_vcpus=52_500)
    port.read({VM: 0})
    port.apply(share)
    drift = port.hypervisors.reach().drift
    live = libvirt.VIR_DOMAIN_AFFECT_LIVE
    guest.domain.setSchedulerParametersFlags({"emulator_quota": 5_000}, live)
    assert port.read({VM: 0}).in_force.vcpu_quota_us.tolist() == [UNSET]
    port.apply(share)
    assert guest.scheduling["emulator_quota"] < 0
    assert guest.scheduling["global_quota"] == 52_500
    for _ in range(2):
        there = port.read({VM: 0}).in_force
        assert there.vcpu_quota_us.tolist() == [25_000]
        assert there.global_quota_us.tolist() == [52_500]
    assert port.hypervisors.reach().drift == drift + 1


def test_readings_are_the_cpu_time_used(port: Port, guest: Guest) -> None:
    """The reading is the CPU time in core-seconds, and grows with use."""
    port.apply(limit(VM, vcpu=25_000))
    first_s = guest.cpu_s
    before_s = port.read({VM: 0}).cpu_s[0]
    time.sleep(1.0)
    after_s = port.read({VM: 0}).cpu_s[0]
    last_s = guest.cpu_s
    assert first_s - TICKS_S <= before_s < after_s <= last_s + TICKS_S


def test_containers_are_limited_alike(port_lxc: Port, hosts: list[RealHost]) -> None:
    """By the same steps: 25 % for each of two virtual CPUs is half a core."""
    held = contain(hosts[1], 8)
    port_lxc.read({8: 1})
    port_lxc.apply(limit(8, vcpu=25_000, shares=512))
    got = _settled(held)
    assert got.within(0.5 * BELOW, 0.5 * ABOVE), got
    assert held.scheduling["cpu_shares"] == to_cgroup(512)


def test_the_memory_of_a_container_that_others_change(
    port_lxc: Port, hosts: list[RealHost]
) -> None:
    """Merkat notices the change and sets the memory again."""
    size_mib = 512
    held = contain(hosts[1], 9, memory_mib=size_mib)
    port_lxc.read({9: 1})
    port_lxc.apply(balloon(9, size_mib - 16))
    drift = port_lxc.hypervisors.reach().drift
    live = libvirt.VIR_DOMAIN_AFFECT_LIVE
    for _ in range(2):
        assert port_lxc.read({9: 1}).in_force.memory_mib.tolist() == [size_mib - 16]
    held.domain.setMemoryFlags((size_mib - 8) * 1024, live)
    for _ in range(2):
        assert port_lxc.read({9: 1}).in_force.memory_mib.tolist() == [size_mib - 8]
    port_lxc.apply(balloon(9, size_mib - 16))
    assert held.domain.memoryParameters(live)["hard_limit"] == (size_mib - 16) * 1024
    assert port_lxc.read({9: 1}).in_force.memory_mib.tolist() == [size_mib - 16]
    assert port_lxc.hypervisors.reach().drift == drift + 1


def _settled(guest: Guest) -> Got:
    time.sleep(SETTLING_S)
    return guest.got(WINDOW_S)
