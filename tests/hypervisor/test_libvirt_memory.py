"""Memory through libvirt: balloons are set, observed and measured."""

import dataclasses
import math

import pytest

from merkatd.limits import UNSET, MemorySettings
from merkatd.limits import LimitsSettings as Limits
from tests.hypervisor.bed import Bed, balloon
from tests.hypervisor.double import DoubleHost


class TestMemory:
    """Balloons and hard limits."""

    @pytest.mark.parametrize("kind", ["qemu", "lxc", "xen"])
    def test_is_set_and_observed(self, kind: str) -> None:
        """Each hypervisor sets the memory and reports it."""
        host = DoubleHost(kind)
        host.start(0, used_mib=100.0)
        bed = Bed({0: host})
        bed.read()
        assert bed.apply(balloon(0, 700)) == {}
        seen = bed.read()
        assert seen.held_mib.tolist() == [700.0]
        assert seen.in_force.memory_mib.tolist() == [700]
        assert seen.in_force.balloon.tolist() == [True]

    @pytest.mark.parametrize(("kind", "left"), [("qemu", 64), ("lxc", 128)])
    def test_a_guest_that_uses_more_by_now_is_not_shrunk(self, kind: str, left: int) -> None:
        """Half of a VM's margin may be gone since the decision, and nothing of a container's."""
        host = DoubleHost(kind)
        there = host.start(0, used_mib=100.0)
        bed = Bed({0: host})
        bed.read()
        there.used_mib = 700.0 - left + 1
        step = balloon(0, 700)
        assert f"less than {left} MiB free" in bed.apply(step)[step.id]
        assert there.held_kib == there.size_kib
        there.used_mib = 700.0 - left
        assert bed.apply(step) == {}

    @pytest.mark.parametrize("kind", ["qemu", "lxc"])
    def test_unpaid_memory_is_taken_even_if_it_is_used(self, kind: str) -> None:
        """The guest had its time to give it back."""
        host = DoubleHost(kind)
        there = host.start(0, used_mib=100.0)
        bed = Bed({0: host})
        bed.read()
        there.used_mib = 900.0
        assert bed.apply(dataclasses.replace(balloon(0, 700), unpaid=True)) == {}
        assert there.held_kib == 700 * 1024

    def test_broken_balloons_are_detected(self) -> None:
        """A balloon may be missing, stuck, or without statistics."""
        host = DoubleHost()
        host.start(0, balloon="none")
        host.start(1, follows=False)
        host.start(2, used_mib=None)
        host.start(3)
        bed = Bed({0: host})
        bed.read()
        assert bed.read().in_force.balloon.tolist() == [False, True, False, True]
        assert bed.apply(balloon(1, 700), balloon(3, 700)) == {}
        seen = bed.read()
        assert seen.in_force.balloon.tolist() == [False, False, False, True]
        assert seen.held_mib.tolist() == [1024.0, 1024.0, 1024.0, 700.0]
        assert math.isnan(seen.used_mib[2])

    def test_a_guest_that_only_says_that_it_gave_memory_back_holds_it(self) -> None:
        """Its own driver writes the balloon's size; the host counts the process's memory."""
        host = DoubleHost()
        there = host.start(0, memory_mib=8192)
        bed = Bed({0: host})
        bed.read()
        assert bed.apply(balloon(0, 2048)) == {}
        assert bed.read().held_mib.tolist() == [2048.0]
        there.kept_kib = there.size_kib + 200 * 1024
        assert bed.read().held_mib.tolist() == [7368.0]
        assert bed.apply(balloon(0, 2048)) == {}
        bed.clock.advance(40.0)
        assert bed.read().in_force.balloon.tolist() == [False]

    def test_memory_changed_by_others_is_detected(self) -> None:
        """After a change or a reboot the old target no longer counts and is sent again."""
        host = DoubleHost()
        there = host.start(0)
        bed = Bed({0: host})
        bed.read()
        assert bed.apply(balloon(0, 700)) == {}
        bed.read()
        there.held_kib = there.size_kib
        seen = bed.read()
        assert seen.in_force.memory_mib.tolist() == [UNSET]
        assert seen.in_force.balloon.tolist() == [True]
        assert bed.adapter.reach().drift == 1
        assert bed.apply(balloon(0, 700)) == {}
        assert bed.read().held_mib.tolist() == [700.0]
        assert bed.adapter.reach().drift == 1

    def test_unmeasured_guests_may_be_trusted(self) -> None:
        """With the administrator's setting, guests without statistics have a balloon."""
        host = DoubleHost()
        host.start(2, used_mib=None)
        trusting = Limits(memory=MemorySettings(shrink_unmeasured=True))
        assert Bed({0: host}, limits=trusting).read().in_force.balloon.tolist() == [True]
