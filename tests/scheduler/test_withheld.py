"""While planned migrations have not started, hosts are divided among their current VMs."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Migrate
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.settings import Delays, HostSize
from merkatd.placement import strategy_named
from merkatd.placement.changes.migration_waves import migration_waves
from merkatd.placement.changes.withheld_moves import withheld_vms
from merkatd.scheduler.base.settings import MarketRules
from tests.lengths import SOAK, shorten
from tests.placement.test_halves import tight
from tests.scheduler.frontend import PAPER_MARKET, Frontend

CORES = 400.0
ROUNDING = 1.02
"""A limit stays in force while it is within this factor of the requested one."""

WAITING = {"tabu": (13, 5, 17), "paper": (8, 0, 12), "groups": (7, 12, 16)}
"""In these clouds migrations wait, and their VMs' shares could be given away too early."""

CLOUDS = (50, 54, 66, 107, 140, 165, 238, *range(20))
"""In the first clouds parts of a regrouping do more harm than the rest repairs."""


def quota(frontend: Frontend, vm: int) -> float:
    """Return the VM's quota in percent of a core."""
    vcpus: int = frontend.bench.vm(vm).vcpus
    return float(frontend.limits(vm).vcpu_quota) * vcpus / 1000.0


def crowded(seed: int, strategy: str) -> tuple[Frontend, list[int]]:
    """Return hosts with nearly full memory, so that migrations wait for each other."""
    rng = np.random.default_rng(seed)
    hosts = int(rng.integers(2, 4))
    frontend = Frontend(hosts=hosts, markets=(MarketRules(strategy=strategy),))
    vms = []
    for _ in range(hosts * 4):
        memory = int(rng.choice([1024, 2048, 3072]))
        vm = frontend.vm(
            cpu_bid=round(float(rng.lognormal()), 2),
            VCPU=int(rng.integers(1, 5)),
            MEMORY=memory,
            MERKAT_MIN_MEMORY=int(memory * 0.9),
            MERKAT_BID_MEMORY=0.1,
        )
        frontend.bench.raw("one.vm.deploy", vm, int(rng.integers(hosts)))
        vms.append(vm)
    frontend.clock.advance(60)
    return frontend, vms


def withheld_periods(seed: int, strategy: str) -> int:
    """Run periods with changing bids and check the quotas where migrations wait; count them."""
    frontend, vms = crowded(seed, strategy)
    rng, waiting_periods = np.random.default_rng(seed + 1000), 0
    for number in range(8):
        latest = frontend.period()
        moves = [step for step in latest.decided.steps if isinstance(step, Migrate)]
        waits = [step for step in moves if step.id in latest.acted.not_done]
        gone = {step.vm for step in moves} - {step.vm for step in waits}
        waiting_periods += bool(waits)
        for host in {host for step in waits for host in (step.source, step.host)}:
            there = [vm for vm in vms if frontend.host_of(vm) == host and vm not in gone]
            assert sum(quota(frontend, vm) for vm in there) <= CORES * ROUNDING
        frontend.clock.advance(60)
        if number % 3 == 2:
            for vm in rng.choice(vms, 2, replace=False).tolist():
                bid = f"MERKAT_BID_CPU={rng.lognormal(0.0, 1.5):.2f}"
                frontend.bench.ok("one.vm.update", vm, bid, 1)
    frontend.agree()
    frontend.close()
    return waiting_periods


@pytest.mark.parametrize("name", WAITING)
def test_quotas_never_exceed_a_host_while_migrations_wait(name: str) -> None:
    """Neighbours get no part of the share of a VM that has not left."""
    seeds = WAITING[name][: shorten(3, 1)]
    assert sum(withheld_periods(seed, name) for seed in seeds) >= len(seeds)


@pytest.mark.parametrize("name", WAITING)
def test_each_migration_without_a_predecessor_is_in_a_wave(name: str) -> None:
    """No plan is repeated in each period without ever starting."""
    entry = strategy_named(name)
    frontend = Frontend(hosts=1, markets=(MarketRules(strategy=name),))
    world, plans = frontend.scheduler.world, 0
    for seed in CLOUDS:
        snapshot = tight(seed)
        plan = entry.decide(snapshot).plan
        late = {step.vm for step in plan.of(Migrate) if step.after}
        assert withheld_vms(world.markets, snapshot, plan) == late
        plans += len(
            migration_waves(
                world.markets, snapshot, plan, [step for step in plan if not step.after]
            )
        )
    assert plans >= 5
    frontend.close()


@pytest.mark.parametrize("seed", [6, *[8, 35] * SOAK])
def test_a_regrouping_of_idle_vms_is_carried_out(seed: int) -> None:
    """It is judged by recent use, when it is planned and when it is sent."""
    rng = np.random.default_rng(seed)
    market = MarketRules(strategy="groups")
    frontend = Frontend(hosts=2, size=HostSize(400, 16384), markets=(market,))
    vms = []
    for _ in range(6):
        vcpus, bid = int(rng.integers(1, 5)), float(rng.choice([0.5, 1, 2, 4]))
        embedded = f'EMBEDDED=[WORK="1000000",DEMAND="{rng.choice([0.1, 1])}",MEMORY_USE="256"]'
        text = f'CPU=1\nVCPU="{vcpus}"\nMEMORY=1024\nMERKAT_BID_CPU="{bid}"\n{embedded}'
        vms.append(frontend.bench.new(text))
    frontend.periods(4)
    edit = f"MERKAT_BID_CPU={float(rng.choice([0.2, 8]))}"
    frontend.bench.ok("one.vm.update", vms[0], edit, 1)
    begun = [frontend.periods(1) for _ in range(12)]
    planned = [announcement.decided.decision.plan.of(Migrate) for announcement in begun]
    assert any(planned)
    assert not planned[-1]
    assert not any(announcement.acted.not_done for announcement in begun)
    for host in (0, 1):
        there = [vm for vm in vms if frontend.host_of(vm) == host]
        assert sum(quota(frontend, vm) for vm in there) <= CORES * ROUNDING
    frontend.close()


@pytest.mark.parametrize("rules", [MarketRules(), MarketRules(strategy="groups"), PAPER_MARKET])
def test_a_migrating_vm_keeps_its_quota_on_its_source(rules: MarketRules) -> None:
    """A transfer of 205 s: its neighbour gets the rest of the cores once it has left."""
    frontend = Frontend(hosts=2, markets=(rules,))
    world = frontend.cloud.world
    world.settings = replace(world.settings, delays=Delays(memory_mib_s=10.0))
    frontend.bench.ok("one.host.status", 1, 1)
    moved, stays = (frontend.vm(cpu_bid=5.0, VCPU=4) for _ in range(2))
    frontend.periods(4)
    assert quota(frontend, stays) == pytest.approx(CORES / 2, rel=0.02)
    frontend.bench.ok("one.host.status", 1, 0)
    frontend.bench.ok("one.vm.migrate", moved, 1, True)
    frontend.clock.advance(5)
    during = 0
    while frontend.state(moved) == "MIGRATE":
        latest = frontend.period()
        both = quota(frontend, moved) + quota(frontend, stays)
        assert both <= CORES * ROUNDING
        row = latest.seen.snapshot.vm_row(stays)
        assert latest.decided.decision.allocations[row, 0] == pytest.approx(CORES / 2, rel=0.02)
        during += 1
        frontend.clock.advance(60)
    assert during >= 3
    frontend.period()
    assert quota(frontend, stays) == pytest.approx(CORES, rel=0.02)
    frontend.agree()
    frontend.close()


def test_a_vm_that_migrates_to_a_host_without_an_answer_keeps_its_quota() -> None:
    """It can't get a lower quota: another owner's higher bid gets only what that leaves."""
    frontend = Frontend(hosts=2)
    world = frontend.cloud.world
    world.settings = replace(world.settings, delays=Delays(memory_mib_s=10.0))
    frontend.bench.ok("one.host.status", 1, 1)
    moved, stays = (frontend.vm(cpu_bid=5.0, VCPU=4) for _ in range(2))
    frontend.periods(4)
    frontend.bench.ok("one.host.status", 1, 0)
    frontend.bench.ok("embedded.host.down", 1, False)
    frontend.periods(4)
    frontend.bench.ok("one.vm.migrate", moved, 1, True)
    frontend.clock.advance(5)
    frontend.bench.ok("one.vm.update", stays, 'MERKAT_BID_CPU="50"', 1)
    for _ in range(2):
        latest = frontend.period()
        assert frontend.state(moved) == "MIGRATE"
        row = latest.seen.snapshot.vm_row(moved)
        assert latest.seen.snapshot.vms.source[row] == -1
        assert quota(frontend, moved) == pytest.approx(CORES / 2, rel=0.02)
        assert quota(frontend, moved) + quota(frontend, stays) <= CORES * ROUNDING
        frontend.clock.advance(30)
    frontend.close()


def test_vms_that_leave_one_after_another_exceed_no_host() -> None:
    """A drain takes several periods, and each transfer too: who stays gets no room in advance.

    The first VMs leave, and the others get their room. These leave only with lower quotas.
    """
    frontend = Frontend(hosts=2)
    world = frontend.cloud.world
    frontend.bench.ok("one.host.status", 1, 1)
    vms = [frontend.vm(cpu_bid=5.0, VCPU=4, MEMORY=512) for _ in range(8)]
    frontend.periods(4)
    world.settings = replace(world.settings, delays=Delays(memory_mib_s=2.0))
    frontend.bench.ok("one.host.status", 1, 0)
    frontend.order(Order.DRAIN, 0)
    for _ in range(12):
        latest = frontend.period()
        sent = {step.vm for step in latest.decided.steps if isinstance(step, Migrate)}
        for host in (0, 1):
            there = {guest.vm for guest in frontend.cloud.guests.on_host(host)} - sent
            assert sum(quota(frontend, vm) for vm in there) <= CORES * ROUNDING
        frontend.clock.advance(60)
    assert {frontend.host_of(vm) for vm in vms} == {1}
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    frontend.agree()
    frontend.close()
