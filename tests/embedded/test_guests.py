"""Guests use the CPU and memory that their limits allow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.machines.guest_behaviour import Behaviour
from merkatd.embedded.machines.guest_simulation import GuestLimits, SimulatedGuest
from merkatd.embedded.model.settings import Guesting
from tests.embedded.guests import START_S, job, rates, small, start
from tests.embedded.support import xml
from tests.lengths import shorten


def test_shares_divide_a_full_host() -> None:
    """OpenNebula's own shares, 1024 a core, divide two cores three to one."""
    bench = small()
    vm_ids = start(bench, "CPU=3 VCPU=2 MEMORY=64", "CPU=1 VCPU=2 MEMORY=64")
    assert rates(bench, vm_ids) == pytest.approx([1.5, 0.5])
    bench.cloud.guests.set_limits(vm_ids[0], cpu_shares=1024)
    assert rates(bench, vm_ids) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"vcpu_quota": 25_000}, 0.5),
        ({"vcpu_quota": 5_000}, 0.1),
        ({"global_quota": 50_000}, 0.5),
        ({"global_quota": 120_000}, 1.2),
        ({"global_quota": 120_000, "vcpu_quota": 25_000}, 0.5),
        ({"global_quota": -1}, 2.0),
    ],
)
def test_quotas_are_hard_caps(limits: dict[str, Any], expected: float) -> None:
    """A quota per virtual CPU counts twice for two virtual CPUs, a global one once."""
    bench = small(4)
    (vm_id,) = start(bench, "CPU=2 VCPU=2 MEMORY=64")
    bench.cloud.guests.set_limits(vm_id, **limits)
    assert rates(bench, [vm_id]) == pytest.approx([expected])


def test_pins_confine_a_guest() -> None:
    """Two guests on one core get half of it each, and the third gets a whole core."""
    bench = small()
    vm_ids = start(bench, *["CPU=1 MEMORY=64"] * 3)
    bench.cloud.guests.set_limits(vm_ids[0], pins=[[0]])
    bench.cloud.guests.set_limits(vm_ids[1], pins=[[0]])
    bench.cloud.guests.set_limits(vm_ids[2], pins=[[1]])
    assert rates(bench, vm_ids) == pytest.approx([0.5, 0.5, 1.0])


def test_a_demand_below_the_share_leaves_the_rest_to_others() -> None:
    """A guest uses no more than its demand."""
    bench = small(1)
    vm_ids = start(bench, "CPU=1 MEMORY=64 EMBEDDED=[DEMAND=0.2]", "CPU=1 MEMORY=64")
    assert rates(bench, vm_ids) == pytest.approx([0.2, 0.8])
    bench.ok("one.vm.update", vm_ids[0], "EMBEDDED=[DEMAND=0.9]", 1)
    assert rates(bench, vm_ids) == pytest.approx([0.5, 0.5])


def test_an_application_slows_down_with_its_share() -> None:
    """Work of 100 core-seconds runs 40 s at full speed, and then at a quarter of it."""
    bench = small(4)
    (vm_id,) = start(bench, job(100, ", ITERATIONS=10"))
    bench.advance(40)
    bench.cloud.guests.set_limits(vm_id, vcpu_quota=25_000)
    bench.advance(240 - 1)
    progress = bench.ok("embedded.guest.progress", vm_id)
    assert progress["done"] == pytest.approx(99.75)
    assert not progress["finished"]
    bench.advance(1.01)
    progress = bench.ok("embedded.guest.progress", vm_id)
    assert progress["finished"]
    begun = START_S
    ends = [10 * n if n <= 4 else 40 + 40 * (n - 4) for n in range(1, 11)]
    assert [number for _, number in progress["log"]] == list(range(1, 11))
    assert [at_s - begun for at_s, _ in progress["log"]] == pytest.approx(ends, abs=0.03)
    assert rates(bench, [vm_id]) == [0.0]


@given(epoch_s=st.floats(0.0, 2e9), steps=st.integers(1, 300), work=st.floats(1.0, 50.0))
@settings(max_examples=shorten(200, 60), deadline=None)
def test_the_log_has_the_last_iteration(epoch_s: float, steps: int, work: float) -> None:
    """Large epoch times have a rounding error, and the log is complete all the same."""
    guest = SimulatedGuest(
        vm=0,
        vcpus=1,
        size_mib=1024,
        balloon_mib=1024.0,
        behaviour=Behaviour(work=work, iterations=steps, memory_use_mib=64.0),
        limits=GuestLimits(cpu_shares=1024, memory_mib=1024),
        host=0,
        at_s=epoch_s,
        rate=1 / 3,
    )
    guest.advance(epoch_s + work, Guesting())
    guest.complete(guest.finish_s(Guesting()), Guesting())
    assert guest.finished
    assert [number for _, number in guest.log] == list(range(1, steps + 1))[-len(guest.log) :]
    assert guest.log[-1][1] == steps


def test_a_guest_may_turn_itself_off() -> None:
    """After its work it is in POWEROFF, and its host stays allocated."""
    bench = small()
    (vm_id,) = start(bench, job(30, ", ON_FINISH=poweroff"))
    bench.advance(29.9)
    assert bench.state(vm_id) == (3, 3)
    bench.advance(0.2)
    assert bench.state(vm_id) == (8, 0)
    assert bench.charged() == {0: (100, 1024, 1)}
    bench.ok("one.vm.action", "resume", vm_id)
    bench.advance(5)
    assert bench.state(vm_id) == (3, 3)


def test_a_crashed_guest_is_powered_off() -> None:
    """Its state is that which monitoring finds; a VM that never ran cannot crash."""
    bench = small()
    (vm_id,) = start(bench, job(30))
    assert bench.ok("embedded.guest.off", vm_id) == vm_id
    assert bench.state(vm_id) == (8, 0)
    assert bench.refused("embedded.guest.off", 99)[1] == "[embedded.guest.off] VM 99 has never run"


def test_an_ended_job_leaves_its_share_to_the_other() -> None:
    """Of two jobs on one core, the longer speeds up when the shorter ends."""
    bench = small(1)
    short, long = start(bench, job(10), job(30))
    bench.advance(20.1)
    assert bench.cloud.guests.guest(short).finished  # type: ignore[union-attr]  # it exists
    bench.advance(19.8)
    assert not bench.cloud.guests.guest(long).finished  # type: ignore[union-attr]  # it exists
    bench.advance(0.2)
    assert bench.cloud.guests.guest(long).finished  # type: ignore[union-attr]  # it exists


CHANGES = st.lists(
    st.tuples(
        st.floats(0.01, 20),
        st.integers(100, 1024),
        st.sampled_from([-1, 10_000, 50_000]),
        st.booleans(),
    ),
    max_size=6,
)


@settings(max_examples=30, deadline=None)
@given(CHANGES)
def test_frequent_readings_change_nothing(changes: list[tuple[float, int, int, bool]]) -> None:
    """In one step or in many, work, time and memory have the same results."""
    watched, alone = small(1), small(1)
    for bench in (watched, alone):
        start(bench, job(25, ", ITERATIONS=5"), job(0))
    for seconds, memory_mib, quota, first in changes:
        vm_id = 0 if first else 1
        for bench in (watched, alone):
            bench.cloud.guests.set_limits(vm_id, memory_mib=memory_mib, vcpu_quota=quota)
        for _ in range(7):
            watched.advance(seconds / 7)
            watched.cloud.guests.read()
        alone.advance(seconds)
    first_guests, other = watched.cloud.guests.read(), alone.cloud.guests.read()
    for vm_id in first_guests:
        assert first_guests[vm_id].cpu_s == pytest.approx(other[vm_id].cpu_s, abs=1e-4)
        assert first_guests[vm_id].balloon_mib == pytest.approx(other[vm_id].balloon_mib, abs=1e-4)
    logs = [bench.ok("embedded.guest.progress", 0)["log"] for bench in (watched, alone)]
    assert [number for _, number in logs[0]] == [number for _, number in logs[1]]
    assert [at_s for at_s, _ in logs[0]] == pytest.approx([at_s for at_s, _ in logs[1]], abs=1e-3)


def test_a_resize_reaches_the_guest_and_is_undone_on_failure() -> None:
    """Memory and CPUs change at once, and return to the old ones if the host fails."""
    bench = small(4)
    (vm_id,) = start(bench, "CPU=1 MEMORY=512")
    bench.ok("one.vm.resize", vm_id, "CPU=2 VCPU=2 MEMORY=1024", False)
    bench.advance(10)
    assert bench.cloud.guests.read()[vm_id].balloon_mib == 1024
    assert rates(bench, [vm_id]) == pytest.approx([2.0])
    bench.cloud.faults.add(Fault(FaultKind.FAIL, lcm="HOTPLUG_RESIZE"))
    bench.ok("one.vm.resize", vm_id, "VCPU=4 MEMORY=2048", False)
    bench.advance(30)
    assert bench.cloud.guests.read()[vm_id].balloon_mib == 1024
    assert rates(bench, [vm_id]) == pytest.approx([2.0])


def test_a_saved_guest_continues() -> None:
    """Suspended it keeps all work, powered off whole iterations, and recreated none."""
    bench = small()
    (vm_id,) = start(bench, job(100, ", ITERATIONS=4"))

    def done() -> float:
        return float(bench.ok("embedded.guest.progress", vm_id)["done"])

    bench.advance(30)
    bench.ok("one.vm.action", "suspend", vm_id)
    bench.advance(100)
    assert done() == pytest.approx(30, abs=0.1)
    bench.ok("one.vm.action", "resume", vm_id)
    bench.advance(11)
    assert done() == pytest.approx(40, abs=0.2)
    bench.ok("one.vm.action", "poweroff-hard", vm_id)
    bench.advance(5)
    assert done() == 25
    bench.ok("one.vm.recover", vm_id, 4)
    bench.advance(5)
    assert bench.refused("embedded.guest.progress", vm_id)[0] == 2048


def test_monitoring_shows_the_use() -> None:
    """CPU is the average over the interval, and memory is limited by the balloon."""
    bench = small(4)
    (vm_id,) = start(bench, "CPU=2 VCPU=2 MEMORY=1024 EMBEDDED=[MEMORY_USE=100]")
    bench.advance(60 - START_S)
    bench.cloud.guests.set_limits(vm_id, global_quota=75_000, memory_mib=512)
    bench.advance(60)
    sample = xml(bench.ok("one.vm.info", vm_id)).find("MONITORING")
    assert sample is not None
    assert float(sample.findtext("CPU", "")) == pytest.approx(75)
    assert sample.findtext("MEMORY") == str(512 * 1024)
    assert len(xml(bench.ok("one.vm.monitoring", vm_id))) == 2
    host = xml(bench.ok("one.host.info", 0))
    assert host.findtext("MONITORING/CAPACITY/USED_CPU") == "75"
    assert host.findtext("MONITORING/CAPACITY/FREE_CPU") == "325"
