"""Limits and the balloon: their lifetime, errors, and remote calls."""

from __future__ import annotations

import json

import pytest

from merkatd.embedded.machines.core_division import LimitsError
from merkatd.embedded.model.settings import HostSize
from tests.embedded.guests import job, rates, small, start
from tests.embedded.support import Bench


def test_the_balloon_moves_at_a_bounded_speed() -> None:
    """It is fast while the guest has free memory, slow while it takes used memory."""
    bench = small(2, balloon_mib_s=100, squeeze_mib_s=10, margin_mib=64)
    (vm_id,) = start(bench, job(0))
    bench.cloud.guests.set_limits(vm_id, memory_mib=400)

    def balloon() -> float:
        return bench.cloud.guests.read([vm_id])[vm_id].balloon_mib

    bench.advance(2)
    assert balloon() == pytest.approx(824)
    bench.advance(2.48)
    assert balloon() == pytest.approx(576)
    bench.advance(6.4)
    assert balloon() == pytest.approx(512)
    bench.advance(100)
    assert balloon() == pytest.approx(400)
    assert bench.cloud.guests.read([vm_id])[vm_id].used_mib == pytest.approx(400)
    bench.cloud.guests.set_limits(vm_id, memory_mib=1024)
    bench.advance(1)
    assert balloon() == pytest.approx(500)


def test_a_guest_below_its_use_swaps() -> None:
    """With half of its used memory it does half of the work at full CPU use."""
    bench = small(2, squeeze_mib_s=1000, balloon_mib_s=1000, margin_mib=0)
    (vm_id,) = start(bench, job(1000))
    bench.cloud.guests.set_limits(vm_id, memory_mib=256)
    bench.advance(10)
    before = bench.ok("embedded.guest.progress", vm_id)["done"]
    assert rates(bench, [vm_id], 20) == pytest.approx([1.0])
    after = bench.ok("embedded.guest.progress", vm_id)["done"]
    assert after - before == pytest.approx(10)


def test_limits_last_until_the_next_boot() -> None:
    """A reboot inside the guest and a live migration keep them; a new domain does not."""
    bench = Bench(2)
    vm_id = bench.running("CPU=1.5 VCPU=2 MEMORY=512")
    guests = bench.cloud.guests

    def limited() -> bool:
        return guests.read([vm_id])[vm_id].limits.global_quota == 50_000

    assert guests.read([vm_id])[vm_id].limits.cpu_shares == 1536
    for kept in (("one.vm.action", "reboot", vm_id), ("one.vm.migrate", vm_id, 1, True)):
        guests.set_limits(vm_id, global_quota=50_000)
        bench.ok(*kept)
        bench.advance(5)
        assert limited()
    assert guests.read([vm_id])[vm_id].host == 1
    bench.ok("one.vm.migrate", vm_id, 0, False)
    bench.advance(5)
    assert not limited()
    for verb in ("poweroff", "suspend"):
        guests.set_limits(vm_id, global_quota=50_000)
        bench.ok("one.vm.action", verb, vm_id)
        bench.advance(5)
        bench.ok("one.vm.action", "resume", vm_id)
        bench.advance(5)
        assert not limited()


def test_a_live_migration_fails_if_the_target_lacks_a_pinned_core() -> None:
    """The VM returns to the source; without the pin it migrates."""
    bench = Bench(1)
    bench.cloud.add_hosts(1, HostSize(200, 8192))
    vm_id = bench.running()
    bench.cloud.guests.set_limits(vm_id, pins=[[5]])
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.advance(5)
    assert bench.vm(vm_id).history[-1].host == 0
    bench.cloud.guests.set_limits(vm_id, pins=[[]])
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.advance(5)
    assert bench.vm(vm_id).history[-1].host == 1


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu_shares": 1},
        {"vcpu_quota": 10},
        {"global_quota": 0},
        {"memory_mib": 9999},
        {"memory_mib": 0},
        {"pins": [[99]]},
        {"pins": [[0], [1]]},
    ],
)
def test_limits_out_of_range_are_errors(limits: dict[str, object]) -> None:
    """They name the VM and change nothing; remote calls report them for each VM."""
    bench = Bench()
    vm_id = bench.running()
    before = bench.cloud.guests.read()
    with pytest.raises(LimitsError, match=f"VM {vm_id}: "):
        bench.cloud.guests.set_limits(vm_id, **limits)  # type: ignore[arg-type]  # on purpose
    assert bench.cloud.guests.read() == before
    assert list(bench.ok("embedded.limits.set", {str(vm_id): limits})) == [str(vm_id)]


def test_limits_are_set_and_read_remotely_in_bulk() -> None:
    """One call serves many VMs; VMs that do not run are reported, and the others are set."""
    bench = Bench()
    vm_ids = [bench.running() for _ in range(2)]
    pending = bench.new()
    wanted = {str(vm_id): {"vcpu_quota": 20_000, "memory_mib": 300} for vm_id in vm_ids}
    refused = bench.ok("embedded.limits.set", {**wanted, str(pending): {"cpu_shares": 5}})
    assert list(refused) == [str(pending)]
    bench.advance(10)
    read = bench.ok("embedded.limits.read", vm_ids)
    assert [read[str(vm_id)]["limits"]["vcpu_quota"] for vm_id in vm_ids] == [20_000, 20_000]
    assert read["0"]["balloon_mib"] == pytest.approx(300)
    assert set(bench.ok("embedded.limits.read")) == {"0", "1"}
    assert bench.refused("embedded.limits.set", {"0": {"nonsense": 1}})[0] == 4096
    assert bench.refused("embedded.limits.set", {"x": {}})[0] == 4096


def test_the_table_equals_the_structs() -> None:
    """It has the requested order, and pins only of pinned VMs."""
    bench = Bench()
    vm_ids = [bench.running() for _ in range(3)]
    bench.cloud.guests.set_limits(1, vcpu_quota=20_000, pins=[[0]], memory_mib=300)
    bench.advance(10)
    structs = bench.ok("embedded.limits.read", vm_ids)
    table = json.loads(bench.ok("embedded.limits.table", [2, 9, 1]))
    assert table["vm"] == [2, 1]
    for name in ("host", "cpu_s", "balloon_mib", "used_mib"):
        assert table[name] == [structs[key][name] for key in ("2", "1")]
    for name in ("cpu_shares", "vcpu_quota", "global_quota", "memory_mib"):
        assert table[name] == [structs[key]["limits"][name] for key in ("2", "1")]
    assert table["pins"] == {"1": [[0]]}
    assert json.loads(bench.ok("embedded.limits.table"))["vm"] == vm_ids
