"""Guests write to their memory at a rate that follows from their CPU."""

import json

import numpy as np
import pytest

from merkatd.hypervisor import EmbeddedHypervisors
from tests.embedded.guests import small, start
from tests.embedded.support import Bench
from tests.opennebula.worlds import in_memory

WRITES = 'CPU=2 VCPU=2 MEMORY=512 EMBEDDED=[DIRTY_RATE="{}",MEMORY_USE="64"{}]'


def dirty(bench: Bench, vm_id: int) -> float:
    """Return what the guest writes now."""
    return float(bench.ok("embedded.guest.dirty", vm_id))


def test_a_guest_with_all_its_cpu_writes_at_its_rate() -> None:
    """With a quarter of it, it writes a quarter; off, nothing."""
    bench = small(4)
    (vm_id,) = start(bench, WRITES.format(80, ""))
    assert dirty(bench, vm_id) == pytest.approx(80.0)
    bench.cloud.guests.set_limits(vm_id, global_quota=50_000)
    assert dirty(bench, vm_id) == pytest.approx(20.0)
    bench.ok("one.vm.action", "poweroff-hard", vm_id)
    bench.advance(60)
    assert dirty(bench, vm_id) == 0.0


def test_a_guest_that_has_finished_writes_nothing() -> None:
    """Nor does one that wants no CPU."""
    bench = small(4)
    done, lazy = start(bench, WRITES.format(80, ',WORK="4"'), WRITES.format(80, ',DEMAND="0"'))
    bench.advance(60)
    assert dirty(bench, lazy) == 0.0
    assert dirty(bench, done) == pytest.approx(0.0)


@pytest.mark.parametrize("wrong", ["-1", "nan", "inf", "1e10", "much", ""])
def test_a_wrong_rate_counts_as_missing(wrong: str) -> None:
    """The call names the missing attribute, and the hosts report no rate."""
    bench = small(4)
    (vm_id,) = start(bench, WRITES.format(wrong, ""))
    code, why = bench.refused("embedded.guest.dirty", vm_id)
    assert code == 2048
    assert "has no dirty rate: EMBEDDED must have a valid DIRTY_RATE" in why
    assert "dirty_mib_s" not in bench.ok("embedded.limits.read", [vm_id])[str(vm_id)]
    assert json.loads(bench.ok("embedded.limits.table", [vm_id]))["dirty_mib_s"] == [None]


def test_ordinary_users_may_not_read_it() -> None:
    """As all calls of the simulation."""
    bench = small(4)
    (vm_id,) = start(bench, WRITES.format(8, ""))
    assert bench.refused("embedded.guest.dirty", vm_id, session=bench.user("ann"))[0] == 512


def test_the_adapter_reads_the_rates_of_all_guests() -> None:
    """Guests without a rate have none; without any, nothing is measured."""
    world = in_memory()
    vms = [world.running(host, WRITES.format(rate, "")) for host, rate in enumerate(("8", ""))]
    hosts = EmbeddedHypervisors(world.client)
    measured = world.run(hosts.read({vm: host for host, vm in enumerate(vms)})).dirty_mib_s
    assert measured is not None
    np.testing.assert_array_equal(measured, [8.0, np.nan])
    assert world.run(hosts.read({vms[1]: 1})).dirty_mib_s is None
