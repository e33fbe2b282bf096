"""Patient platforms when VMs, controllers, credits or daemons fail."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from merkatd.cluster.orders import LEAST_LIMIT
from merkatd.database import Database
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.platforms.lifecycle.controller_failures import LASTING_S
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    SetLimit,
    SetSize,
)
from tests.lengths import shorten
from tests.platforms.queues import COST, Queues, closed_after
from tests.platforms.test_standby import Rival, freeze


@pytest.fixture
def site() -> Iterator[Queues]:
    """Return a cloud with one host."""
    yield from closed_after(Queues())


class TestFailures:
    def test_a_failed_vm_of_a_queued_platform_is_replaced(self, site: Queues) -> None:
        """The others keep their data; all start together."""
        platform = site.displaced()
        lost, *others = site.vms(platform)
        site.bench.ok("one.vm.action", "hold", lost)
        site.periods(3)
        assert lost in site.ended()
        site.give_way(platform)
        site.until(platform, "running")
        site.periods(3)
        assert site.states(platform) == {"RUNNING"}
        assert set(others) < set(site.vms(platform))
        assert len(site.vms(platform)) == 3
        assert not set(others) & site.ended()
        assert site.orders(platform).vms == tuple(site.vms(platform))

    def test_a_vm_that_opennebula_refuses_does_not_keep_the_others_waiting(
        self, site: Queues
    ) -> None:
        """After three refusals the others start without it."""
        platform = site.displaced()
        lost, *others = site.vms(platform)
        fault = Fault(FaultKind.REFUSE, "one.vm.allocate", code=4096, text="quota")
        site.cloud.faults.add(fault)
        site.bench.ok("one.vm.action", "hold", lost)
        site.periods(3)
        assert site.orders(platform).vms == ()
        site.give_way(platform)
        site.periods(2)
        assert {site.state(vm) for vm in others} == {"PENDING"}
        site.until(platform, "running", 12)
        assert {site.state(vm) for vm in others} == {"RUNNING"}
        site.cloud.faults.clear()
        site.periods(14)
        assert site.states(platform) == {"RUNNING"}
        assert len(site.vms(platform)) == 3

    def test_a_vm_that_is_off_does_not_keep_the_controller_from_running(self, site: Queues) -> None:
        """The others run and cost credits; the controller replaces the one that is off."""
        platform = site.patient()
        site.until(platform, "running")
        site.periods(1)
        off, *others = site.vms(platform)
        site.bench.ok("one.vm.action", "poweroff-hard", off)
        site.clock.advance(60.0)
        other = site.patient(60_000.0, "2h", owner=site.bob)
        site.until(platform, "queued")
        site.wait(site.manager.stop(other, "bob"))
        site.until(platform, "running")
        assert {site.state(vm) for vm in others} == {"RUNNING"}
        site.periods(1)
        assert platform in site.notes.running
        assert site.act(platform, SetSize(cluster="nodes", count=3, victims=(off,))).accepted
        site.periods(6)
        assert site.states(platform) == {"RUNNING"}
        assert len(site.vms(platform)) == 3

    def test_a_platform_whose_vms_all_fail_is_given_up(self, site: Queues) -> None:
        """It was queued when they failed."""
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
        platform = site.patient()
        found = site.until(platform, "failed", 60)
        assert "its VMs fail one after the other" in found.why
        assert site.alive() == []

    def test_a_failing_controllers_order_ends_after_a_while(self, site: Queues) -> None:
        """Its VMs are saved, and start again once the controller works."""
        platform = site.patient()
        site.until(platform, "running")
        vms, limit = site.vms(platform), site.orders(platform).limit
        site.wait(site.manager.ended(platform, "exit code 1", final=False))
        site.periods(int(LASTING_S / 60.0))
        assert site.states(platform) == {"RUNNING"}
        assert site.orders(platform).limit >= limit
        site.periods(1)
        site.wait(site.manager.ended(platform, "exit code 1", final=False))
        site.until(platform, "queued")
        assert site.orders(platform).limit == LEAST_LIMIT
        assert platform in site.notes.running
        site.periods(2)
        assert site.act(platform, SetLimit(limit=limit), "works").accepted
        site.until(platform, "running")
        assert site.vms(platform) == vms
        site.periods(2)
        assert site.states(platform) == {"RUNNING"}

    @pytest.mark.parametrize("policy", ["stop", "go on"])
    def test_the_budget_ends(self, site: Queues, policy: str) -> None:
        """The platform ends, or waits for its replenishment with its data."""
        top = 'name = "weather"' if policy == "stop" else 'name = "weather"\nover_budget = "go on"'
        platform = site.patient(10 * COST + 1.0, "4h", "10m", top=top)
        site.until(platform, "running")
        if policy == "stop":
            assert "budget is used up" in site.until(platform, "failed", 30).why
            return
        site.until(platform, "queued", 30)
        site.periods(3)
        vms = site.vms(platform)
        assert site.states(platform) <= {"PENDING", "STOPPED"}
        site.update(platform, Update(budget=100.0))
        site.until(platform, "running")
        assert site.vms(platform) == vms


class Cut(Exception):  # noqa: N818 - a kill, not an error
    """The daemon is killed."""


@pytest.mark.parametrize("seed", range(shorten(12, 3)))
def test_a_kill_in_any_transaction_loses_nothing(
    site: Queues, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends before or after a commit; the next one goes on from the database."""
    rng = np.random.default_rng(seed)
    real = Database.run
    left = [0]

    async def run(self: Database, work: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and rng.random() < 0.5:
            raise Cut
        done = await real(self, work)
        if left[0] == 0:
            raise Cut
        return done

    first = site.patient(600.0, "2h", "30m")
    second = site.patient(6_000.0, "3h", owner=site.bob)
    held = False
    monkeypatch.setattr(Database, "run", run)
    for _ in range(24):
        left[0] = int(rng.integers(1, 12))
        with suppress(Cut):
            site.period()
        left[0] = 0
        site.clock.advance(60.0)
        site.start_daemon()
        if rng.random() < 0.2:
            order = site.manager.resume if held else site.manager.suspend
            site.wait(order(second, "bob"))
            held = not held
    monkeypatch.undo()
    site.start_daemon()
    if held:
        site.wait(site.manager.resume(second, "bob"))
    site.until(second, "running", 30)
    assert site.platform(first).state in {"queued", "running"}
    for platform in (first, second):
        assert len(site.vms(platform)) == 3
        assert not set(site.vms(platform)) & site.ended()
    assert sorted(site.alive()) == sorted([*site.vms(first), *site.vms(second)])
    site.wait(site.manager.stop(second, "bob"))
    site.until(first, "running", 30)


def test_two_daemons_share_the_orders(site: Queues) -> None:
    """When the leader freezes, the other goes on with the same order, and starts the controller."""
    platform = site.patient()
    first, second = Rival(site, "first"), Rival(site, "second")
    for one in (first, second):
        one.notes.offered = site.notes.offered
    site.clock.pump([10.0] * 40)
    assert site.platform(platform).state == "running"
    order, vms = site.orders(platform), site.vms(platform)
    assert set(first.notes.running) == {platform}
    freeze(first)
    site.clock.pump([10.0] * 40)
    assert set(second.notes.running) == {platform}
    assert site.orders(platform).id == order.id
    assert site.vms(platform) == vms
    assert site.states(platform) == {"RUNNING"}
    second.end()


@pytest.mark.parametrize("seed", range(shorten(6, 2)))
def test_kills_at_any_moment_lose_no_vm(site: Queues, seed: int) -> None:
    """The daemon is killed after a different number of calls of each period."""
    first = site.patient()
    second = site.patient(6_000.0, "3h", owner=site.bob)
    for period in range(14):
        calls = site.cut_off_after((seed + period) % 4)
        site.try_period()
        site.restore(calls)
        site.clock.advance(60.0)
        site.start_daemon()
    for platform in (first, second):
        assert len(site.vms(platform)) == 3
        assert not set(site.vms(platform)) & site.ended()
    assert len(site.alive()) == 6
    site.until(second, "running")
    assert site.platform(first).state == "queued"
