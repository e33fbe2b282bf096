"""A VM neither waits for nor pays for the cores of a host whose memory is taken."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Decision, HostState, Migrate, Plan, Snapshot
from merkatd.embedded.model.settings import HostSize
from merkatd.limits import LimitPlan
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.phases.decide import PeriodDecision
from merkatd.scheduler.phases.scarcity import within_memory
from tests.lengths import SOAK
from tests.scheduler.frontend import Frontend

WALL_MIB = 8192 - 100


@pytest.fixture
def walled() -> Frontend:
    """Return five VMs contending for host 0; host 1 has idle cores but no memory."""
    market = MarketRules(pricing=Pricing(rule=PriceRule.PAPER))
    frontend = Frontend(hosts=2, markets=(market,))
    wall = frontend.vm(
        0.1, MEMORY=WALL_MIB, MERKAT_MIN_MEMORY=WALL_MIB, SCHED_REQUIREMENTS="ID = 1"
    )
    frontend.periods(2)
    assert frontend.host_of(wall) == 1
    for _ in range(5):
        vm = frontend.bench.new(
            'CPU="1"\nVCPU="4"\nMEMORY="1024"\nMERKAT_BID_CPU="20"\nMERKAT_BID_MEMORY="0"\n'
            'EMBEDDED=[WORK="1000000",DEMAND="1",MEMORY_USE="64"]'
        )
        frontend.bench.ok("one.vm.deploy", vm, 0)
    frontend.clock.advance(60)
    return frontend


def test_a_vm_that_finds_no_memory_pays_on_its_own_host(walled: Frontend) -> None:
    """Its neighbours pay the same, and the other host's VM gets that host's cores."""
    walled.periods(6)
    announcement = walled.period()
    decided: PeriodDecision = announcement.decided
    vms = announcement.seen.snapshot.vms
    assert decided.limits.postponed  # floors fit, but the memory in use does not
    assert not decided.decision.plan.of(Migrate)
    share = decided.decision.allocations[:, 0]
    on_0 = vms.host == 0
    assert on_0.sum() == 5
    np.testing.assert_allclose(share[on_0], 80.0)
    assert share[~on_0].tolist() == [200.0]  # two virtual CPUs
    walled.close()


class TestTurns:
    """Repeated decisions, with a strategy that always returns the same plan."""

    @staticmethod
    def turns(walled: Frontend, hopeless: int) -> tuple[list[tuple[int, int]], PeriodDecision]:
        """Return the movable VMs and open hosts of each round; the first rounds are hopeless."""
        decided: PeriodDecision = walled.period().decided
        moves = Plan(
            tuple(Migrate(period=1, vm=vm, host=1, source=0, reason="", gain=1.0) for vm in (1, 2))
        )
        seen: list[tuple[int, int]] = []

        def decide(snapshot: Snapshot, _: Mapping[int, int]) -> tuple[Decision, LimitPlan]:
            seen.append(
                (int(snapshot.vms.movable.sum()), int((snapshot.hosts.state == HostState.ON).sum()))
            )
            late = {1: frozenset({1})} if len(seen) <= hopeless else {}
            limits = replace(decided.limits, hopeless=late, postponed=dict.fromkeys(late, "full"))
            return replace(decided.decision, plan=moves), limits

        snapshot = walled.period().seen.snapshot
        decision, limits = within_memory(snapshot, decide)
        return seen, replace(decided, decision=decision, limits=limits)

    def test_a_feasible_decision_is_taken_once(self, walled: Frontend) -> None:
        """It needs no second round."""
        seen, decided = self.turns(walled, 0)
        assert seen == [(6, 2)]
        assert 1 not in decided.limits.postponed

    def test_the_vm_stays_then_the_host_closes_then_all_vms_stay(self, walled: Frontend) -> None:
        """The rounds end, whatever a strategy does."""
        seen, decided = self.turns(walled, 1)
        assert seen == [(6, 2), (5, 2)]
        assert decided.limits.postponed[1] == "full"
        seen, _ = self.turns(walled, 99)
        assert seen == [(6, 2), (5, 2), (5, 2), (5, 1), (0, 1)]


def _shrinking(rule: PriceRule) -> tuple[Frontend, int]:
    """Return a large VM that must wait for a host where a balloon shrinks slowly."""
    market = MarketRules(pricing=Pricing(rule=rule))
    frontend = Frontend(hosts=2, size=HostSize(800, 64 * 1024), markets=(market,))

    def vm(bid: float, memory: int, use: int, host: str) -> int:
        lines = {
            "CPU": 1,
            "VCPU": 8,
            "MEMORY": memory,
            "MERKAT_BID_CPU": bid,
            "MERKAT_BID_MEMORY": 0,
            "SCHED_REQUIREMENTS": host,
        }
        text = "\n".join(f'{name}="{value}"' for name, value in lines.items())
        work = f'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="{use}"]'
        return frontend.bench.new(f"{text}\n{work}")

    for _ in range(3):
        vm(20, 512, 64, "ID = 0")
    large = vm(20, 32 * 1024, 30 * 1024, "ID = 0")
    vm(0.1, 62 * 1024, 64, "ID = 1")
    frontend.periods(2)
    frontend.bench.ok("one.vm.update", large, 'SCHED_REQUIREMENTS="ID < 9"', 1)
    return frontend, large


@pytest.mark.parametrize("rule", [PriceRule.CLEARING, *[PriceRule.PAPER] * SOAK])
def test_a_vm_waiting_for_room_pays_on_its_own_host(rule: PriceRule) -> None:
    """It has its share and its limits there until it migrates."""
    frontend, large = _shrinking(rule)
    waited = 0
    for _ in range(12):
        announcement = frontend.period()
        decided: PeriodDecision = announcement.decided
        if frontend.host_of(large) == 1:
            break
        if large in decided.limits.postponed:
            waited += 1
            allocation = decided.decision.allocations
            row = announcement.seen.snapshot.vm_row(large)
            np.testing.assert_allclose(allocation[announcement.seen.snapshot.vms.host == 0, 0], 200)
            assert allocation[row, 0] == pytest.approx(200)
            assert frontend.limits(large).global_quota > 0
        frontend.clock.advance(60)
    assert waited >= 2
    assert frontend.host_of(large) == 1
    frontend.close()


def test_a_vm_waiting_for_room_has_limits_after_a_restart() -> None:
    """Its host must still give it the share that it pays for there."""
    frontend, large = _shrinking(PriceRule.CLEARING)
    announcement = frontend.period()
    assert large in announcement.decided.limits.postponed
    before = frontend.limits(large).global_quota
    frontend.clock.advance(10)
    frontend.bench.ok("one.vm.action", "poweroff-hard", large)
    frontend.clock.advance(5)
    frontend.bench.ok("one.vm.action", "resume", large)
    frontend.clock.advance(15)
    assert frontend.limits(large).global_quota == before > 0
    frontend.close()
