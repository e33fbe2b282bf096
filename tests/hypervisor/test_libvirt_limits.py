"""Steps through libvirt: only differences are sent, at once, and refusals are named."""

from dataclasses import replace

import libvirt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.limits import CGROUP_V1, UNSET
from tests.hypervisor.bed import Bed, balloon, limit, pin
from tests.hypervisor.double import DoubleHost
from tests.hypervisor.handle import NO_QUOTA
from tests.lengths import shorten

PINNING = LibvirtSettings(pin_hosts=frozenset({"*"}), reserved_cores=frozenset({0}))


KINDS = st.sampled_from(["qemu", "lxc", "xen"])


QUOTAS = st.integers(1_000, 100_000)


SHARES = st.integers(CGROUP_V1.least, CGROUP_V1.greatest)


@st.composite
def limits(draw: st.DrawFn, vms: int) -> list[Limit]:
    """Draw a limit of any kind for some of the VMs."""
    drawn_limits = []
    for vm in range(vms):
        quota = draw(QUOTAS)
        both = (quota, quota + draw(st.integers(0, quota)))
        vcpu, all_vcpus = draw(st.sampled_from([(quota, None), (None, quota), (None, None), both]))
        if draw(st.booleans()):
            drawn_limits.append(limit(vm, vcpu, all_vcpus, draw(SHARES)))
    return drawn_limits


@settings(deadline=None, max_examples=shorten(100, 30))
@given(kind=KINDS, v2=st.booleans(), data=st.data())
def test_one_application_is_enough(kind: str, v2: bool, data: st.DataObject) -> None:
    """All limits are in force after one application, and a second one changes nothing."""
    host = DoubleHost(kind, most_shares=10_000 if v2 else 262_144)
    for vm in range(4):
        host.start(vm, vcpus=1 + vm)
    bed = Bed({0: host})
    bed.read()
    for _ in range(2):
        steps = data.draw(limits(4))
        assert bed.apply(*steps) == {}
        there = bed.read().in_force
        for step in steps:
            row = step.vm
            assert there.vcpu_quota_us[row] == (step.vcpu_quota_us or UNSET)
            assert there.global_quota_us[row] == (step.global_quota_us or UNSET)
            assert there.shares[row] == step.shares
        host.calls.clear()
        assert bed.apply(*steps) == {}
        assert not host.changes()


@settings(deadline=None, max_examples=shorten(100, 30))
@given(before=limits(3), after=limits(3), data=st.data())
def test_only_differences_are_sent(
    before: list[Limit], after: list[Limit], data: st.DataObject
) -> None:
    """There is one call for each VM whose parameters differ from those in force."""
    host = DoubleHost(data.draw(KINDS))
    for vm in range(3):
        host.start(vm)
    bed = Bed({0: host})
    bed.read()
    bed.apply(*before)
    words = {vm: dict(host.domains[f"one-{vm}"].scheduler) for vm in range(3)}
    host.calls.clear()
    bed.apply(*after)
    now = {vm: dict(host.domains[f"one-{vm}"].scheduler) for vm in range(3)}
    changed = sum(words[vm] != now[vm] for vm in range(3))
    assert sum(host.changes().values()) == changed


def test_each_kind_of_host_gets_its_own_parameters() -> None:
    """KVM gets quotas per virtual CPU or in all, containers in all, and Xen caps."""
    kvm, lxc, xen = DoubleHost("qemu"), DoubleHost("lxc"), DoubleHost("xen")
    for number, host in enumerate((kvm, lxc, xen)):
        host.start(number, vcpus=2)
    bed = Bed({0: kvm, 1: lxc, 2: xen})
    bed.read()
    steps = [limit(vm, vcpu=25_000, shares=CGROUP_V1.greatest) for vm in range(3)]
    assert bed.apply(*steps) == {}
    there = kvm.domains["one-0"].scheduler
    assert there["vcpu_quota"] == 25_000
    assert there["global_quota"] == NO_QUOTA
    assert there["cpu_shares"] == 10_000
    assert lxc.domains["one-1"].scheduler["vcpu_quota"] == 50_000
    assert xen.domains["one-2"].scheduler == {"weight": 65_535, "cap": 50}
    assert bed.apply(limit(0, all_vcpus=120_000), limit(1, all_vcpus=60_000), limit(2)) == {}
    assert kvm.domains["one-0"].scheduler["global_quota"] == 120_000
    assert kvm.domains["one-0"].scheduler["vcpu_quota"] == NO_QUOTA
    assert lxc.domains["one-1"].scheduler["vcpu_quota"] == 60_000
    assert xen.domains["one-2"].scheduler["cap"] == 0


def test_a_refusal_is_named_and_affects_no_other_step() -> None:
    """It names host and reason, and the next reading finds the real limits."""
    host = DoubleHost()
    for vm in range(3):
        host.start(vm)
    bed = Bed({0: host})
    bed.read()
    wrong = libvirt.VIR_ERR_OPERATION_FAILED
    host.refuse = lambda call, domain: (
        wrong if (call, domain) == ("setSchedulerParametersFlags", "one-1") else None
    )
    steps = [limit(vm, vcpu=5_000) for vm in range(3)]
    refused = bed.apply(*steps)
    assert list(refused) == [steps[1].id]
    assert "is refused" in refused[steps[1].id]
    assert bed.read().in_force.vcpu_quota_us.tolist() == [5_000, UNSET, 5_000]
    host.refuse = lambda _call, _domain: None
    assert bed.apply(*steps) == {}
    assert bed.read().in_force.vcpu_quota_us.tolist() == [5_000] * 3


def test_steps_of_ended_and_unknown_vms_are_refused() -> None:
    """Each refusal says why."""
    host = DoubleHost()
    host.start(0)
    bed = Bed({0: host})
    bed.read()
    del host.domains["one-0"]
    gone, unknown = limit(0, vcpu=5_000), limit(7, vcpu=5_000)
    refused = bed.apply(gone, unknown)
    assert "Domain not found" in refused[gone.id]
    assert refused[unknown.id] == "VM 7 runs on no host"


class TestPins:
    """Virtual CPUs on cores, on hosts with pinning."""

    def test_virtual_cpus_and_emulator_threads_are_pinned_and_freed(self) -> None:
        """Emulator threads go to the reserved core, and all pins can be removed."""
        host = DoubleHost()
        there = host.start(0, vcpus=2)
        bed = Bed({0: host}, PINNING)
        assert bed.read().in_force.pins == {}
        assert bed.adapter.topologies()[0].cell == {0: 0, 1: 0, 2: 1, 3: 1}
        assert bed.adapter.topologies()[0].usable == 3
        assert bed.apply(pin(0, ((2,), (3,)))) == {}
        assert there.pins == [(False, False, True, False), (False, False, False, True)]
        assert there.emulator == (True, False, False, False)
        assert bed.read().in_force.pins == {0: ((2,), (3,))}
        host.calls.clear()
        assert bed.apply(pin(0, ((2,), (1,)))) == {}
        assert host.changes() == {"pinVcpuFlags": 1}
        assert bed.apply(pin(0, ())) == {}
        assert there.pins == [(True,) * 4] * 2
        assert there.emulator == (True,) * 4
        assert bed.read().in_force.pins == {}

    def test_cores_that_the_host_lacks_are_refused(self) -> None:
        """The refusal names the host's cores."""
        host = DoubleHost()
        host.start(0)
        bed = Bed({0: host}, PINNING)
        bed.read()
        step = pin(0, ((9,), (1,)))
        assert "has only the cores 0 to 3" in bed.apply(step)[step.id]

    def test_containers_have_no_pins(self) -> None:
        """They get no topology, and a pin is refused."""
        host = DoubleHost("lxc")
        host.start(0)
        bed = Bed({0: host}, PINNING)
        bed.read()
        assert bed.adapter.topologies() == {}
        step = pin(0, ((1,),))
        assert "does not support pins" in bed.apply(step)[step.id]


class TestDrift:
    """Changes of a guest by other programs are reverted, once."""

    def test_quotas_of_other_threads(self) -> None:
        """Threads share the quota of the whole VM and have none of their own."""
        host = DoubleHost()
        there = host.start(0, iothreads=2).scheduler
        bed = Bed({0: host}, LibvirtSettings(check_every=1))
        bed.read()
        step = limit(0, vcpu=20_000, all_vcpus=42_000)
        assert bed.apply(step) == {}
        assert (there["vcpu_quota"], there["global_quota"]) == (20_000, 42_000)
        for number, name in enumerate(("emulator_quota", "iothread_quota", "global_quota"), 1):
            before = there[name]
            there[name] = 30_000
            seen = bed.read().in_force
            assert (seen.vcpu_quota_us[0], seen.global_quota_us[0]) != (20_000, 42_000)
            assert bed.adapter.reach().drift == number
            host.calls.clear()
            assert bed.apply(step) == {}
            assert there[name] == before
            assert host.changes() == {"setSchedulerParametersFlags": 1}
            seen = bed.read().in_force
            assert (seen.vcpu_quota_us[0], seen.global_quota_us[0]) == (20_000, 42_000)

    def test_an_emulator_quota_from_before(self) -> None:
        """It is not counted as drift, and it is removed all the same."""
        host = DoubleHost()
        there = host.start(0).scheduler
        there |= {"emulator_quota": 50_000, "vcpu_quota": 20_000, "global_quota": 42_000}
        bed = Bed({0: host})
        assert bed.read().in_force.vcpu_quota_us.tolist() == [UNSET]
        assert bed.apply(limit(0, vcpu=20_000, all_vcpus=42_000)) == {}
        assert there["emulator_quota"] == NO_QUOTA

    def test_the_pin_of_an_emulator(self) -> None:
        """Emulator threads of a pinned VM return to the reserved cores."""
        host = DoubleHost()
        there = host.start(0, vcpus=2)
        bed = Bed({0: host}, replace(PINNING, check_every=1))
        bed.read()
        step = pin(0, ((2,), (3,)))
        assert bed.apply(step) == {}
        assert bed.read().in_force.emulators_off == frozenset()
        there.emulator = (True,) * 4
        seen = bed.read().in_force
        assert seen.emulators_off == {0}
        assert seen.pins == {0: step.cores}
        assert bed.read().in_force.emulators_off == {0}
        assert bed.adapter.reach().drift == 1
        host.calls.clear()
        assert bed.apply(step) == {}
        assert host.changes() == {"pinEmulator": 1}
        assert there.emulator == (True, False, False, False)
        assert bed.read().in_force.emulators_off == frozenset()
        assert bed.apply(step) == {}
        assert host.changes() == {"pinEmulator": 1}

    def test_the_emulator_of_an_unpinned_vm(self) -> None:
        """OpenNebula may have placed it (EMULATOR_CPUS), so it stays."""
        host = DoubleHost()
        host.start(0).emulator = (False, True, False, False)
        bed = Bed({0: host}, PINNING)
        assert bed.read().in_force.emulators_off == frozenset()
        assert bed.adapter.reach().drift == 0

    def test_partly_set_pins(self) -> None:
        """After a partial failure the pins are read again."""
        host = DoubleHost()
        there = host.start(0, vcpus=2)
        bed = Bed({0: host}, PINNING)
        bed.read()
        wrong = libvirt.VIR_ERR_OPERATION_FAILED
        host.refuse = lambda call, _domain: wrong if call == "pinEmulator" else None
        step = pin(0, ((2,), (3,)))
        assert "is refused" in bed.apply(step)[step.id]
        host.refuse = lambda _call, _domain: None
        seen = bed.read().in_force
        assert seen.pins == {0: ((2,), (3,))}
        assert seen.emulators_off == {0}
        assert bed.apply(step) == {}
        assert there.emulator == (True, False, False, False)

    @pytest.mark.parametrize("by_hand", [300, 900, 1024])
    def test_the_memory_of_a_container(self, by_hand: int) -> None:
        """A limit above or below the set one is reverted."""
        host = DoubleHost("lxc")
        there = host.start(0, used_mib=100.0)
        bed = Bed({0: host}, LibvirtSettings(check_every=2))
        bed.read()
        assert bed.apply(balloon(0, 700)) == {}
        for _ in range(4):
            assert bed.read().in_force.memory_mib.tolist() == [700]
        assert bed.adapter.reach().drift == 0
        there.held_kib = by_hand * 1024
        bed.read()
        seen = bed.read()
        assert seen.in_force.memory_mib.tolist() == [by_hand]
        assert seen.held_mib.tolist() == [float(by_hand)]
        assert bed.adapter.reach().drift == 1
        host.calls.clear()
        assert bed.apply(balloon(0, 700)) == {}
        for _ in range(4):
            assert bed.read().in_force.memory_mib.tolist() == [700]
        assert there.held_kib == 700 * 1024
        assert host.changes() == {"setMemory": 1}
        assert bed.adapter.reach().drift == 1

    def test_the_memory_of_a_container_without_a_limit(self) -> None:
        """Its size is its allocation, and a lower limit was set by another program."""
        host = DoubleHost("lxc")
        there = host.start(0, used_mib=100.0)
        bed = Bed({0: host}, LibvirtSettings(check_every=1))
        bed.read()
        assert bed.read().in_force.memory_mib.tolist() == [UNSET]
        assert bed.adapter.reach().drift == 0
        there.held_kib = 512 * 1024
        assert bed.read().in_force.memory_mib.tolist() == [512]
        assert bed.adapter.reach().drift == 1
