"""Waves: a partly refused plan leaves the cloud no worse than before."""

from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Migrate, Snapshot
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.error import assess_placement
from merkatd.scheduler.phases.announce import Announcement
from tests.scheduler.frontend import Frontend

SEEDS = (157, 158, 182, 183)
"""In these clouds a partial plan would do harm if all steps were sent at once."""


def crowd(seed: int) -> Frontend:
    """Return three hosts with badly placed VMs: many bids on the first, few on the last."""
    rng = np.random.default_rng(seed)
    frontend = Frontend(hosts=3)
    for _ in range(9):
        vm = frontend.vm(
            cpu_bid=round(float(rng.lognormal(0.0, 1.5)), 3),
            VCPU=int(rng.integers(1, 5)),
            MEMORY=int(rng.choice([1024, 2048, 4096])),
            MERKAT_MIN_MEMORY=1000,
        )
        frontend.bench.ok("one.vm.deploy", vm, int(rng.choice([0, 0, 0, 1, 1, 2])))
    frontend.clock.advance(60)
    return frontend


def shortfall(snapshot: Snapshot, host: Any) -> float:
    """Return the shortfall of the market's VMs, weighted by bids."""
    return float(assess_placement(snapshot, host).shortfall.sum())


def check_no_harm(frontend: Frontend, latest: Announcement) -> None:
    """Check that the migrations of a plan that were made leave no more shortfall than before."""
    snapshot = latest.seen.snapshot
    host = snapshot.vms.host.copy()
    for step in latest.decided.decision.plan.of(Migrate):
        host[snapshot.vm_row(step.vm)] = snapshot.host_row(frontend.host_of(step.vm))
    before = shortfall(snapshot, snapshot.vms.host)
    assert shortfall(snapshot, host) <= before * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_a_partly_refused_plan_does_no_harm(seed: int) -> None:
    """OpenNebula refuses to migrate some of the VMs, unknown in advance."""
    frontend = crowd(seed)
    rng = np.random.default_rng(seed)
    stubborn = [vm for vm in range(9) if rng.random() < 0.5]
    for vm in stubborn:
        text = "[one.vm.migrate] Cannot migrate: the CPU model differs"
        frontend.cloud.faults.add(
            Fault(FaultKind.REFUSE, "one.vm.migrate", vm=vm, code=2048, text=text)
        )
    check_no_harm(frontend, frontend.period())
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize(
    ("seed", "kind", "count", "refused"),
    [(171, FaultKind.REFUSE, -1, [1, 0]), (160, FaultKind.LOSE, 1, [0, 0])],
)
def test_hosts_are_divided_anew_soon_after_a_plan_is_broken_off(
    seed: int, kind: FaultKind, count: int, refused: list[int]
) -> None:
    """Its hosts' limits were set for the whole plan; the VM rests, so one more period is enough.

    OpenNebula refuses a migration, or its answer is lost and the others are not sent.
    """
    frontend = crowd(seed)
    frontend.cloud.faults.add(Fault(kind, "one.vm.migrate", count=count))
    refusals: list[int] = []
    frontend.scheduler.listen(lambda announcement: refusals.append(announcement.acted.refused))
    frontend.scheduler.start()
    frontend.clock.pump([1.0] * 20)
    assert refusals == refused
    frontend.result(frontend.stopped())
    frontend.close()
