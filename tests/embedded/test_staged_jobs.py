"""Guests that are jobs with stages: each has its own work, speeds and memory."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.embedded.machines.guest_behaviour import MOST_STAGES
from tests.embedded.guests import START_S, rates, small, start
from tests.embedded.support import Bench
from tests.lengths import shorten


def staged(stages: str, more: str = "") -> str:
    """Return the template of a VM of four cores that runs a job."""
    return f'CPU=4 VCPU=4 MEMORY=1024 EMBEDDED=[STAGES="{stages}", MEMORY_USE=64{more}]'


def stage_ends(bench: Bench, vm_id: int) -> list[float]:
    """Return the times when stages ended, from the start of the guest on."""
    log = bench.ok("embedded.guest.progress", vm_id)["log"]
    assert [stage for _, stage in log] == list(range(1, len(log) + 1))
    return [at_s - START_S for at_s, _ in log]


def test_each_stage_has_its_greatest_speed_and_memory() -> None:
    """40 core-seconds at 1 core, 120 at 4 cores, and 20 at 2 cores take 40, 30 and 10 s."""
    bench = small(4)
    (vm_id,) = start(bench, staged("40:0:1:100, 120:1:100:700, 20:0:2:50"))
    for used_cores, used_mib, stage in ((1.0, 100, 0), (4.0, 700, 1), (2.0, 50, 2)):
        assert rates(bench, [vm_id], 5) == pytest.approx([used_cores])
        assert bench.cloud.guests.read()[vm_id].used_mib == used_mib
        assert bench.ok("embedded.guest.progress", vm_id)["stage"] == stage
        bench.advance((40, 30, 10)[stage] - 5)
    progress = bench.ok("embedded.guest.progress", vm_id)
    assert (progress["finished"], progress["work"], progress["done"]) == (True, 180, 180)
    assert (progress["iterations"], progress["stage"]) == (3, 3)
    assert stage_ends(bench, vm_id) == pytest.approx([40, 70, 80], abs=0.01)
    assert rates(bench, [vm_id]) == [0.0]


def test_a_stage_waits_for_its_least_speed() -> None:
    """With fewer cores it burns its CPU time without progress."""
    bench = small(4)
    (vm_id,) = start(bench, staged("100:2:4:64"))
    bench.cloud.guests.set_limits(vm_id, global_quota=150_000)
    assert rates(bench, [vm_id], 100) == pytest.approx([1.5])
    assert bench.ok("embedded.guest.progress", vm_id)["done"] == 0
    bench.cloud.guests.set_limits(vm_id, global_quota=200_000)
    bench.advance(49.9)
    assert not bench.ok("embedded.guest.progress", vm_id)["finished"]
    bench.advance(0.2)
    assert bench.ok("embedded.guest.progress", vm_id)["finished"]


def test_a_stage_with_too_little_memory_swaps() -> None:
    """At half of the memory that the second stage uses, it takes twice as long."""
    bench = small(4)
    (vm_id,) = start(bench, staged("10:0:1:64,10:0:1:800"))
    bench.cloud.guests.set_limits(vm_id, memory_mib=400)
    bench.advance(100)
    first, second = stage_ends(bench, vm_id)
    assert first == pytest.approx(10, abs=0.01)
    assert second - first == pytest.approx(20, abs=0.01)


def test_a_finished_job_turns_its_guest_off() -> None:
    """Like other work, if its owner wants that."""
    bench = small(4)
    (vm_id,) = start(bench, staged("4:0:4:64,4:0:4:64", ", ON_FINISH=poweroff"))
    bench.advance(1.9)
    assert bench.state(vm_id) == (3, 3)
    bench.advance(0.2)
    assert bench.state(vm_id) == (8, 0)


def test_a_reboot_loses_the_unfinished_stage() -> None:
    """A suspension loses nothing."""
    bench = small(4)
    (vm_id,) = start(bench, staged("10:0:1:64,100:0:1:64"))
    bench.advance(30)
    bench.ok("one.vm.action", "suspend", vm_id)
    bench.advance(10)
    assert bench.ok("embedded.guest.progress", vm_id)["done"] == pytest.approx(30, abs=0.1)
    bench.ok("one.vm.action", "resume", vm_id)
    bench.advance(5)
    bench.ok("one.vm.action", "poweroff-hard", vm_id)
    bench.advance(5)
    progress = bench.ok("embedded.guest.progress", vm_id)
    assert (progress["done"], progress["stage"]) == (10, 1)


def test_new_stages_count_the_work_that_is_done() -> None:
    """A job of 100 that has done 50 is in the second of its two new stages."""
    bench = small(4)
    (vm_id,) = start(bench, staged("100:0:1:64"))
    bench.advance(50)
    bench.ok("one.vm.update", vm_id, 'EMBEDDED=[STAGES="30:0:1:64,40:0:2:64"]', 1)
    progress = bench.ok("embedded.guest.progress", vm_id)
    assert (progress["stage"], progress["work"]) == (1, 70)
    assert rates(bench, [vm_id], 5) == pytest.approx([2.0])


STAGES = st.lists(
    st.tuples(st.floats(0.1, 200), st.floats(0.1, 8), st.floats(1, 900)), min_size=1, max_size=8
)


@settings(max_examples=shorten(150, 50), deadline=None)
@given(STAGES, st.integers(20_000, 400_000), st.integers(1, 9))
def test_a_job_takes_the_sum_of_its_stages(
    stages: list[tuple[float, float, float]], quota: int, readings: int
) -> None:
    """With a constant share each takes its work over the smaller of share and greatest speed."""
    bench = small(4)
    text = ",".join(f"{work!r}:0:{speed!r}:{mib!r}" for work, speed, mib in stages)
    (vm_id,) = start(bench, staged(text))
    bench.cloud.guests.set_limits(vm_id, global_quota=quota)
    cores = min(4.0, quota / 100_000)
    ends, at_s = [], 0.0
    for work, speed, _ in stages:
        at_s += work / min(cores, speed)
        ends.append(at_s)
    for _ in range(readings):
        bench.advance((at_s + 1) / readings)
        bench.cloud.guests.read()
    assert stage_ends(bench, vm_id) == pytest.approx(ends, abs=0.05)
    assert bench.ok("embedded.guest.progress", vm_id)["finished"]


ONE = "1:0:1:64"
WRONG = [
    "", ",", ONE + ",", "x:0:1:64", "0:0:1:64", "-1:0:1:64", "nan:0:1:64", "inf:0:1:64",
    "1e308:0:1:64", "1:0:0:64", "1:2:1:64", "1:-1:1:64", "1:0:1:-1", "1:0:1:1e308", "1:0:1",
    "1:0:1:64:5", "1:nan:1:64", "1:0:nan:64", "1:0:1e308:64", ",".join([ONE] * 10_000),
    ",".join([ONE] * (MOST_STAGES + 1)), "9" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("stages", WRONG)
def test_wrong_stages_count_as_missing(stages: str) -> None:
    """All of them together: the guest does its WORK."""
    bench = small(4)
    (vm_id,) = start(bench, staged(stages, ", WORK=40"))
    bench.advance(10.1)
    progress = bench.ok("embedded.guest.progress", vm_id)
    assert (progress["work"], progress["finished"], progress["stage"]) == (40, True, 0)


def test_the_most_stages_are_accepted() -> None:
    """Tiny stages end at once, one after another."""
    bench = small(4)
    (vm_id,) = start(bench, staged(",".join(["1e-300:0:1:64"] * MOST_STAGES)))
    bench.advance(0)
    progress = bench.ok("embedded.guest.progress", vm_id)
    assert (progress["stage"], progress["finished"]) == (MOST_STAGES, True)
    assert math.isfinite(progress["done"])
